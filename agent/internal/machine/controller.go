package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	machineevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
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

// Controller is the reconciler.Logic of Machines. It is made of the parts that a Machine goes through.
type Controller struct {
	orders   *orders
	classes  *classes
	creation *creation
	nodes    *nodes
	times    *lifetimes
	updates  *updates
	removal  *removal
	reports  *reports
	spans    *spans
	steps    map[Action]step
	finder   *OrphanFinder
}

// step is how an action is carried out.
type step struct {
	doing string
	// permitted: the hub is asked first. A drain asks by itself.
	permitted bool
	do        func(context.Context, *scope) error
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if err := deps.checkComplete(); err != nil {
		return nil, err
	}
	hub, target, told := deps.Hub, deps.Target, deps.Reporting
	events := newRecorder(told.Recorder, deps.Clock, told.Metrics)
	orders := newOrders(hub, deps.Freeze, deps.Clock)
	c := &Controller{
		orders:   orders,
		classes:  &classes{hub: hub, drivers: deps.Drivers, serverVersion: target.Version},
		creation: newCreation(deps.Drivers, orders, events, deps.Clock),
		nodes:    &nodes{target: target},
		times:    &lifetimes{clock: deps.Clock, downtime: deps.Freeze.Downtime},
		spans:    &spans{tracer: telemetry.NewTracer(told.Tracing), clock: deps.Clock},
		finder:   newOrphanFinder(hub, target, deps.Drivers, told.Metrics, deps.Clock),
	}
	c.updates = &updates{orders: orders, creation: c.creation, nodes: c.nodes, turns: newSequencer(hub.Client, deps.Wake)}
	c.removal = &removal{orders: orders, classes: c.classes, drivers: deps.Drivers, nodes: c.nodes}
	c.reports = &reports{times: c.times, stalls: newStalls(DefaultStallAfter), events: events, clock: deps.Clock}
	c.steps = c.newSteps()
	return c, nil
}

// newSteps returns how each action is carried out.
func (c *Controller) newSteps() map[Action]step {
	return map[Action]step{
		AddFinalizer: {doing: "adding the finalizer", do: func(ctx context.Context, s *scope) error {
			return c.orders.patchMachine(ctx, s.Machine, func(machine *v1alpha1.Machine) {
				controllerutil.AddFinalizer(machine, v1alpha1.MachineFinalizer)
			})
		}},
		CreateInstance: {doing: "creating the instance", permitted: true, do: c.creation.createInstance},
		UpdateInstance: {doing: "updating the instance", permitted: true, do: c.updates.updateInstance},
		RemoveInstance: {doing: "removing the instance that has ended", permitted: true, do: c.creation.removeEnded},
		CordonNode:     {doing: "cordoning the node", permitted: true, do: c.nodes.cordonNode},
		DrainNode:      {doing: "draining the node", do: c.updates.drainForUpdate},
		UncordonNode:   {doing: "uncordoning the node", do: c.nodes.uncordonNode},
		SyncNode:       {doing: "updating the node", do: c.nodes.syncNode},
		SetProviderID: {doing: "setting spec.providerID", do: func(ctx context.Context, s *scope) error {
			return c.orders.patchMachine(ctx, s.Machine, func(machine *v1alpha1.Machine) { machine.Spec.ProviderID = &s.ProviderID })
		}},
	}
}

// Reconciler returns the reconcile.Reconciler that runs c.
func (c *Controller) Reconciler() *reconciler.Runner[v1alpha1.Machine, *v1alpha1.Machine] {
	hub := c.orders.hub.Client
	runner := reconciler.New[v1alpha1.Machine](hub, hub, c)
	runner.Wrote, runner.Writing = c.orders.machines.Observed, c.spans.traceReady
	return runner
}

// OrphanFinder returns the runnable that looks for what has no Machine.
func (c *Controller) OrphanFinder() *OrphanFinder { return c.finder }

// Status implements reconciler.Logic.
func (c *Controller) Status(machine *v1alpha1.Machine) any { return &machine.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, machine *v1alpha1.Machine) (reconciler.Next, error) {
	if c.orders.isCacheBehind(ctx, machine) {
		// The event that brings the cache up to date wakes this machine.
		return reconciler.Next{After: conflictRetry}, nil
	}
	stored := machine.Status.DeepCopy()
	c.spans.markSettled(machine)
	s := &scope{}
	s.Machine, s.Frozen, s.Elapsed = machine, c.orders.freeze.Check() != nil, c.times.elapsedTimes(machine)
	if !machine.DeletionTimestamp.IsZero() {
		seen, next, err := c.removal.finalizeMachine(ctx, s)
		if seen {
			c.reports.computeStatus(s)
		}
		return c.reports.nextAfter(machine, stored, next, err)
	}
	observeErr := c.observe(ctx, s)
	c.updates.turns.endTurn(s)
	actErr := c.act(ctx, s, Decide(s.Observation))
	c.reports.report(s, actErr)
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
	return c.reports.nextAfter(machine, stored, next, errors.Join(observeErr, actErr))
}

// observe is the only reader for a Machine that is not being deleted. What could not be read is marked as not
// known in the scope, which is valid also with an error.
func (c *Controller) observe(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var resolveErr, instanceErr error
	s.Limits = LimitsOf(s.Machine, nil)
	if s.Terminal = c.classes.validateMachine(s.Machine); s.Terminal == nil {
		resolveErr = c.classes.resolveClass(ctx, s)
		c.classes.checkConfigSource(s)
	}
	if s.Unresolved == nil {
		instanceErr = c.creation.observeInstance(ctx, s)
	}
	if s.Terminal == nil {
		s.Terminal = PresetProviderID(s.Observation)
	}
	nodeErr := c.nodes.observeNode(ctx, s)
	c.classes.checkVersion(s)
	return errors.Join(resolveErr, instanceErr, nodeErr, c.updates.observeUpdate(ctx, s))
}

// act carries actions out, up to the first that fails, or that takes its time.
func (c *Controller) act(ctx context.Context, s *scope, actions []Action) error {
	for _, action := range actions {
		if err := c.takeAction(ctx, s, action); err != nil {
			return fmt.Errorf("%s: %w", c.steps[action].doing, err)
		}
		if action == DrainNode && !s.drain.Over {
			return nil
		}
	}
	return nil
}

// takeAction carries one action out and puts what came of it into s.
func (c *Controller) takeAction(ctx context.Context, s *scope, action Action) (err error) {
	ctx, end := c.spans.traceAction(ctx, s.Machine, action)
	defer func() { end(err) }()
	step := c.steps[action]
	if step.permitted {
		if err := c.orders.checkPermitted(ctx); err != nil {
			return err
		}
	}
	return step.do(ctx, s)
}

// Handler returns what the controller does with the events of Machines: it looks at those that come, change or go, and
// forgets those that are gone. A Machine that had no finalizer, or lost it by force, goes without a reconcile that could
// do so.
func (c *Controller) Handler() handler.TypedEventHandler[*v1alpha1.Machine, reconcile.Request] {
	return &forgetting{controller: c}
}

type forgetting struct {
	handler.TypedEnqueueRequestForObject[*v1alpha1.Machine]
	controller *Controller
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Update implements handler.TypedEventHandler. After a watch was cut off, a Machine and its successor of the same name
// are two versions of one object.
func (f *forgetting) Update(ctx context.Context, change machineevent.TypedUpdateEvent[*v1alpha1.Machine], to queue) {
	if change.ObjectOld.UID != change.ObjectNew.UID {
		f.controller.forgetMachine(change.ObjectOld)
	}
	f.TypedEnqueueRequestForObject.Update(ctx, change, to)
}

// Delete implements handler.TypedEventHandler.
func (f *forgetting) Delete(ctx context.Context, gone machineevent.TypedDeleteEvent[*v1alpha1.Machine], to queue) {
	f.controller.forgetMachine(gone.Object)
	f.TypedEnqueueRequestForObject.Delete(ctx, gone, to)
}

// forgetMachine lets go of all that is remembered of a Machine, and gives its turn to the next.
func (c *Controller) forgetMachine(machine *v1alpha1.Machine) {
	c.reports.forgetMachine(machine.UID)
	c.creation.forgetMachine(machine.UID)
	c.times.drains.Delete(machine.UID)
	c.spans.registering.Delete(machine.UID)
	c.nodes.target.Drain.Forget(machine.Name)
	c.orders.machines.Forget(client.ObjectKeyFromObject(machine))
	c.nodes.seen.Forget(client.ObjectKeyFromObject(nodeOf(machine)))
	c.updates.turns.wakeNext(machine)
}

// scope is what one reconcile knows.
type scope struct {
	Observation
	driver driver.Driver
	class  *driver.Class
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
	s.Instance = &Instance{
		State: State(instance.State), Message: instance.Message, UpToDate: instance.UpToDate,
		Config: instance.KubeletConfiguration, IgnoredFields: instance.IgnoredFields,
	}
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
