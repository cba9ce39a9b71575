// Package fleet keeps one MachineDeployment of each MachineFleet's name in each cluster that the fleet selects, and brings a
// new template to them in waves. All that must not be forgotten is stored on the MachineDeployments: which cluster is how
// far with which revision. A hub may be restarted at any moment.
package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinefleets,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinefleets/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=fleetapprovals,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;simulatedclusters;simulatedclustersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=hollowfleet-approvals,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps is what the controller needs. All but Tracing and Leads is required.
type Deps struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server: before anything is changed, the decision is taken again on what it says.
	Live     client.Reader
	Recorder events.EventRecorder
	// Placements reads Placements where their kind is installed.
	Placements Placements
	// Agents tells which agents this process has heard.
	Agents *freeze.Agents
	Clock  clock.PassiveClock
	// Tracing, if not nil, makes spans.
	Tracing trace.TracerProvider
	// Leads reads until when no other hub can be elected; zero if this one does not lead any more. It is nil where none is elected.
	Leads func(context.Context) (time.Time, error)
}

// Placements reads Placements, or says that their kind is not installed, or that they have not been read yet.
type Placements interface {
	rollout.Placements
	// Watch has a controller reconcile what requests returns for each Placement that changes, or whose decisions do.
	Watch(controller *builder.Builder, requests func(context.Context, v1alpha1.PlacementReference) []reconcile.Request) *builder.Builder
}

// Controller is the logic of one MachineFleet: observe, decide, act, report.
type Controller struct {
	Deps
	throttle  reconciler.StatusThrottle
	observer  *rollout.Observer
	ledgers   rollout.ByUID[*ledger]
	standings rollout.ByUID[standing]
	// pending has the revision of each fleet that is kept until it is approved.
	pending rollout.ByUID[string]
	tracer  *telemetry.Tracer
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Recorder == nil || deps.Placements == nil || deps.Agents == nil || deps.Clock == nil {
		return nil, errors.New("making the MachineFleet controller: a dependency is missing")
	}
	observer, err := rollout.NewObserver(rollout.Deps{Client: deps.Client, Live: deps.Live, Placements: deps.Placements, Agents: deps.Agents})
	if err != nil {
		return nil, err
	}
	return &Controller{Deps: deps, observer: observer, tracer: telemetry.NewTracer(deps.Tracing)}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(fleet *v1alpha1.MachineFleet) any { return &fleet.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, fleet *v1alpha1.MachineFleet) (reconciler.Next, error) {
	before, now := fleet.Status.DeepCopy(), c.Clock.Now()
	s, err := c.observer.ObserveCached(ctx, fleet, now)
	if s == nil || err != nil {
		return reconciler.Next{}, err
	}
	d := rollout.Decide(s)
	var actErr error
	rest := false
	if !d.IsEmpty() {
		if s, err = c.observer.ObserveLive(ctx, fleet, now); s == nil || err != nil {
			return reconciler.Next{}, err
		}
		d = rollout.Decide(s)
		if err := c.recordBefore(ctx, s, d); err != nil {
			return reconciler.Next{}, err
		}
		rest, actErr = c.traceAct(ctx, s, d, before.ObservedGeneration == fleet.Generation)
	}
	if errors.Is(actErr, errNotLeading) {
		return reconciler.Next{}, actErr
	}
	s.Fleet = fleet
	c.observer.EndContests(s)
	rollout.Report(s, d, now)
	c.noteStanding(s, d)
	awaitNews(s, d, c.Agents)
	recorded, recordErr := c.recordRollouts(ctx, s)
	actErr = joinErrors([]error{actErr, recordErr, c.keepPending(ctx, s)})
	next := reconciler.Next{After: d.Plan.RecheckAfter}.NoLaterThan(s.RetryAfter).NoLaterThan(recorded)
	if rest {
		next = next.NoLaterThan(restAfter)
	}
	for _, at := range []time.Time{s.OpensAt(d.Plan), s.RemovalOpensAt(d), s.SettlesAt} {
		if !at.IsZero() {
			next = next.NoLaterThan(at.Sub(now))
		}
	}
	if !equality.Semantic.DeepEqual(before, &fleet.Status) {
		wait := c.throttle.BackoffDelay(fleet.UID, isUrgent(before, &fleet.Status), countsInterval, now)
		next.DeferStatus = wait > 0
		next = next.NoLaterThan(wait)
	}
	if !next.DeferStatus {
		c.emitProgress(fleet, before)
	}
	return next, actErr
}

// countsInterval is that of a fleet's counts.
var countsInterval = reconciler.StatusBounds{First: reconciler.StatusInterval, Longest: 4 * reconciler.StatusInterval}

// isUrgent reports whether a status has other news than counts.
func isUrgent(before, after *v1alpha1.MachineFleetStatus) bool {
	if before.ObservedGeneration != after.ObservedGeneration || before.CurrentWave != after.CurrentWave ||
		before.Revision != after.Revision || before.Rollout != after.Rollout || !slices.Equal(before.AwaitingApproval, after.AwaitingApproval) {
		return true
	}
	for _, condition := range after.Conditions {
		if machines.ConditionTurned(before.Conditions, condition) {
			return true
		}
	}
	return false
}

// awaitNews has the next step taken when the agents are heard that a soak waits for.
func awaitNews(s *rollout.Scope, d rollout.Decision, agents *freeze.Agents) {
	for _, m := range s.Members {
		if m.HeardAt != nil && slices.Contains(d.Plan.AwaitingNews, m.Cluster.Name) {
			agents.AwaitRenewal(m.Cluster.Name, *m.HeardAt)
		}
	}
}
