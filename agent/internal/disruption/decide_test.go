package disruption

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var begin = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

// world has so many Machines with Ready Nodes.
func world(machines int) *World {
	w := &World{Now: begin, Answered: begin, Nodes: map[string]*corev1.Node{}, Pods: map[string]Pod{}}
	for i := range machines {
		name := fmt.Sprintf("m%02d", i)
		w.Machines = append(w.Machines, v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"i": fmt.Sprint(i), v1alpha1.MachineDeploymentNameLabel: "workers"}}})
		w.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("z%d", i%2)}}}
		w.ready(name, corev1.ConditionTrue)
		w.Pods[name] = Pod{Disruptable: true}
	}
	return w
}

func (w *World) ready(name string, status corev1.ConditionStatus) {
	w.Nodes[name].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
}

// add adds a run that lets Nodes be not ready for a minute.
func (w *World) add(name string, change func(*v1alpha1.NodeDisruptionRunSpec)) *v1alpha1.NodeDisruptionRun {
	run := v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(begin)}}
	run.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	run.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	run.Status.Phase = v1alpha1.NodeDisruptionPending
	if change != nil {
		change(&run.Spec)
	}
	w.Runs = append(w.Runs, run)
	return &w.Runs[len(w.Runs)-1]
}

// work decides, and lets the world be as decided.
func (w *World) work() Decision {
	d := Decide(*w)
	for i := range w.Runs {
		w.Runs[i].Status = d.Statuses[i]
	}
	if !w.Frozen {
		for name, plan := range d.Plans {
			w.Pods[name] = Pod{Disruptable: true, Plan: plan}
		}
	}
	return d
}

// pass lets time go by, in which the API server answers.
func (w *World) pass(d time.Duration) {
	w.Now = w.Now.Add(d)
	w.Answered = w.Now
}

// planned are the Machines whose pods have a plan.
func (w *World) planned() []string {
	var names []string
	for _, machine := range w.Machines {
		if w.Pods[machine.Name].Plan != "" {
			names = append(names, machine.Name)
		}
	}
	return names
}

func TestARunBeginsIsObservedAndEnds(t *testing.T) {
	g := NewWithT(t)
	w := world(2)
	run := w.add("outage", nil)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionPending), HaveField("Selected", BeEquivalentTo(2))))
	g.Expect(w.planned()).To(BeEmpty(), "the status is written before any plan")
	w.work()
	g.Expect(w.planned()).To(Equal([]string{"m00", "m01"}))
	g.Expect(run.Status.StartTime.Time).To(BeTemporally(">=", w.Now.Add(lead)), "the plan is there before it starts")
	plan, err := disrupt.Decode([]byte(w.Pods["m00"].Plan))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Entries).To(ConsistOf(And(HaveField("Run", "outage"), HaveField("UID", "uid-outage"), HaveField("End.Time", BeTemporally("==", run.Status.EndTime.Time)))))

	w.pass(lead + 2*time.Second)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Injected", BeEquivalentTo(2)), HaveField("Observed", BeZero())))
	w.ready("m00", corev1.ConditionFalse)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Observed", BeEquivalentTo(1)), HaveField("Recovered", BeZero())))

	w.pass(time.Minute)
	w.ready("m00", corev1.ConditionTrue)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Recovered", BeEquivalentTo(1))))
	g.Expect(run.Status.Message).To(Equal("2 of 2 Nodes were disrupted, 1 observed, 1 recovered"))
	w.work()
	g.Expect(w.planned()).To(BeEmpty(), "what is over is taken off the pods")
}

func TestDeletionAndPauseRestore(t *testing.T) {
	for name, restore := range map[string]func(*World){
		"a deletion":             func(w *World) { w.Runs = nil },
		"a deletion under way":   func(w *World) { w.Runs[0].DeletionTimestamp = &metav1.Time{Time: w.Now} },
		"a pause":                func(w *World) { w.Runs[0].Spec.Paused = true },
		"the end of another run": func(w *World) { w.pass(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := world(1)
			w.add("outage", nil)
			w.work()
			w.work()
			g.Expect(w.planned()).To(HaveLen(1))
			restore(w)
			w.work()
			g.Expect(w.planned()).To(BeEmpty())
		})
	}
}

// Claim: Paused means plans are off; interruptions are Unknown. Broken: plans are not looked at; the expectations continue. Also: TestWhatAPauseInterruptsIsUnknown.
func TestAPausedRunGoesOnWhereItWouldBe(t *testing.T) {
	g := NewWithT(t)
	w := world(1)
	run := w.add("outage", nil)
	w.work()
	w.work()
	before := w.Pods["m00"].Plan
	run.Spec.Paused = true
	w.pass(20 * time.Second)
	w.Frozen = true
	for range 2 {
		w.work()
		g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Message", "is to be paused: 1 Node is not restored yet, because the agent is frozen")))
	}
	w.Frozen = false
	w.work()
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionPaused), "the plan is off the pod")
	run.Spec.Paused = false
	w.work()
	g.Expect(w.Pods["m00"].Plan).To(Equal(before))
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionRunning))
}

// No agent starts a disruption while it is frozen. One that has started continues.
func TestNothingBeginsWhileFrozen(t *testing.T) {
	g := NewWithT(t)
	w := world(1)
	run := w.add("outage", nil)
	w.Frozen = true
	for range 3 {
		w.work()
		w.pass(time.Minute)
	}
	g.Expect(run.Status.StartTime).To(BeNil())
	g.Expect(run.Status.Message).To(ContainSubstring("frozen"))
	w.Frozen = false
	w.work()
	g.Expect(run.Status.StartTime.Time).To(BeTemporally(">", w.Now), "it starts after the thaw, whole")
}

func TestTheTargetIsChosen(t *testing.T) {
	label := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"i": value}}
	}
	all := intstr.FromString("50%")
	for name, c := range map[string]struct {
		change func(*v1alpha1.DisruptionTarget)
		want   int32
	}{
		"all":                        {func(*v1alpha1.DisruptionTarget) {}, 4},
		"by a label":                 {func(t *v1alpha1.DisruptionTarget) { t.MachineSelector = label("2") }, 1},
		"of a deployment":            {func(t *v1alpha1.DisruptionTarget) { t.MachineDeployment = "workers" }, 4},
		"of another deployment":      {func(t *v1alpha1.DisruptionTarget) { t.MachineDeployment = "others" }, 0},
		"of a zone":                  {func(t *v1alpha1.DisruptionTarget) { t.Zones = []string{"z1"} }, 2},
		"one":                        {func(t *v1alpha1.DisruptionTarget) { t.Mode = disrupt.ModeOne }, 1},
		"three":                      {func(t *v1alpha1.DisruptionTarget) { t.Mode, t.Value = disrupt.ModeFixed, 3 }, 3},
		"a percentage, rounded down": {func(t *v1alpha1.DisruptionTarget) { t.Mode, t.Value = disrupt.ModePercent, 30 }, 1},
		"without the excluded":       {func(t *v1alpha1.DisruptionTarget) { t.Exclude = label("0") }, 3},
		"not more than may be":       {func(t *v1alpha1.DisruptionTarget) { t.MaxUnavailable = &all }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := world(4)
			run := w.add("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) { c.change(&spec.Target) })
			w.work()
			g.Expect(run.Status.Selected).To(Equal(c.want))
			if c.want == 0 {
				g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionFailed), HaveField("Message", ContainSubstring("spec.target"))))
			}
		})
	}
}

func TestAPodOfAnEarlierAgentIsNotHit(t *testing.T) {
	g := NewWithT(t)
	w := world(2)
	w.Pods["m00"] = Pod{}
	run := w.add("outage", nil)
	w.work()
	g.Expect(run.Status.Nodes).To(ConsistOf(HaveField("Name", "m01")))
	w.Pods["m01"] = Pod{}
	run = w.add("another", nil)
	w.work()
	g.Expect(run.Status.Message).To(ContainSubstring("replace the 2 Machines"))
}

// Nodes of kwok have no kubelet: a run leaves them out and says so, and one that would hit nothing else fails.
func TestNodesOfKwokAreNotHit(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	makeKwok := func(name string) {
		w.Nodes[name].Labels[v1alpha1.HollowNodeLabel] = v1alpha1.KwokNodeLabelValue
		delete(w.Pods, name)
	}
	makeKwok("m00")
	run := w.add("mixed", nil)
	w.work()
	g.Expect(run.Status.Nodes).To(ConsistOf(HaveField("Name", "m01"), HaveField("Name", "m02")))
	g.Expect(run.Status.Message).To(ContainSubstring("1 Node is of provider kwok and left out, because no kubelet is there to be disrupted"))
	run = w.add("none", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Target.MachineSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"i": "0"}}
	})
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionFailed))
	g.Expect(run.Status.Message).To(ContainSubstring("1 Node is of provider kwok and left out"))
}

func TestThePreviewSaysWhatWouldBeHit(t *testing.T) {
	g := NewWithT(t)
	w := world(4)
	run := w.add("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Paused = true })
	w.work()
	g.Expect(run.Status.StartTime).To(BeNil())
	g.Expect(run.Status.Message).To(And(ContainSubstring("would hit 4 Nodes: m00, m01, m02, m03"), ContainSubstring("no node of the cluster would be Ready")))
}

// What several runs do to one node is in one plan. Whatever comes and goes, no plan has a run that is over, paused or gone, and none
// has more than the runs of the status.
func TestPlansFollowRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world(5)
		for step := range 30 {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				if len(w.Runs) < 6 {
					w.add(fmt.Sprintf("r%d", step), func(spec *v1alpha1.NodeDisruptionRunSpec) {
						spec.Seed = new(int64(step))
						spec.Target.Mode, spec.Target.Value = disrupt.ModeFixed, int32(rapid.IntRange(0, 5).Draw(t, "value"))
					})
				}
			case 1:
				if n := len(w.Runs); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "deleted")
					w.Runs = append(w.Runs[:i:i], w.Runs[i+1:]...)
				}
			case 2:
				if n := len(w.Runs); n > 0 {
					run := &w.Runs[rapid.IntRange(0, n-1).Draw(t, "paused")]
					run.Spec.Paused = !run.Spec.Paused
				}
			case 3:
				w.Frozen = !w.Frozen
			default:
				w.pass(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			}
			frozen := w.Frozen
			w.work()
			if frozen {
				continue
			}
			wanted := map[string]map[string]bool{}
			before := w.Runs
			for i := range before {
				run := &before[i]
				if run.Status.StartTime == nil || run.Spec.Paused || !w.Now.Before(run.Status.EndTime.Time) {
					continue
				}
				for _, node := range run.Status.Nodes {
					if wanted[node.Name] == nil {
						wanted[node.Name] = map[string]bool{}
					}
					wanted[node.Name][run.Name] = true
				}
			}
			for name, pod := range w.Pods {
				plan, err := disrupt.Decode([]byte(pod.Plan))
				if err != nil {
					t.Fatal(err)
				}
				for _, entry := range plan.Entries {
					if !wanted[name][entry.Run] {
						t.Fatalf("pod %s has run %s in its plan, which is over, paused, gone, or not for it", name, entry.Run)
					}
				}
			}
		}
	})
}
