package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
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
	// recheckAfter is when the driver wants to be asked again; 0 for never.
	recheckAfter time.Duration
}

// observe is the only reader for a Machine that is not being deleted. What could not be read is marked as not
// known in the scope, which is valid also with an error.
func (c *Controller) observe(ctx context.Context, machine *v1alpha1.Machine) (*scope, error) {
	s := &scope{}
	s.Machine = machine
	s.Frozen = c.isFrozen()
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var resolveErr error
	s.Limits = LimitsOf(machine, nil)
	s.Elapsed = c.elapsedTimes(machine)
	if s.Terminal = c.validateMachine(machine); s.Terminal == nil {
		resolveErr = c.resolveClass(ctx, s)
	}
	var instanceErr error
	if s.Unresolved == nil {
		instanceErr = c.observeInstance(ctx, s)
	}
	if s.Terminal == nil {
		s.Terminal = PresetProviderID(s.Observation)
	}
	nodeErr := c.observeNode(ctx, s)
	return s, errors.Join(resolveErr, instanceErr, nodeErr, c.observeUpdate(ctx, s))
}

// elapsedTimes tells how much of its times a Machine has used up.
func (c *Controller) elapsedTimes(machine *v1alpha1.Machine) Elapsed {
	var elapsed Elapsed
	elapsed.Creation = c.countedSince(machine.CreationTimestamp.Time)
	switch valid := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineConfigurationValidCondition); {
	case valid == nil:
	case valid.Status != metav1.ConditionTrue:
		elapsed.Creation = 0
	default:
		elapsed.Creation = min(elapsed.Creation, c.countedSince(valid.LastTransitionTime.Time))
	}
	if healthy := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineHealthyCondition); healthy != nil {
		elapsed.Unhealthy = c.countedSince(healthy.LastTransitionTime.Time)
	}
	if !machine.DeletionTimestamp.IsZero() {
		// The hub's clock has written the one time and the agent's the other: an agent whose clock is ahead must not give a
		// drain up before its time.
		elapsed.Drain = min(c.countedSince(machine.DeletionTimestamp.Time), c.countedSince(c.drainBegun(machine)))
	} else if begun := DrainingSince(machine); !begun.IsZero() {
		elapsed.Drain = c.countedSince(begun)
	}
	return elapsed
}

// drainBegun returns since when an agent of this cluster knows that a Machine is to be deleted, by the agent's own clock: as
// this process remembers, or as the one before has written in the status.
func (c *Controller) drainBegun(machine *v1alpha1.Machine) time.Time {
	begun := c.Clock.Now().Truncate(time.Second) // As precisely as the hub's times, which are compared with it.
	if since := DeletionDrainSince(machine); !since.IsZero() {
		begun = since
	}
	first, _ := c.drains.LoadOrStore(machine.UID, begun)
	begun, _ = first.(time.Time)
	return begun
}

// countedSince returns the time since t that counts.
func (c *Controller) countedSince(t time.Time) time.Duration {
	return max(c.Clock.Since(t)-c.Downtime.FrozenSince(t), 0)
}

// observeUpdate finds out, before anything is drained, whether an instance that is out of date may be updated now.
func (c *Controller) observeUpdate(ctx context.Context, s *scope) error {
	s.Update.Cordoned = s.Node != nil && s.Node.Annotations[v1alpha1.NodeCordonedAnnotation] == node.ForUpdate
	if s.Terminal == nil && BringsKubelet(s.Observation) {
		s.Terminal = Skewed(s.Machine, c.ServerVersion())
	}
	if !OutOfDate(s.Observation) || !Joined(s.Observation) {
		return nil
	}
	err := s.driver.CheckUpdate(ctx, s.driverRequest())
	var unsupported *driver.InPlaceUnsupportedError
	var invalid *driver.InvalidConfigurationError
	switch {
	case errors.As(err, &unsupported):
		s.Update.Unsupported = unsupported.Error()
		return nil
	case errors.As(err, &invalid):
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: invalid.Error()}
		return nil
	case err != nil:
		s.Update.Waiting = err.Error()
		return fmt.Errorf("asking whether the instance can be updated in place: %w", err)
	}
	err = c.observeTurn(ctx, s)
	c.limitUpdate(s)
	return err
}

// validateMachine checks what the hub's API server cannot, before anything is made.
func (c *Controller) validateMachine(machine *v1alpha1.Machine) *Terminal {
	if machine.Spec.ClusterName != c.ClusterName {
		return &Terminal{
			Reason: v1alpha1.ErrorInvalidConfiguration, Node: true,
			Message: fmt.Sprintf("spec.clusterName: want %q, the cluster of this namespace, got %q: create the machine in the other namespace", c.ClusterName, machine.Spec.ClusterName),
		}
	}
	if err := node.Validate(machine); err != nil {
		return &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: err.Error(), Node: true}
	}
	return nil
}

// resolveClass finds driver and class, or the terminal error that keeps it from doing so.
func (c *Controller) resolveClass(ctx context.Context, s *scope) error {
	config := s.Machine.Spec.ProviderConfig
	provider := config.Provider
	if provider == "" {
		provider = v1alpha1.ProviderHollow
	}
	s.class = &driver.Class{Path: "spec.providerConfig.value", Config: config.Value}
	field, remedy := "spec.providerConfig.provider", "name one of these"
	if config.ValueRef != nil {
		class, err := c.findClass(ctx, s.Machine.Namespace, config.ValueRef.Name)
		if err != nil {
			return noteUnresolved(s, err)
		}
		if class == nil {
			s.class = nil
			s.Terminal = &Terminal{Reason: v1alpha1.ErrorMachineClassNotFound, Message: fmt.Sprintf(
				"spec.providerConfig.valueRef.name: no MachineClass %q in namespace %q: create it or name another", config.ValueRef.Name, s.Machine.Namespace)}
			return nil
		}
		field, provider = fmt.Sprintf("spec.provider of MachineClass %q", class.Name), class.Spec.Provider
		remedy = "create another MachineClass with one of these, since a class keeps its provider"
		s.Limits = LimitsOf(s.Machine, class)
		s.class = &driver.Class{Path: "spec.providerConfig", Config: class.Spec.ProviderConfig, NodeTemplate: class.Spec.NodeTemplate}
		if class.Spec.SecretRef != nil {
			s.class.SecretName = class.Spec.SecretRef.Name
		}
	}
	known, ok := c.Drivers[provider]
	if !ok {
		s.class = nil
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorUnknownProvider, Message: fmt.Sprintf(
			"%s: the agent of cluster %q has no provider %q: it has %s: %s", field, c.ClusterName, provider, c.listProviders(), remedy)}
		return nil
	}
	s.driver, s.provider = known, provider
	return nil
}

// noteUnresolved notes why the Machine's class could not be read. Without the class neither the driver nor the timeouts are known,
// so everything stays as it is. A class that cannot be decoded is no error: its repair comes with an event.
func noteUnresolved(s *scope, err error) error {
	s.class = nil
	s.Unresolved = &Unresolved{Reason: v1alpha1.ReasonUnknown, Message: err.Error()}
	var left *undecodable.Error
	if !errors.As(err, &left) {
		return err
	}
	s.Unresolved = &Unresolved{Reason: v1alpha1.ReasonUndecodable, Message: left.Error()}
	return nil
}

// findClass returns a MachineClass, nil if there is none. That there is none is asked of the API server: the cache
// may not have seen yet what was created just before the Machine.
func (c *Controller) findClass(ctx context.Context, namespace, name string) (*v1alpha1.MachineClass, error) {
	class := &v1alpha1.MachineClass{}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	err := c.Hub.Get(ctx, key, class)
	if apierrors.IsNotFound(err) {
		err = c.HubReader.Get(ctx, key, class)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting MachineClass %s: %w", key, err)
	}
	return class, nil
}

// observeInstance asks the Machine's driver for its instance. Without a driver nothing can be made of the
// Machine, but what was made for it before is still there to be seen.
func (c *Controller) observeInstance(ctx context.Context, s *scope) error {
	if s.driver != nil {
		return c.getInstance(ctx, s, s.driver, s.driverRequest())
	}
	for _, name := range c.providerNames() {
		if err := c.getInstance(ctx, s, c.Drivers[name], driver.Request{Machine: s.Machine.DeepCopy()}); err != nil || s.Instance != nil {
			return err
		}
	}
	return nil
}

// driverRequest asks a driver for the Machine as it is to be.
func (s *scope) driverRequest() driver.Request {
	return driver.Request{Machine: s.Machine.DeepCopy(), Class: s.class, CreationTimeout: s.Limits.Creation}
}

func (c *Controller) getInstance(ctx context.Context, s *scope, from driver.Driver, request driver.Request) error {
	instance, err := from.Get(ctx, request)
	var notFound *driver.NotFoundError
	switch {
	case err == nil:
		s.InstanceKnown = true
		s.adoptInstance(instance)
		c.judgeRepair(s)
	case errors.As(err, &notFound):
		s.InstanceKnown = true
		s.providerIDs = append(s.providerIDs, notFound.ProviderID)
		if s.ProviderID == "" {
			s.ProviderID = notFound.ProviderID
		}
	default:
		s.InstanceKnown, s.problem = false, err.Error()
		return fmt.Errorf("getting the instance: %w", err)
	}
	return nil
}

// adoptInstance puts what a driver said about the instance into s.
func (s *scope) adoptInstance(instance driver.Instance) {
	s.Instance = &Instance{State: State(instance.State), Message: instance.Message, UpToDate: instance.UpToDate}
	s.ProviderID, s.taints, s.unwanted = instance.ProviderID, instance.Taints, instance.UnwantedTaints
	s.providerIDs = append(s.providerIDs, instance.ProviderID)
	if instance.RecheckAfter > 0 {
		s.recheckAfter = soonerOf(s.recheckAfter, instance.RecheckAfter)
	}
}

// judgeRepair says whether a failed instance may be recreated now, and if not, when.
func (c *Controller) judgeRepair(s *scope) {
	id, now := string(s.Machine.UID), c.Clock.Now()
	s.MayRepair = true
	switch {
	case s.Instance.State != Failed:
	case c.repairs.IsInBackOffSinceUpdate(id, now):
		s.MayRepair = false
		s.recheckAfter = soonerOf(s.recheckAfter, c.repairs.Get(id))
	case !s.Frozen && s.Terminal == nil && c.isRateLimited(s):
		s.MayRepair, s.problem = false, limitedMessage
	}
}

// observeNode finds the Node of the Machine's name and whether it is the Machine's own. The API server is asked whenever
// the cache is not enough: it may be behind, it may hold labelled Nodes only, and before an instance is made the answer
// has to be of this moment.
func (c *Controller) observeNode(ctx context.Context, s *scope) error {
	found := nodeOf(s.Machine)
	err := c.Target.Get(ctx, client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) || err == nil && (s.InstanceKnown && s.Instance == nil || c.nodes.Behind(found)) {
		found = nodeOf(s.Machine)
		err = c.readNode(ctx, found)
	}
	switch {
	case apierrors.IsNotFound(err):
		s.NodeKnown = true
		return nil
	case err != nil:
		return fmt.Errorf("getting node %s: %w", s.Machine.Name, err)
	}
	proven := node.IsOf(found, s.Machine, s.providerIDs)
	if !proven && (!s.InstanceKnown || s.Terminal != nil) {
		// No driver says which provider ID is the Machine's. What the agent has claimed is reported on, and left as it is.
		if node.Claimed(found, s.Machine) {
			s.Node, s.NodeKnown = found, true
		}
		if s.NodeKnown || !s.InstanceKnown {
			return nil
		}
	}
	s.NodeKnown = true
	if !proven {
		s.NodeConflict = node.ConflictMessage(found, s.providerIDs)
		s.recheckAfter = soonerOf(s.recheckAfter, conflictRecheck)
		return nil
	}
	s.Node = found
	return c.compareNode(s, found)
}

// readNode gets a Node from the target's API server.
func (c *Controller) readNode(ctx context.Context, into *corev1.Node) error {
	err := c.TargetReader.Get(ctx, client.ObjectKeyFromObject(into), into)
	if err == nil {
		c.nodes.Observed(into)
	}
	return err
}

func (c *Controller) compareNode(s *scope, found *corev1.Node) error {
	hollow := s.provider == v1alpha1.ProviderHollow || found.Labels[v1alpha1.HollowNodeLabel] != ""
	s.desired = node.DesiredOf(s.Machine, hollow).WithProviderTaints(s.taints, s.unwanted)
	changes, err := node.ChangesOf(found, s.desired)
	if err != nil {
		return err
	}
	s.changes = changes
	s.NodeDiffers = changes.Any()
	return nil
}

func soonerOf(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}
