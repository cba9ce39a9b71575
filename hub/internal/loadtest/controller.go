package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;loadtests,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=loadtests/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=loadtestruns,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=nodedisruptionruns,verbs=get;list;watch;create;patch

// page is how many runs with their histograms are read at once: each may have half a megabyte.
const page = 10

// Deps is what the controller needs. All of it is required.
type Deps struct {
	// Client reads from the cache, which has no histograms, and writes. Live reads from the API server.
	Client     client.Client
	Live       client.Reader
	Placements *presence.Kinds
	Clock      clock.PassiveClock
}

// Controller carries LoadTests out.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Placements == nil || deps.Clock == nil {
		return nil, errors.New("making the load test controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(test *v1alpha1.LoadTest) any { return &test.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, test *v1alpha1.LoadTest) (reconciler.Next, error) {
	if test.DeletionTimestamp != nil {
		return reconciler.Next{}, nil
	}
	world, err := c.observe(ctx, test)
	if err != nil {
		return reconciler.Next{}, err
	}
	decision := Decide(world)
	if decision.Merge {
		merged, err := c.mergeHistograms(ctx, test)
		if err != nil {
			return reconciler.Next{}, err
		}
		decision.End(world, merged)
	}
	before := test.Status.Phase
	test.Status = decision.Status
	if err := c.act(ctx, test, &decision); err != nil {
		if before == v1alpha1.LoadTestPhasePreparing && test.Status.Phase == v1alpha1.LoadTestPhaseRunning {
			// The time is in the runs that have been told, where the next step finds it.
			test.Status.Phase, test.Status.StartTime = before, nil
		}
		return reconciler.Next{}, err
	}
	next := reconciler.Next{}
	if !decision.Next.IsZero() {
		next = next.NoLaterThan(max(decision.Next.Sub(world.Now), time.Second))
	}
	return next, nil
}

// observe reads what a decision rests on.
func (c *Controller) observe(ctx context.Context, test *v1alpha1.LoadTest) (*World, error) {
	world := &World{Now: c.Clock.Now(), Test: test}
	// Nothing changes what is listed, so the cache need not copy it.
	runs, disruptions := &v1alpha1.LoadTestRunList{}, &v1alpha1.NodeDisruptionRunList{}
	if err := errors.Join(
		c.Client.List(ctx, runs, client.MatchingFields{nameField: test.Name}, client.UnsafeDisableDeepCopy),
		c.Client.List(ctx, disruptions, client.MatchingFields{nameField: test.Name + disruptionSuffix}, client.UnsafeDisableDeepCopy),
	); err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	world.Runs, world.Disruptions = runs.Items, disruptions.Items
	ref, clusters := test.Spec.PlacementRef, c.Live // They are chosen once, so what was written before the test counts.
	if test.Status.Phase != "" && test.Status.Phase != v1alpha1.LoadTestPhasePending {
		ref, clusters = nil, c.Client // They have been chosen.
	}
	var err error
	world.Selection, err = fanout.Observe(ctx, clusters, c.Placements.Cached, ref)
	return world, err
}

// mergeHistograms reads the histograms of all runs, a few at a time.
func (c *Controller) mergeHistograms(ctx context.Context, test *v1alpha1.LoadTest) (*loadtest.Merged, error) {
	merged, token := loadtest.NewMerged(), ""
	for {
		runs := &v1alpha1.LoadTestRunList{}
		err := c.Live.List(ctx, runs, client.MatchingLabels{v1alpha1.LoadTestNameLabel: test.Name}, client.Limit(page), client.Continue(token))
		if apierrors.IsResourceExpired(err) && token != "" { // The pages are of one moment, which the API server has forgotten.
			merged, token = loadtest.NewMerged(), ""
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the measurements of load test %s: %w", test.Name, err)
		}
		for i := range runs.Items {
			if run := &runs.Items[i]; metav1.IsControlledBy(run, test) && run.DecodeError == "" {
				merged.Add(run)
			}
		}
		if token = runs.Continue; token == "" {
			return merged, nil
		}
	}
}

// act carries a decision out. A cluster whose run cannot be written stops no other one. What cannot be made is named as a failure,
// until it is made.
func (c *Controller) act(ctx context.Context, test *v1alpha1.LoadTest, d *Decision) error {
	var problems []error
	for i := range d.Create {
		if err := c.createObject(ctx, test, &d.Create[i], &v1alpha1.LoadTestRun{}); err != nil {
			fanout.NoteFailure(&test.Status.Failures, d.Create[i].Namespace, "its run could not be created: "+err.Error())
			problems = append(problems, err)
		}
	}
	if len(d.Start) > 0 {
		start := fmt.Sprintf(`"spec":{"startTime":%q}`, test.Status.StartTime.UTC().Format(time.RFC3339))
		for _, run := range d.Start {
			// Without the lock a step that rests on a cache which is behind would give a run another time than the one before it.
			problems = append(problems, fanout.PatchAll(ctx, c.Client, []*v1alpha1.LoadTestRun{run}, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},%s}`, run.ResourceVersion, start)))
		}
	}
	problems = append(problems, fanout.PatchAll(ctx, c.Client, d.Stop, []byte(`{"spec":{"stopped":true}}`)))
	for i := range d.Disrupt {
		problems = append(problems, c.createObject(ctx, test, &d.Disrupt[i], &v1alpha1.NodeDisruptionRun{}))
	}
	problems = append(problems, fanout.PatchAll(ctx, c.Client, d.Restore, []byte(`{"spec":{"paused":true}}`)))
	return errors.Join(problems...)
}

// createObject makes an object for the test, unless it is there already. One of another owner, of which the cache does not know yet, is
// an error: the next step knows it.
func (c *Controller) createObject(ctx context.Context, test *v1alpha1.LoadTest, object, there client.Object) error {
	owner, err := parentOf(test).Create(ctx, c.Client, c.Live, object, there)
	if err == nil && owner != fanout.Ours {
		err = fmt.Errorf("creating %T %s: another one is there already", object, client.ObjectKeyFromObject(object))
	}
	return err
}
