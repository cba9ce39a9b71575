package waves

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

const (
	versionBefore = "v1.35"
	versionNow    = "v1.36"
)

// world is a set, its members, and what carries decisions out.
type world struct {
	s *Scope
}

func newWorld(members, limit, failures int) *world {
	w := &world{s: &Scope{Set: &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "set", Generation: 1}}, Now: time.Unix(1_800_000_000, 0)}}
	w.s.Set.Spec.Template.Spec.Versions.ControlPlane = versionBefore
	w.s.Set.Spec.Rollout.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{
		RolloutConfig: ocm.RolloutConfig{MaxFailures: intstr.FromInt32(int32(failures))}, MaxConcurrency: intstr.FromInt32(int32(limit)),
	}}
	for i := range members {
		w.s.Members = append(w.s.Members, newMember(i))
	}
	return w
}

func newMember(ordinal int) *Member {
	name := fmt.Sprintf("s-%d", ordinal)
	m := &Member{
		One:     &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "host", Name: name, UID: types.UID(name), Generation: 1}},
		Cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
	}
	m.One.Spec.Versions.ControlPlane = versionBefore
	m.setReady(true, v1alpha1.ReasonReady)
	return m
}

// setReady lets the host and the hub say how a member is now.
func (m *Member) setReady(ready bool, reason string) {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
		m.One.Status.Versions = &v1alpha1.ObservedControlPlaneVersions{ControlPlane: m.One.Spec.Versions.ControlPlane}
	}
	m.One.Status.ObservedGeneration = m.One.Generation
	for _, kind := range []string{v1alpha1.ControlPlaneReadyCondition, v1alpha1.ReadyCondition} {
		meta.SetStatusCondition(&m.One.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, ObservedGeneration: m.One.Generation})
	}
}

// raise gives the set another version.
func (w *world) raise(version string) {
	w.s.Set.Spec.Template.Spec.Versions.ControlPlane = version
	w.s.Set.Generation++
}

// step decides, and carries the decision out as the controller does. It returns the members that were started.
func (w *world) step() (started []string, d Decision) {
	w.s.Now = w.s.Now.Add(time.Second)
	for _, m := range w.s.Members {
		m.HeardAt = w.s.Now
	}
	d = Decide(w.s)
	for _, write := range d.Writes {
		metav1.SetMetaDataAnnotation(&write.Member.One.ObjectMeta, v1alpha1.FleetRecordAnnotation, write.Record.AnnotationValue())
		if write.Starts {
			write.Member.One.Spec.Versions = w.s.Set.Spec.Template.Spec.Versions
			write.Member.One.Generation++
			started = append(started, write.Member.One.Name)
		}
	}
	Report(w.s, d)
	if d.Keep != nil {
		raw, err := d.Keep.Raw()
		if err != nil {
			panic(err)
		}
		w.s.Set.Status.Rollout.Started = raw
	}
	return started, d
}

// answer lets the hosts report of every member that runs, what it was asked for.
func (w *world) answer() {
	for _, m := range w.s.Members {
		if !m.Host.Frozen {
			m.setReady(true, v1alpha1.ReasonReady)
		}
	}
}

// inProgress are the members that have the version and have not said that all is well.
func (w *world) inProgress() (count int) {
	for _, m := range w.s.Members {
		if m.One.Spec.Versions.ControlPlane == versionNow && !isReady(m.One) {
			count++
		}
	}
	return count
}

// The budget of control planes that are away at once holds whatever happens, what is silent gets nothing and passes nothing, and a set that
// is left alone gets its version everywhere.
func TestAnyRolloutKeepsItsBudgetAndEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, limit := rapid.IntRange(1, 6).Draw(t, "members"), rapid.IntRange(1, 3).Draw(t, "limit")
		w := newWorld(members, limit, 0)
		w.step()
		w.raise(versionNow)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			for _, m := range w.s.Members {
				m.Host = freeze.Verdict{Frozen: rapid.IntRange(0, 4).Draw(t, "frozen") == 0, Reason: v1alpha1.ReasonAgentSilent, Passing: rapid.Bool().Draw(t, "passing"), Message: "silent"}
				if !m.Host.Frozen && rapid.Bool().Draw(t, "answers") {
					m.setReady(true, v1alpha1.ReasonReady)
				}
			}
			// An edit that would open the gate further.
			if rapid.IntRange(0, 3).Draw(t, "edits") == 0 {
				w.s.Set.Spec.Rollout.RolloutStrategy.Progressive.MaxConcurrency = intstr.FromInt32(int32(rapid.IntRange(limit, 9).Draw(t, "raised")))
				w.s.Set.Generation++
			}
			underWay := w.s.Set.Status.Rollout.Started != nil
			started, _ := w.step()
			for _, name := range started {
				m := w.s.memberOf(name)
				if m.Host.Frozen {
					t.Fatalf("%s was started although its host is silent", name)
				}
				if !underWay {
					t.Fatalf("%s was started before its gates were kept", name)
				}
			}
			if busy := w.inProgress(); underWay && busy > 9 || len(started) > 9 {
				t.Fatalf("%d are in progress", busy)
			}
			if promised := w.promisedLimit(t); promised > 0 && w.inProgress() > promised {
				t.Fatalf("%d are in progress, %d were promised", w.inProgress(), promised)
			}
		}
		for _, m := range w.s.Members {
			m.Host = freeze.Verdict{}
		}
		for range 4*members + 4 {
			w.answer()
			w.step()
		}
		if counts := w.s.Set.Status.Rollout.Clusters; int(counts.Updated) != members {
			t.Fatalf("%d of %d have the version at last: %+v", counts.Updated, members, counts)
		}
	})
}

// promisedLimit is the limit that the rollout keeps to; 0 before it starts.
func (w *world) promisedLimit(t *rapid.T) int {
	started, problem := w.s.bindStart()
	if problem != nil {
		t.Fatalf("%+v", problem)
	}
	if started == nil {
		return 0
	}
	return started.Strategy.Progressive.MaxConcurrency.IntValue()
}

func names(members ...int) (all []string) {
	for _, ordinal := range members {
		all = append(all, fmt.Sprintf("s-%d", ordinal))
	}
	return all
}

func (w *world) expectStarted(t *testing.T, want ...int) {
	t.Helper()
	started, d := w.step()
	if d.Keep != nil {
		if len(started) > 0 {
			t.Fatalf("%q were started before the gates were kept", started)
		}
		started, _ = w.step()
	}
	if !slices.Equal(started, names(want...)) {
		t.Fatalf("started %q, want %q: %s", started, names(want...), w.message())
	}
}

func (w *world) message() string {
	said := meta.FindStatusCondition(w.s.Set.Status.Conditions, v1alpha1.ProgressingCondition)
	return said.Reason + ": " + said.Message
}
