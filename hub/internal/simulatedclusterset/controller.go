// Package simulatedclusterset keeps the SimulatedClusters of SimulatedClusterSets: it observes, has package plan decide, acts and reports.
package simulatedclusterset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/waves"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;simulatedclustersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclustersets/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters,verbs=simulate
// +kubebuilder:rbac:groups=hollowfleet.io,resources=fleetapprovals;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps is what the controller needs. All but Leads is required.
type Deps struct {
	// Client reads from the cache and writes. Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder events.EventRecorder
	// Agents are those that this process has heard.
	Agents *freeze.Agents
	Clock  clock.PassiveClock
	// Leads reads until when no other hub can be elected; zero if this one does not lead any more. It is nil where none is elected.
	Leads func(context.Context) (time.Time, error)
}

// Controller is the logic of one SimulatedClusterSet.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Recorder == nil || deps.Agents == nil || deps.Clock == nil {
		return nil, errors.New("making the SimulatedClusterSet controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(set *v1alpha1.SimulatedClusterSet) any { return &set.Status }

// Reconcile implements reconciler.Logic. When a set is deleted, the API server's garbage collector deletes its SimulatedClusters.
func (c *Controller) Reconcile(ctx context.Context, set *v1alpha1.SimulatedClusterSet) (reconciler.Next, error) {
	if set.DeletionTimestamp != nil {
		return reconciler.Next{}, nil
	}
	s, err := c.observe(ctx, c.Client, set)
	if err != nil {
		return reconciler.Next{}, err
	}
	decided, rolls := plan.Decide(&s.input), waves.Decide(s.rollout)
	var actErr error
	rest := false
	if !decided.Empty() || len(rolls.Writes) > 0 {
		// What the cache does not show yet would be created twice: the name of a SimulatedCluster is unique in its host's namespace only.
		if s, err = c.observe(ctx, c.Live, set); err != nil {
			return reconciler.Next{}, err
		}
		decided, rolls = plan.Decide(&s.input), waves.Decide(s.rollout)
		actErr = c.act(ctx, s, decided)
		var rollErr error
		rest, rollErr = c.writeRollout(ctx, s, rolls, decided.Delete)
		if errors.Is(rollErr, errNotLeading) {
			return reconciler.Next{}, rollErr
		}
		actErr = errors.Join(actErr, rollErr)
	}
	c.report(s, decided, rolls, actErr)
	actErr = errors.Join(actErr, keepStart(s, rolls))
	return c.nextRollout(s, rolls, rest), actErr
}

// act carries a plan out. One SimulatedCluster that cannot be written stops no other.
func (c *Controller) act(ctx context.Context, s *scope, decided *plan.Plan) error {
	if decided.Empty() {
		return nil
	}
	if same, err := c.isSame(ctx, s); err != nil || !same {
		return err
	}
	var problems []error
	held := map[string]error{}
	free := func(host string) error {
		if _, known := held[host]; !known {
			held[host] = c.checkHost(ctx, host)
		}
		return held[host]
	}
	for _, step := range []struct {
		places []plan.Place
		do     func(context.Context, *scope, plan.Place) error
		// anyHost: it changes nothing in the host.
		anyHost bool
	}{
		{decided.Adopt, c.adoptOrphan, true}, {decided.Update, c.updateMember, false}, {decided.Delete, c.deleteMember, false}, {decided.Create, c.createMember, false},
	} {
		for _, at := range step.places {
			err := error(nil)
			if !step.anyHost {
				err = free(at.Host)
			}
			if err == nil {
				err = step.do(ctx, s, at)
			}
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// isSame reports whether the set is still as it was when the decision was made. Its event is on the way if not.
func (c *Controller) isSame(ctx context.Context, s *scope) (bool, error) {
	current := &v1alpha1.SimulatedClusterSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.set), current); err != nil {
		return false, wrapError("reading the simulated cluster set again", client.IgnoreNotFound(err))
	}
	return isSameSet(current, s.set), nil
}

func isSameSet(current, before *v1alpha1.SimulatedClusterSet) bool {
	return current.UID == before.UID && current.Generation == before.Generation && current.DeletionTimestamp == nil &&
		!freeze.OfAnnotation("SimulatedClusterSet", current).Frozen
}

func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
