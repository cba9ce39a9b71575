// Package machine is the agent's controller of Machines: it makes each of its cluster's Machines real through a
// driver, keeps the Node in line with it, and reports to the hub.
//
// # What is written to the hub
//
// From creation to Ready a Machine costs the hub three writes: its creation, spec.providerID when the Node has
// joined, and one status when it is Ready. (A Machine that comes without the agent's finalizer costs a fourth.)
// The steps in between are held back. They are written when a Machine makes no step for StallAfter, so that
// what hangs is seen; and at once when the news is bad: a terminal error, a pod that fails, a machine that was
// Ready and is not any more. At rest nothing is written: heartbeats of Nodes do not even reach the reconcile.
//
// # Deletion
//
// Something is removed only for a Machine that the hub's API server, asked at that moment, shows with a
// deletionTimestamp. First its hooks are waited for and its Node is drained (package drain). Then the instance goes
// and everything that belongs to it, then, when the instance is really gone, the Node and the certificate requests,
// and the finalizer last. Each step finds out again what
// there is, so that a crash between any two of them leaves nothing behind. A Machine that is missing on the hub
// orders nothing: what runs without a Machine is counted and reported, and stays.
//
// # Updates in place
//
// An instance that was made from another configuration is updated where it is: the Node is cordoned and drained, the
// driver updates the instance, and when the Node is Ready again with the version that the Machine wants, it is
// uncordoned. How far this is stands in the condition Updated and in an annotation of the Node, so that any agent can
// continue with it. What was not ordered for the Machine itself, such as the edit of its class, is done for one Machine
// of a MachineSet at a time.
//
// # Time
//
// Timeouts count from times that are on the hub, less what was frozen since and when no agent ran (freeze.Downtime). What
// the conditions tell of an earlier drain does not count for a later one (DrainingSince).
//
// While the agent is frozen the controller keeps observing and reporting and changes nothing; the thaw
// wakes it.
package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

const (
	// DefaultStallAfter is how long a Machine on its way to Ready may make no step before its state is written.
	DefaultStallAfter = 15 * time.Second

	// repairBackoffStart and repairBackoffMax bound how often a Machine's failed instance is recreated.
	repairBackoffStart, repairBackoffMax = 2 * time.Second, time.Minute
	// conflictRetry is how soon a change that met another writer is tried again, should no event come.
	conflictRetry = outcome.ConflictRetry
	// exhaustedRetry is the default wait after a provider had no room.
	exhaustedRetry = time.Minute
	// observeTimeout bounds the reads of one reconcile: an API server that hangs must not hold all workers.
	observeTimeout = 5 * time.Second
	// turnRecheck is how soon a Machine that waits for its turn looks again if no event wakes it.
	turnRecheck = time.Minute
	// refreshAge is how old the answer may be to whether the cluster is frozen.
	refreshAge = time.Second
	// conflictRecheck is how soon a Machine looks again whether the Node of its name that is not its own is still there.
	// The cache of labelled Nodes has no event for that.
	conflictRecheck = 15 * time.Second
	// nodeDeletionRetry is how soon to look again at a Node that another finalizer keeps.
	nodeDeletionRetry = 5 * time.Second
)

// Deps are what a Controller works with. All are required but StallAfter and Tracing.
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
	Drivers  map[string]driver.Driver
	Requests Requests
	Freeze   freeze.Checker
	// Downtime tells how much of a time was frozen.
	Downtime freeze.Downtime
	// ThawLimiter limits how many Machines are taken apart after a thaw.
	ThawLimiter ThawLimiter
	// Drain evicts the pods of a Node, gated.
	Drain Drainer
	// ServerVersion returns the version of the target's API server, empty while it is not known.
	ServerVersion func() string
	// Wake asks for a look at another Machine, by name.
	Wake func(machine string)
	// Refresh reads what the hub says of the cluster now, so that Freeze knows it before anything is removed.
	Refresh  func(context.Context) error
	Recorder events.EventRecorder
	Clock    clock.Clock
	Metrics  *Metrics
	// StallAfter is DefaultStallAfter if 0.
	StallAfter time.Duration
	// Tracing, if not nil, makes spans.
	Tracing trace.TracerProvider
}

// Requests are the certificate requests of hollow Nodes.
type Requests interface {
	// Remove removes those that were made for a Node.
	Remove(ctx context.Context, nodeName string) error
	// Nodes returns the names of the nodes that have asked to join.
	Nodes(ctx context.Context) ([]string, error)
}

// ThawLimiter is asked before the first step that takes something from a Machine.
type ThawLimiter interface {
	// Take returns how long that has to wait, and how much of the past the Machine has waited.
	Take(machine types.UID) (wait, waited time.Duration)
	// Created is told of a Machine whose first instance is made now.
	Created(machine types.UID)
	// Forget forgets a Machine that is gone.
	Forget(machine types.UID)
}

// Drainer drains Nodes.
type Drainer interface {
	// Round evicts what can be evicted from a Node now, and returns what is left.
	Round(ctx context.Context, node *corev1.Node) (drain.Round, error)
	// Forget forgets a Node that is drained no more.
	Forget(node string)
}

// Controller is the reconciler.Logic of Machines.
type Controller struct {
	Deps
	// machines and nodes are what the API servers themselves have told of the Machines and Nodes, as the answer to a write
	// too: what a cache shows of before that is not acted on.
	machines, nodes relist.Tracker

	stalls    *stalls
	repairs   *flowcontrol.Backoff
	events    *recorder
	turns     *sequencer
	refreshes *refreshes
	orders    *refreshes
	// replaced has the UIDs of Machines whose instance the agent itself took away to recreate it, so that it
	// does not count as lost. It is only a memory.
	replaced sync.Map
	// drains has, by the UIDs of Machines that are being deleted, since when this agent knows of it.
	drains sync.Map
	tracer *telemetry.Tracer
	// registering has, by the UIDs of Machines, since when their hollow nodes may register; only for their spans.
	registering sync.Map
}

// missingFields names what is required and not there.
func (d Deps) missingFields() []string {
	var missing []string
	for _, dependency := range []struct {
		name  string
		there bool
	}{
		{"the cluster's name", d.ClusterName != ""},
		{"clients of the hub", d.Hub != nil && d.HubReader != nil},
		{"clients of the target", d.Target != nil && d.TargetReader != nil},
		{"drivers", len(d.Drivers) > 0},
		{"certificate requests", d.Requests != nil},
		{"the freeze state, its refresh, the downtime and the limit after a freeze", d.Freeze != nil && d.Refresh != nil && d.Downtime != nil && d.ThawLimiter != nil},
		{"a drainer", d.Drain != nil},
		{"the target's version", d.ServerVersion != nil},
		{"a way to wake machines", d.Wake != nil},
		{"a recorder", d.Recorder != nil},
		{"a clock", d.Clock != nil},
		{"metrics", d.Metrics != nil},
	} {
		if !dependency.there {
			missing = append(missing, dependency.name)
		}
	}
	return missing
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if missing := deps.missingFields(); len(missing) > 0 {
		return nil, fmt.Errorf("the machine controller lacks %s", strings.Join(missing, ", "))
	}
	if deps.StallAfter == 0 {
		deps.StallAfter = DefaultStallAfter
	}
	return &Controller{
		Deps:      deps,
		stalls:    newStalls(deps.StallAfter),
		repairs:   flowcontrol.NewFakeBackOff(repairBackoffStart, repairBackoffMax, deps.Clock),
		events:    newRecorder(deps.Recorder, deps.Clock, deps.Metrics),
		turns:     newTurns(),
		refreshes: newRefreshes(deps.Clock),
		orders:    newRefreshes(deps.Clock),
		tracer:    telemetry.NewTracer(deps.Tracing),
	}, nil
}

// Reconciler returns the reconcile.Reconciler that runs c.
func (c *Controller) Reconciler() *reconciler.Runner[v1alpha1.Machine, *v1alpha1.Machine] {
	runner := reconciler.New[v1alpha1.Machine](c.Hub, c.Hub, c)
	runner.Wrote, runner.Writing = c.machines.Observed, c.traceReady
	return runner
}

// Status implements reconciler.Logic.
func (c *Controller) Status(machine *v1alpha1.Machine) any { return &machine.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, machine *v1alpha1.Machine) (reconciler.Next, error) {
	if c.isCacheBehind(ctx, machine) {
		// The event that brings the cache up to date wakes this machine.
		return reconciler.Next{After: conflictRetry}, nil
	}
	stored := machine.Status.DeepCopy()
	c.markSettled(machine)
	if !machine.DeletionTimestamp.IsZero() {
		next, err := c.finalizeMachine(ctx, machine)
		return c.nextAfter(ctx, machine, stored, next, err)
	}
	s, observeErr := c.observe(ctx, machine)
	c.endTurn(s)
	actErr := c.act(ctx, s, Decide(s.Observation))
	c.report(s, actErr)
	next := reconciler.Next{}.NoLaterThan(s.recheckAfter)
	if s.nameConflict != "" {
		// It stands in the status, and is looked at again soon.
		actErr = nil
	}
	if s.Frozen {
		// What could not be seen may be just why the agent is frozen. The thaw wakes every machine.
		observeErr = nil
	}
	if errors.Is(actErr, driver.ErrInvalidConfiguration) {
		// It stands in the status. The next change of Machine or MachineClass comes with an event.
		actErr = nil
	}
	return c.nextAfter(ctx, machine, stored, next, errors.Join(observeErr, actErr))
}

// isCacheBehind reports whether the cache is older than what the agent itself has written last. The hub's API server is asked: one
// that has gone back to an older state has nothing newer that could be waited for.
func (c *Controller) isCacheBehind(ctx context.Context, cached *v1alpha1.Machine) bool {
	if !c.machines.Behind(cached) {
		return false
	}
	live := &v1alpha1.Machine{}
	if err := c.HubReader.Get(ctx, client.ObjectKeyFromObject(cached), live); err != nil {
		return true
	}
	c.machines.Observed(live)
	return c.machines.Behind(cached)
}

// report puts the status that was observed into the machine, with what came of the actions.
func (c *Controller) report(s *scope, actErr error) {
	var invalid *driver.InvalidConfigurationError
	var frozen *freeze.Error
	var conflict *driver.NameConflictError
	switch {
	case errors.As(actErr, &conflict):
		s.nameConflict = conflict.Error()
		s.recheckAfter = soonerOf(s.recheckAfter, conflictRecheck)
	case errors.As(actErr, &invalid):
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: invalid.Error()}
	case errors.As(actErr, &frozen):
		s.Frozen = true
	case apierrors.IsConflict(actErr): // Something has changed since it was read. It is read again soon.
	case actErr != nil:
		s.problem = actErr.Error()
	}
	c.computeStatus(s)
}

// computeStatus puts the status into the machine, and asks to be back when its next timeout is over.
func (c *Controller) computeStatus(s *scope) {
	input := Input{
		Observation: s.Observation, Problem: s.problem, Drain: s.drain, Updating: s.updating,
		UpdateProblem: s.updateProblem, NameConflict: s.nameConflict, Held: s.held, HeldByFinalizers: s.heldByFinalizers, Now: c.Clock.Now(),
	}
	if !s.Machine.DeletionTimestamp.IsZero() {
		input.DrainSince = c.drainBegun(s.Machine)
	}
	computed := Compute(input)
	if deadline := Deadline(computed, input); deadline > 0 {
		s.recheckAfter = soonerOf(s.recheckAfter, deadline)
	}
	s.Machine.Status = computed
}

// nextAfter turns an error into what to do next, and holds a status back that is not worth a write yet.
func (c *Controller) nextAfter(ctx context.Context, machine *v1alpha1.Machine, stored *v1alpha1.MachineStatus, next reconciler.Next, err error) (reconciler.Next, error) {
	if wait := c.stalls.writeDelay(machine, *stored, c.Clock.Now()); wait > 0 {
		machine.Status = *stored
		next = next.NoLaterThan(wait)
	}
	// What is held back is no news yet for the events either.
	c.events.sendChanges(machine, *stored)
	var frozen *freeze.Error
	var retryable *driver.RetryableError
	var exhausted *driver.ExhaustedError
	switch {
	case err == nil:
		return next, nil
	case errors.As(err, &frozen):
		// The thaw wakes every machine.
		return next, nil
	case errors.Is(ctx.Err(), context.Canceled):
		// The agent is being stopped, which is nothing to tell an operator.
		return next, nil
	case errors.As(err, &exhausted):
		after := exhausted.After
		if after <= 0 {
			after = exhaustedRetry
		}
		return next.NoLaterThan(after), nil
	case errors.As(err, &retryable) && retryable.After > 0:
		return next.NoLaterThan(retryable.After), nil
	case isConflict(err):
		klog.FromContext(ctx).V(1).Info("Waiting for the cache after a conflict", "error", err.Error())
		return next.NoLaterThan(conflictRetry), nil
	}
	return reconciler.Next{}, err
}

// isFrozen reports whether nothing may be changed now.
func (c *Controller) isFrozen() bool { return c.Freeze.Check() != nil }

// act carries actions out, up to the first that fails, or that takes its time.
func (c *Controller) act(ctx context.Context, s *scope, actions []Action) error {
	for _, action := range actions {
		if err := c.traceAction(ctx, s, action); err != nil {
			return fmt.Errorf("%s: %w", stepNames[action], err)
		}
		if action == DrainNode && !s.drain.Over {
			return nil
		}
	}
	return nil
}

// confirmOrder asks the hub before something comes or goes for it. A hub that was restored a moment ago has told the cache
// what held long ago, and does not count as that which gives this agent its orders.
func (c *Controller) confirmOrder(ctx context.Context, action Action) error {
	switch action {
	case CreateInstance, UpdateInstance, RemoveInstance, CordonNode:
		if err := c.orders.refreshOnce(ctx, c.Refresh); err != nil {
			return fmt.Errorf("asking the hub whether it is the one that gives orders: %w", err)
		}
		return c.Freeze.Check()
	default: // A drain asks by itself.
		return nil
	}
}

var stepNames = map[Action]string{
	AddFinalizer:   "adding the finalizer",
	CreateInstance: "creating the instance",
	UpdateInstance: "updating the instance",
	RemoveInstance: "removing the instance that has ended",
	CordonNode:     "cordoning the node",
	DrainNode:      "draining the node",
	UncordonNode:   "uncordoning the node",
	SyncNode:       "bringing the node in line",
	SetProviderID:  "setting spec.providerID",
}

func nodeOf(machine *v1alpha1.Machine) *corev1.Node {
	node := &corev1.Node{}
	node.Name = machine.Name
	return node
}
