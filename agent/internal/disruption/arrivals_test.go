package disruption

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// neverJoin lets Machines not join, with a change of that.
func neverJoin(change func(*v1alpha1.NodeDisruptionRunSpec)) func(*v1alpha1.NodeDisruptionRunSpec) {
	return func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Faults = []disrupt.Fault{{Type: disrupt.NeverJoin}}
		if change != nil {
			change(spec)
		}
	}
}

// running adds a run whose first window has started.
func (w *World) running(change func(*v1alpha1.NodeDisruptionRunSpec)) *v1alpha1.NodeDisruptionRun {
	run := w.add("stuck", neverJoin(change))
	w.work()
	w.pass(lead + 2*time.Second)
	w.work()
	return run
}

// come lets Machines come whose pods are about to be created. Those that are not hit join at once.
func (w *World) come(names ...string) {
	w.Arriving = map[string]types.UID{}
	for _, name := range names {
		machine := v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.Now), Labels: map[string]string{"come": "late"},
		}}
		w.Machines = append(w.Machines, machine)
		w.Arriving[name] = machine.UID
	}
	w.work()
	for _, name := range names {
		w.Pods[name] = Pod{Disruptable: true, Plan: encodePlan(nil, runsByNode(w.Runs, w.Now)[name])}
		if w.Pods[name].Plan == "" {
			w.join(name)
		}
	}
	w.Arriving = nil
	w.work()
}

func (w *World) join(name string) {
	w.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(w.Now)}}
	w.ready(name, corev1.ConditionTrue)
}

func namesOf(run *v1alpha1.NodeDisruptionRun) []string {
	var names []string
	for _, node := range run.Status.Nodes {
		names = append(names, node.Name)
	}
	return names
}

func TestNeverJoinHitsMachinesThatComeWhileItRuns(t *testing.T) {
	g, w := NewWithT(t), world(3)
	run := w.running(nil)
	w.pass(20 * time.Second)
	w.come("a", "b")
	g.Expect(namesOf(run)).To(Equal([]string{"a", "b"}))
	came := w.Now
	w.pass(10 * time.Second)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Selected", BeEquivalentTo(2)),
		HaveField("Injected", BeEquivalentTo(2)), HaveField("Observed", BeEquivalentTo(2)), HaveField("Recovered", BeZero())))
	g.Expect(run.Status.Message).To(ContainSubstring("2 so far"))
	g.Expect(run.Status.Nodes[0].InjectedAt.Time).To(BeTemporally("~", came, time.Second), "not when the run started")

	w.pass(time.Minute)
	w.join("a")
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Message", ContainSubstring("1 Node has not recovered yet"))))
	w.join("b")
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Recovered", BeEquivalentTo(2))))
}

func TestWhoIsNotHitByNeverJoin(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.NodeDisruptionRunSpec)
		before func(*World, *v1alpha1.NodeDisruptionRun)
	}{
		"another label": {change: func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Target.MachineSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"come": "early"}}
		}},
		"excluded": {change: func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Target.Exclude = &metav1.LabelSelector{MatchLabels: map[string]string{"come": "late"}}
		}},
		"another deployment": {change: func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.MachineDeployment = "workers" }},
		"another zone":       {change: func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.Zones = []string{"z0"} }},
		"none of them": {change: func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Target.Mode, spec.Target.Value = disrupt.ModePercent, 49
		}},
		"none may be away":     {change: func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.MaxUnavailable = new(intstr.FromInt32(0)) }},
		"not in this window":   {change: func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Timing.HealthyFor.Duration = 50 * time.Second }},
		"a paused run":         {before: func(_ *World, run *v1alpha1.NodeDisruptionRun) { run.Spec.Paused = true }},
		"a run that was ended": {before: func(w *World, run *v1alpha1.NodeDisruptionRun) { run.DeletionTimestamp = &metav1.Time{Time: w.Now} }},
		"a frozen agent":       {before: func(w *World, _ *v1alpha1.NodeDisruptionRun) { w.Frozen = true }},
		"a run that is over":   {before: func(w *World, _ *v1alpha1.NodeDisruptionRun) { w.pass(time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), world(3)
			run := w.running(test.change)
			if test.before != nil {
				test.before(w, run)
			}
			w.come("a", "b")
			g.Expect(namesOf(run)).To(BeEmpty())
			g.Expect(w.planned()).To(BeEmpty())
		})
	}
}

func TestNeverJoinKnowsTheZoneOfAMachineBeforeItJoins(t *testing.T) {
	g, w := NewWithT(t), world(1)
	run := w.running(func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.Zones = []string{"z7"} })
	machine := v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", CreationTimestamp: metav1.NewTime(w.Now)}}
	machine.Spec.NodeMetadata.Labels = map[string]string{corev1.LabelTopologyZone: "z7"}
	w.Machines, w.Arriving = append(w.Machines, machine), map[string]types.UID{"a": "a"}
	w.work()
	g.Expect(namesOf(run)).To(Equal([]string{"a"}))
}

// Mode and value hold for all that come, however they come, and whatever the agent forgets in between.
func TestNeverJoinHitsAsManyAsItsModeSays(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.NodeDisruptionRunSpec)
		want   int
	}{
		"one":   {func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.Mode = disrupt.ModeOne }, 1},
		"fixed": {func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.Mode, spec.Target.Value = disrupt.ModeFixed, 3 }, 3},
		"half": {func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Target.Mode, spec.Target.Value = disrupt.ModePercent, 50
		}, 5},
		"few": {func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Target.Mode, spec.Target.Value = disrupt.ModePercent, 29
		}, 2},
		"bound": {func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.MaxUnavailable = new(intstr.FromInt32(4)) }, 4},
		"all":   {nil, 10},
		"spread": {func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Seed = new(int64(7))
			spec.Target.Mode, spec.Target.Value = disrupt.ModeFixed, 4
		}, 4},
	} {
		for _, atOnce := range []int{1, 3, 10} {
			t.Run(fmt.Sprintf("%s, %d at once", name, atOnce), func(t *testing.T) {
				g, w := NewWithT(t), world(3)
				run := w.running(test.change)
				var all []string
				for i := range 10 {
					all = append(all, fmt.Sprintf("n%02d", i))
				}
				for some := range slices.Chunk(all, atOnce) {
					w.come(some...)
				}
				g.Expect(run.Status.Nodes).To(HaveLen(test.want))
				g.Expect(w.planned()).To(HaveLen(test.want), "and no other pod has a plan")
				g.Expect(run.Status.Selected).To(BeEquivalentTo(test.want))
			})
		}
	}
}

// Of Machines that come at the same time, the seed chooses.
func TestTheSeedChoosesAmongMachinesThatComeTogether(t *testing.T) {
	g := NewWithT(t)
	chosen := map[string]bool{}
	for seed := range int64(20) {
		var twice []string
		for range 2 {
			w := world(0)
			run := w.running(func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Seed, spec.Target.Mode = &seed, disrupt.ModeOne })
			w.come("a", "b", "c")
			twice = append(twice, namesOf(run)...)
		}
		g.Expect(twice).To(HaveLen(2))
		g.Expect(twice[0]).To(Equal(twice[1]), "the same for the same seed")
		chosen[twice[0]] = true
	}
	g.Expect(chosen).To(HaveLen(3))
}

// A Machine that was replaced meanwhile cannot recover, and its run does not wait for it. What replaces it is hit as well.
func TestAMachineThatIsReplacedIsNotWaitedFor(t *testing.T) {
	g, w := NewWithT(t), world(1)
	run := w.running(nil)
	w.come("a")
	w.pass(10 * time.Second)
	w.Machines, w.Pods = slices.DeleteFunc(w.Machines, func(m v1alpha1.Machine) bool { return m.Name == "a" }), map[string]Pod{"m00": {Disruptable: true}}
	w.come("b")
	g.Expect(namesOf(run)).To(Equal([]string{"a", "b"}))
	w.pass(time.Minute)
	w.join("b")
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionCompleted))
	g.Expect(run.Status.Message).To(Equal("2 of 2 Nodes were disrupted, 2 observed, 1 recovered"))
}

// A run hits 500 Nodes at most, however many Machines are created.
func TestNeverJoinIsBounded(t *testing.T) {
	g, w := NewWithT(t), world(0)
	run := w.running(nil)
	var names []string
	for i := range mostNodes + 20 {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	w.come(names...)
	g.Expect(run.Status.Nodes).To(HaveLen(mostNodes))
}

// Machines that come one by one are decided by their order, which is all that is the same in two runs: their names are random.
func TestTheOrderOfArrivalDecides(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.NodeDisruptionRunSpec)
		want   []int
	}{
		"half": {func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Target.Mode, spec.Target.Value = disrupt.ModePercent, 50
		}, []int{1, 3, 5, 7, 9}},
		"third": {func(spec *v1alpha1.NodeDisruptionRunSpec) {
			spec.Target.Mode, spec.Target.Value = disrupt.ModePercent, 34
		}, []int{2, 5, 8}},
		"two": {func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.Mode, spec.Target.Value = disrupt.ModeFixed, 2 }, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(5) {
				g, w := NewWithT(t), world(3)
				run := w.running(func(spec *v1alpha1.NodeDisruptionRunSpec) {
					spec.Seed = &seed
					test.change(spec)
				})
				var hit []int
				for i := range 10 {
					machine := fmt.Sprintf("%x-%d", seed*7919+int64(i)*104729, i)
					w.come(machine)
					if hitsMachine(&run.Status, machine) {
						hit = append(hit, i)
					}
				}
				g.Expect(hit).To(Equal(test.want))
			}
		})
	}
}
