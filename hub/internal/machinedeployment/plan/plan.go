// Package plan decides how a MachineDeployment's Machines are spread over its MachineSets. It is pure: what
// counts goes in, a Plan comes out.
//
// It relies on two properties of the MachineSet controller: a set's Machines count until they are gone, and
// a scale-down takes Machines that are ready and not marked for deletion only when no other is left.
package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Set is what counts of one MachineSet.
type Set struct {
	Name    string
	Created time.Time
	// Replicas is the set's spec.replicas.
	Replicas int
	// Actual is the number of Machines that it owns, those being deleted too.
	Actual int
	// Active is the number of those which are not being deleted.
	Active int
	// Available is the number of active ones that have been Ready long enough.
	Available int
	// MarkedAvailable is the number of available ones that go first in a scale-down.
	MarkedAvailable int
}

// keeps is how many available Machines are surely left when the set has been scaled to replicas.
func (s Set) keeps(replicas int) int {
	victims := max(s.Active-replicas, 0)
	lost := min(victims, s.MarkedAvailable) +
		max(victims-s.MarkedAvailable-(s.Active-s.Available), 0)
	return max(s.Available-lost, 0)
}

// occupies is how many Machines the set has or may make at any moment.
func (s Set) occupies() int { return max(s.Replicas, s.Actual) }

// Input is all that a decision rests on.
type Input struct {
	Replicas int
	Strategy v1alpha1.MachineDeploymentStrategy
	// Paused: no Machine is replaced for its template's sake; scaling goes on.
	Paused bool
	// Frozen: nothing may be done. Deleting: the deployment itself is being deleted.
	Frozen, Deleting bool
	// New is the set of the current template; nil if there is none yet.
	New *Set
	// Old are the other sets.
	Old []Set
}

// Scale is a change of one set's replicas.
type Scale struct {
	Name     string
	From, To int
}

// Plan is what to do.
type Plan struct {
	// CreateNew: a set of the current template is to be made, with NewReplicas replicas.
	CreateNew   bool
	NewReplicas int
	// Scale lists the sets to scale, reductions first.
	Scale []Scale
	// Why says in a few words what the plan is for.
	Why string
}

// Empty tells whether there is nothing to do.
func (p Plan) Empty() bool { return !p.CreateNew && len(p.Scale) == 0 }

// Decide plans for one MachineDeployment.
func Decide(in Input) Plan {
	switch {
	case in.Deleting:
		return Plan{Why: "the deployment is being deleted"}
	case in.Frozen:
		return Plan{Why: "frozen"}
	}
	w := newWork(in)
	switch {
	case in.Paused:
		w.resize()
	case in.Strategy.Type == v1alpha1.Recreate:
		w.recreate()
	case in.Strategy.Type == v1alpha1.OnDelete:
		w.onDelete()
	default:
		w.roll()
	}
	return w.plan(in)
}

// Bounds resolves maxSurge and maxUnavailable for a number of replicas. Strategies other than RollingUpdate
// have no surge and no bound on unavailable Machines. Where both round to 0, maxUnavailable is 1: else
// nothing could ever be replaced.
func Bounds(strategy v1alpha1.MachineDeploymentStrategy, replicas int) (surge, unavailable int) {
	if strategy.Type == v1alpha1.Recreate || strategy.Type == v1alpha1.OnDelete {
		return 0, replicas
	}
	surge = 1
	if bounds := strategy.RollingUpdate; bounds != nil {
		surge = resolve(bounds.MaxSurge, replicas, true, 1)
		unavailable = min(resolve(bounds.MaxUnavailable, replicas, false, 0), replicas)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = min(1, replicas)
	}
	return surge, unavailable
}

// resolve returns the number that value means. What admission would have refused counts as 0, the safe side.
func resolve(value *intstr.IntOrString, replicas int, up bool, unset int) int {
	if value == nil {
		return unset
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, replicas, up)
	if err != nil {
		return 0
	}
	return max(number, 0)
}

// work is the state of one decision: the sets with the replicas decided so far.
type work struct {
	replicas     int
	limit        int // Most Machines at any moment.
	minAvailable int
	sets         []Set // Old ones, oldest first.
	current      Set   // The new set, perhaps not made yet.
	exists       bool  // Whether current is there.
}

func newWork(in Input) *work {
	surge, unavailable := Bounds(in.Strategy, in.Replicas)
	w := &work{
		replicas: in.Replicas, limit: in.Replicas + surge, minAvailable: in.Replicas - unavailable,
		sets: slices.Clone(in.Old),
	}
	slices.SortFunc(w.sets, func(a, b Set) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	if in.New != nil {
		w.current, w.exists = *in.New, true
	}
	return w
}

// plan compares what was decided with what is.
func (w *work) plan(in Input) Plan {
	p := Plan{Why: "rolling out"}
	if in.Paused {
		p.Why = "scaling while paused"
	} else if !slices.ContainsFunc(in.Old, func(s Set) bool { return s.occupies() > 0 }) {
		p.Why = "scaling"
	}
	if !w.exists && !in.Paused {
		p.CreateNew, p.NewReplicas = true, w.current.Replicas
	}
	before := map[string]int{}
	for _, set := range in.Old {
		before[set.Name] = set.Replicas
	}
	decided := w.sets
	if w.exists {
		before[in.New.Name] = in.New.Replicas
		decided = append(slices.Clone(w.sets), w.current)
	}
	for _, set := range decided {
		if from := before[set.Name]; set.Replicas != from {
			p.Scale = append(p.Scale, Scale{Name: set.Name, From: from, To: set.Replicas})
		}
	}
	slices.SortStableFunc(p.Scale, func(a, b Scale) int { return cmp.Compare(direction(a), direction(b)) })
	return p
}

func direction(s Scale) int { return cmp.Compare(s.To, s.From) }
