package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine/plan"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine/status"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// DefaultStallAfter is how long a Machine on its way to Ready may make no step before its state is written.
	DefaultStallAfter = 15 * time.Second

	// repairBackoff bounds how often a Machine's failed instance is made anew.
	repairBackoffStart, repairBackoffMax = 2 * time.Second, time.Minute
	// conflictRetry is how soon a change that met another writer is tried again, should no event come.
	conflictRetry = time.Second
	// exhaustedRetry is the default wait after a provider had no room.
	exhaustedRetry = time.Minute
	// observeTimeout bounds the reads of one reconcile: an API server that hangs must not hold all workers.
	observeTimeout = 5 * time.Second
	// nodeDeletionRetry is how soon to look again at a Node that somebody's finalizer keeps.
	nodeDeletionRetry = 5 * time.Second
)

// Deps are what a Controller works with. All are required but StallAfter.
type Deps struct {
	// ClusterName is the agent's cluster, and the name of its namespace on the hub.
	ClusterName string
	// Hub reads Machines and MachineClasses of the namespace from the cache. It lets status through while
	// frozen and nothing else.
	Hub client.Client
	// HubReader reads from the hub's API server.
	HubReader client.Reader
	// Target reads Nodes from the cache; its writes are refused while frozen.
	Target client.Client
	// TargetReader reads from the target's API server.
	TargetReader client.Reader
	// Drivers by provider name, gated.
	Drivers map[string]driver.Driver
	// Requests removes the certificate requests of a Node.
	Requests RequestRemover
	Freeze   freeze.Checker
	// Refresh reads what the hub says of the cluster now, so that Freeze knows it before anything is removed.
	Refresh  func(context.Context) error
	Recorder events.EventRecorder
	Clock    clock.Clock
	Metrics  *Metrics
	// StallAfter is DefaultStallAfter if 0.
	StallAfter time.Duration
}

// RequestRemover removes the certificate requests that were made for a Node.
type RequestRemover interface {
	Remove(ctx context.Context, nodeName string) error
}

// Controller is the reconciler.Logic of Machines.
type Controller struct {
	Deps
	hubWrites, nodeWrites *writes
	stalls                *stalls
	repairs               *flowcontrol.Backoff
	events                recorder
	// replaced has the UIDs of Machines whose instance the agent itself took away to make it anew, so that it
	// does not count as lost. It is only a memory.
	replaced sync.Map
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.ClusterName == "" || deps.Hub == nil || deps.HubReader == nil || deps.Target == nil || deps.TargetReader == nil {
		return nil, errors.New("the machine controller needs a cluster name and clients of hub and target")
	}
	if len(deps.Drivers) == 0 || deps.Requests == nil || deps.Freeze == nil || deps.Refresh == nil || deps.Recorder == nil || deps.Clock == nil || deps.Metrics == nil {
		return nil, errors.New("the machine controller needs drivers, a remover of requests, a freeze state and its refresh, a recorder, a clock and metrics")
	}
	if deps.StallAfter == 0 {
		deps.StallAfter = DefaultStallAfter
	}
	return &Controller{
		Deps:       deps,
		hubWrites:  newWrites(deps.Clock),
		nodeWrites: newWrites(deps.Clock),
		stalls:     newStalls(deps.StallAfter),
		repairs:    flowcontrol.NewFakeBackOff(repairBackoffStart, repairBackoffMax, deps.Clock),
		events:     newRecorder(deps.Recorder, deps.Clock),
	}, nil
}

// Reconciler returns the reconcile.Reconciler that runs c.
func (c *Controller) Reconciler() *reconciler.Runner[v1alpha1.Machine, *v1alpha1.Machine] {
	return reconciler.New[v1alpha1.Machine](c.Hub, c.hubWrites.recording(c.Hub), c)
}

// Status implements reconciler.Logic.
func (c *Controller) Status(machine *v1alpha1.Machine) any { return &machine.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, machine *v1alpha1.Machine) (reconciler.Next, error) {
	if c.hubWrites.stale(machine) {
		// The cache is behind the agent's own write. The event that brings it up to date wakes this machine.
		return reconciler.Next{After: conflictRetry}, nil
	}
	stored := machine.Status.DeepCopy()
	if !machine.DeletionTimestamp.IsZero() {
		next, err := c.finalize(ctx, machine)
		return c.outcome(ctx, machine, stored, next, err)
	}
	s, observeErr := c.observe(ctx, machine)
	actErr := c.act(ctx, s, plan.Decide(s.Observation))
	c.report(s, actErr)
	next := reconciler.Next{}.Sooner(s.recheckAfter)
	if s.Frozen {
		// What could not be seen may be just why the agent is frozen. The thaw wakes every machine.
		observeErr = nil
	}
	if errors.Is(actErr, driver.ErrInvalidConfiguration) {
		// It stands in the status. The next change of Machine or MachineClass comes with an event.
		actErr = nil
	}
	return c.outcome(ctx, machine, stored, next, errors.Join(observeErr, actErr))
}

// report puts the status that was observed into the machine, with what came of the actions.
func (c *Controller) report(s *scope, actErr error) {
	var invalid *driver.InvalidConfigurationError
	var frozen *freeze.Error
	switch {
	case errors.As(actErr, &invalid):
		s.Terminal = &plan.Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: invalid.Error()}
	case errors.As(actErr, &frozen):
		s.Frozen = true
	case actErr != nil:
		s.problem = actErr.Error()
	}
	stored := s.Machine.Status
	s.Machine.Status = status.Compute(status.Input{Observation: s.Observation, Problem: s.problem, Now: c.Clock.Now()})
	c.events.terminal(s.Machine, stored)
}

// outcome turns an error into what to do next, and holds a status back that is not worth a write yet.
func (c *Controller) outcome(ctx context.Context, machine *v1alpha1.Machine, stored *v1alpha1.MachineStatus, next reconciler.Next, err error) (reconciler.Next, error) {
	if wait := c.stalls.hold(machine, *stored, c.Clock.Now()); wait > 0 {
		machine.Status = *stored
		next = next.Sooner(wait)
	}
	var frozen *freeze.Error
	var retryable *driver.RetryableError
	var exhausted *driver.ExhaustedError
	switch {
	case err == nil:
		return next, nil
	case errors.As(err, &frozen):
		// The thaw wakes every machine.
		return next, nil
	case errors.As(err, &exhausted):
		after := exhausted.After
		if after <= 0 {
			after = exhaustedRetry
		}
		return next.Sooner(after), nil
	case errors.As(err, &retryable) && retryable.After > 0:
		return next.Sooner(retryable.After), nil
	case isConflict(err):
		klog.FromContext(ctx).V(1).Info("Waiting for the cache after a conflict", "error", err.Error())
		return next.Sooner(conflictRetry), nil
	}
	return reconciler.Next{}, err
}

// frozen tells whether nothing may be changed now.
func (c *Controller) frozen() bool { return c.Freeze.Check() != nil }

// act carries actions out, up to the first that fails.
func (c *Controller) act(ctx context.Context, s *scope, actions []plan.Action) error {
	for _, action := range actions {
		if err := c.step(ctx, s, action); err != nil {
			return fmt.Errorf("%s: %w", stepNames[action], err)
		}
	}
	return nil
}

var stepNames = map[plan.Action]string{
	plan.AddFinalizer:   "adding the finalizer",
	plan.CreateInstance: "creating the instance",
	plan.UpdateInstance: "updating the instance",
	plan.RemoveInstance: "removing the instance that has ended",
	plan.SyncNode:       "bringing the node in line",
	plan.SetProviderID:  "setting spec.providerID",
}

func nodeOf(machine *v1alpha1.Machine) *corev1.Node {
	node := &corev1.Node{}
	node.Name = machine.Name
	return node
}
