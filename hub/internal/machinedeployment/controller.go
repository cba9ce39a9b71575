// Package machinedeployment spreads the Machines of each MachineDeployment over MachineSets, one per template.
package machinedeployment

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/backoff"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinesets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters;simulatedclustersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps is what the controller needs. All but Sets, Snapshots, Safety and Tracing is required.
type Deps struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server: before anything is changed, the decision is taken again on what it says.
	Live     client.Reader
	Recorder events.EventRecorder
	// Agents tells which agents this process has heard.
	Agents *freeze.Agents
	// Sets, if not nil, knows sooner than their status which generation of each set was worked on.
	Sets *machineset.Sets
	// Snapshots, if not nil, passes the Machines that were read live on to the sets.
	Snapshots *machineset.Snapshots
	Clock     clock.PassiveClock
	// Safety says how many Machines of a set are too many. Default machinesets.DefaultOvershootLimits.
	Safety machinesets.OvershootLimits
	// Tracing, if not nil, makes spans.
	Tracing trace.TracerProvider
}

// Controller is the logic of one MachineDeployment: observe, decide, act, report.
type Controller struct {
	Deps
	started  time.Time
	throttle reconciler.StatusThrottle
	steps    stepBatcher
	// refused are the transfers that the API server refused. Each try locks and unlocks sets, whose events would start the next
	// one at once.
	refused backoff.Failures[types.UID]
	// milestones are what the progress deadline is measured by.
	milestones milestones
	surges     *surges
	tracer     *telemetry.Tracer
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Recorder == nil || deps.Agents == nil || deps.Clock == nil {
		return nil, errors.New("making the MachineDeployment controller: a dependency is missing")
	}
	if deps.Safety == (machinesets.OvershootLimits{}) {
		deps.Safety = machinesets.DefaultOvershootLimits
	}
	return &Controller{Deps: deps, started: deps.Clock.Now(), surges: newSurges(), tracer: telemetry.NewTracer(deps.Tracing)}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(deployment *v1alpha1.MachineDeployment) any { return &deployment.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, deployment *v1alpha1.MachineDeployment) (reconciler.Next, error) {
	if filled, err := c.fillReplicas(ctx, deployment); filled || err != nil {
		return reconciler.Next{}, err
	}
	before := deployment.Status.DeepCopy()
	now := c.Clock.Now()
	if before.ObservedGeneration == deployment.Generation {
		c.tracer.Settle(deployment)
	}
	// Before anything is read: what peers give back from here on may not be seen below, and so has to wake it.
	c.surges.registerDeployment(deployment)
	around, err := c.listRelated(ctx, c.Client, deployment, func(ctx context.Context) ([]v1alpha1.MachineSet, error) {
		return c.listSets(ctx, deployment.Namespace)
	})
	if err != nil {
		return reconciler.Next{}, err
	}
	worked := c.workedGenerations(around.sets)
	s, err := c.newScope(deployment, around, worked, now)
	if err != nil {
		return reconciler.Next{}, err
	}
	// Nothing changes a Machine, so the cache need not copy them.
	err = machines.Each(ctx, c.Client, s.addMachine, client.InNamespace(deployment.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return reconciler.Next{}, err
	}
	c.countMachines(s)
	if err := c.addUpcoming(ctx, s, around.cluster); err != nil {
		return reconciler.Next{}, err
	}
	next := reconciler.Next{After: s.counts.NextAvailable}
	var actErr error
	retry, refused := c.refused.Wait(deployment.UID, now)
	d := decide(s)
	if s.heldBy = d.HeldBy; d.isEmpty() && !d.Held {
		c.surges.unregisterDeployment(client.ObjectKeyFromObject(deployment))
	}
	if d.isEmpty() {
		c.trackStep(s, now)
	} else {
		if wait := c.stepDelay(s, d, retry, now); wait > 0 {
			next = next.NoLaterThan(wait)
		} else {
			c.steps.noteStep(deployment.UID)
			actErr = c.act(ctx, deployment, s, worked)
		}
		s.renumbered = d.number
	}
	report(s, cmp.Or(actErr, refused), now)
	next = next.NoLaterThan(c.reportProgress(s, before, now))
	actErr = errors.Join(actErr, freeze.WriteLabel(ctx, c.Client, deployment, deployment.Status.Conditions))
	if !equality.Semantic.DeepEqual(before, &deployment.Status) {
		wait := c.statusDelay(before, deployment, now)
		next.DeferStatus = wait > 0
		next = next.NoLaterThan(wait)
	}
	if !next.DeferStatus {
		c.emitProgress(deployment, before)
		c.emitLeftBehind(s, before)
	}
	return next, actErr
}

// statusDelay returns how long a changed status has to wait; 0 means that it is written now. What is frozen rolls nothing out,
// and a user may be waiting to read what still freezes it.
func (c *Controller) statusDelay(before *v1alpha1.MachineDeploymentStatus, deployment *v1alpha1.MachineDeployment, now time.Time) time.Duration {
	hurry := isUrgent(before, deployment)
	if meta.IsStatusConditionTrue(deployment.Status.Conditions, v1alpha1.FrozenCondition) {
		return c.throttle.Delay(deployment.UID, hurry, now)
	}
	return c.throttle.BackoffDelay(deployment.UID, hurry, countsInterval, now)
}

// countsInterval is that of the counts of a deployment: the longer a rollout takes, the less often they are written.
var countsInterval = reconciler.StatusBounds{First: 2 * reconciler.StatusInterval, Longest: 6 * reconciler.StatusInterval}

// trackStep takes in that there is nothing to do now: while sets still have to work on the last step, the next one starts.
func (c *Controller) trackStep(s *scope, now time.Time) {
	if slices.Contains(slices.Collect(maps.Values(s.unseen)), true) {
		c.steps.noteWaiting(s.deployment.UID, now)
	} else {
		c.steps.noteStep(s.deployment.UID)
	}
}

// stepDelay returns how long a step has to wait; 0 means that it is to be taken now. What answers a user never waits, a
// transfer waits for its retry, and a small step of a rollout for more.
func (c *Controller) stepDelay(s *scope, d decision, retry time.Duration, now time.Time) time.Duration {
	switch {
	case s.deployment.Status.ObservedGeneration != s.deployment.Generation:
		return 0
	case len(d.Move) > 0 || d.Remove != nil:
		return retry
	case !d.onlyScales(), s.deployment.Spec.Strategy.Type == v1alpha1.OnDelete, s.deployment.Spec.Strategy.Type == v1alpha1.InPlace:
		// With the latter two, a step answers a Machine that was lost or that a user deleted. Nothing is gathered for it.
		return 0
	}
	size := 0
	for _, change := range d.changes {
		size += max(change.replicaChange(), -change.replicaChange())
	}
	surge, unavailable := s.deployment.Spec.Strategy.Bounds(replicasOf(s.deployment))
	return c.steps.timeToWait(s.deployment.UID, size >= surge+unavailable, now)
}

// gatherTime is how long the first small step of a rollout waits for more: Machines that come up or go within it are
// answered together, which saves writes.
const gatherTime = 50 * time.Millisecond

// gatherMemory is how long the beginning of a step is remembered that is not taken.
const gatherMemory = time.Minute

// stepBatcher remembers since when each deployment has had a step to take. The zero value is ready for use.
type stepBatcher struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// noteWaiting takes in that deployment waits for something else before its next step, such as for what its sets still have to
// do. What comes up or goes meanwhile is gathered by that wait.
func (g *stepBatcher) noteWaiting(deployment types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, found := g.since[deployment]; !found {
		g.noteChange(deployment, now)
	}
}

// noteStep takes in that deployment takes its step now, or has none to take.
func (g *stepBatcher) noteStep(deployment types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.since, deployment)
}

func (g *stepBatcher) noteChange(deployment types.UID, now time.Time) {
	if g.since == nil {
		g.since = map[types.UID]time.Time{}
	}
	g.since[deployment] = now
}

// timeToWait returns how long a step has to wait; 0 means that it is to be taken now.
// A whole step, to which nothing could be added, never waits.
func (g *stepBatcher) timeToWait(deployment types.UID, whole bool, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, since := range g.since {
		if now.Sub(since) > gatherMemory {
			delete(g.since, uid) // The deployment is gone.
		}
	}
	since, found := g.since[deployment]
	if whole || found && now.Sub(since) >= gatherTime {
		return 0
	}
	if !found {
		g.noteChange(deployment, now)
		since = now
	}
	return since.Add(gatherTime).Sub(now)
}
