package machine

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// scope is what one reconcile knows.
type scope struct {
	Observation
	provider string
	driver   driver.Driver
	class    *driver.Class
	// taints and unwanted are what the driver says of the Node's taints.
	taints, unwanted []corev1.Taint
	desired          node.Desired
	changes          node.Changes
	// providerIDs are what the drivers say that the Machine's Node has; node.UnknownProviderID is among them if one cannot
	// report.
	providerIDs []string
	// ending is set for a Machine being deleted when no driver has an instance of it that is not being removed.
	ending bool
	// problem is a passing trouble, for the status.
	problem string
	// drain is what came of a round of the drain; nil if there was none.
	drain *drain.Report
	// updating: the driver has just updated the instance. updateProblem is why it could not.
	updating      bool
	updateProblem string
	// nameConflict is why the instance cannot be made: an object of its name is somebody else's.
	nameConflict string
	// held is what keeps a deletion, for people.
	held string
	// heldByFinalizers: what keeps it are finalizers of others.
	heldByFinalizers bool
	// recheckAfter is when to look again; 0 for never.
	recheckAfter time.Duration
}

// recheckWithin has the Machine looked at again after a time, or earlier.
func (s *scope) recheckWithin(after time.Duration) { s.recheckAfter = soonerOf(s.recheckAfter, after) }

// driverRequest asks a driver for the Machine as it is to be.
func (s *scope) driverRequest() driver.Request {
	return driver.Request{Machine: s.Machine.DeepCopy(), Class: s.class, CreationTimeout: s.Limits.Creation}
}

// adoptInstance puts what a driver said about the instance into s.
func (s *scope) adoptInstance(instance driver.Instance) {
	s.Instance = &Instance{State: State(instance.State), Message: instance.Message, UpToDate: instance.UpToDate}
	s.ProviderID, s.taints, s.unwanted = instance.ProviderID, instance.Taints, instance.UnwantedTaints
	s.providerIDs = append(s.providerIDs, instance.ProviderID)
	if instance.RecheckAfter > 0 {
		s.recheckWithin(instance.RecheckAfter)
	}
}

func soonerOf(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

func nodeOf(machine *v1alpha1.Machine) *corev1.Node {
	node := &corev1.Node{}
	node.Name = machine.Name
	return node
}
