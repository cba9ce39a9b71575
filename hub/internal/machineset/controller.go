// Package machineset keeps the number of Machines that each MachineSet asks for.
package machineset

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;machinesets;machinedeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinesets,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinesets/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinesets/finalizers,verbs=update
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps is what the controller needs. All but Sets, Snapshots, Safety, SafetyPeriod and Tracing is required.
type Deps struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server: before anything is created or deleted, the decision is taken again on
	// what it says.
	Live     client.Reader
	Recorder events.EventRecorder
	// Agents tells which agents this process has heard.
	Agents *freeze.Agents
	// Sets, if not nil, learns which generation of each set was worked on.
	Sets *Sets
	// Snapshots, if not nil, has the Machines that deployments have read live.
	Snapshots *Snapshots
	Clock     clock.PassiveClock
	// Safety says how many Machines are too many. Default plan.DefaultOvershootLimits.
	Safety plan.OvershootLimits
	// SafetyPeriod is how often each set is reconciled for that, beside at each Machine that comes. Default never.
	SafetyPeriod time.Duration
	// Tracing, if not nil, makes spans.
	Tracing trace.TracerProvider
}

// Controller is the logic of one MachineSet: observe, decide, act, report.
type Controller struct {
	Deps
	expected expectations
	throttle reconciler.StatusThrottle
	known    memory
	// replacing is held, for its deployment, by a set that starts to replace Machines.
	replacing reconciler.Locks[types.UID]
	tracer    *telemetry.Tracer
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Recorder == nil || deps.Agents == nil || deps.Clock == nil {
		return nil, errors.New("making the MachineSet controller: a dependency is missing")
	}
	if deps.Safety == (plan.OvershootLimits{}) {
		deps.Safety = plan.DefaultOvershootLimits
	}
	return &Controller{Deps: deps, tracer: telemetry.NewTracer(deps.Tracing)}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(set *v1alpha1.MachineSet) any { return &set.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, set *v1alpha1.MachineSet) (reconciler.Next, error) {
	if filled, err := c.fillReplicas(ctx, set); filled || err != nil {
		return reconciler.Next{}, err
	}
	before := set.Status.DeepCopy()
	now := c.Clock.Now()
	s, err := c.observe(ctx, c.Client, set, now, machinesOf(c.Client, set.Namespace))
	if err != nil {
		return reconciler.Next{}, err
	}
	c.rememberMachines(s)
	if s.deployment != nil {
		if err := c.countElsewhere(ctx, c.Client, s, false); err != nil {
			return reconciler.Next{}, err
		}
	}
	var next reconciler.Next
	s.input.Outstanding, next.After = c.expected.countOutstanding(set.UID, s.input.Machines, now)
	var actErr error
	done := true
	c.checkOvershoot(s)
	decided := plan.Decide(s.input)
	if !decided.Empty() {
		done, actErr = c.act(ctx, set, s.unmatchedMachines(), decided)
	}
	s.noteArrivals()
	c.report(s, actErr, now)
	actErr = errors.Join(actErr, freeze.WriteLabel(ctx, c.Client, set, set.Status.Conditions))
	if done && s.input.Outstanding == 0 {
		c.Sets.Done(set)
	}
	next = next.NoLaterThan(c.SafetyPeriod).NoLaterThan(s.counts.NextAvailable).NoLaterThan(decided.After).NoLaterThan(c.emitEvents(s, now))
	next = s.nextAttempt(next, now)
	if !equality.Semantic.DeepEqual(before, &set.Status) {
		wait := c.statusDelay(before, set, actErr, now)
		next.DeferStatus = wait > 0
		next = next.NoLaterThan(wait)
	}
	return next, actErr
}

// nextAttempt returns next, no later than what was put off may be tried again.
func (s *scope) nextAttempt(next reconciler.Next, now time.Time) reconciler.Next {
	if wait := s.known.updateBackoff.retryAt.Sub(now); len(s.outdated) > 0 && wait > 0 {
		next = next.NoLaterThan(wait)
	}
	if s.countMissing() == 0 {
		return next
	}
	if s.known.noRoom {
		next = next.NoLaterThan(roomRecheck)
	}
	return next.NoLaterThan(s.known.creationBackoff.verdictAt(replicasOf(s.set), now).after)
}

// statusDelay returns how long a changed status has to wait; 0 means that it is written now. A set of a deployment changes all
// the time while that rolls out, and the deployment tells the counts of all its sets together.
//
// It waits for no status to learn what was worked on: it has been told, or will be as soon as the cache has caught up.
// What is frozen rolls nothing out, and a user may be waiting to read what still freezes it.
func (c *Controller) statusDelay(before *v1alpha1.MachineSetStatus, set *v1alpha1.MachineSet, actErr error, now time.Time) time.Duration {
	_, settled := outcome.Retry(actErr)
	hurry := isUrgent(before, set, c.Sets != nil && (actErr == nil || settled))
	frozen := meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.FrozenCondition)
	if frozen || metav1.GetControllerOfNoCopy(set) == nil {
		return c.throttle.Delay(set.UID, hurry, now)
	}
	return c.throttle.BackoffDelay(set.UID, hurry, ownedPace, now)
}

// ownedPace is that of the counts of a set which a deployment has.
var ownedPace = reconciler.StatusBounds{First: reconciler.LongestStatusInterval, Longest: reconciler.LongestStatusInterval}

// rememberMachines notes what the Machines show for later reconciliations.
func (c *Controller) rememberMachines(s *scope) {
	s.known.marks.keepMarks(s.input.Machines)
	s.known.replacements.Note(s.input.Machines, s.countMissing(), int(s.set.Status.Replicas)-s.counts.Total)
	c.known.publishReplacements(s.known)
}

// unmatchedMachines are the Machines that the set owns although its selector does not match them.
func (s *scope) unmatchedMachines() []plan.Machine {
	var strangers []plan.Machine
	for _, machine := range s.input.Machines {
		if machine.Owned && !machine.Matches {
			strangers = append(strangers, machine)
		}
	}
	return strangers
}

// roomRecheck is how soon a set looks again for which its deployment had no room, if no event wakes it: the deployment
// mostly takes the places off it.
const roomRecheck = time.Minute

// expectationTTL is how long the cache may take to show what was created or deleted. After it, the decision
// rests on the live reads alone.
const expectationTTL = 30 * time.Second
