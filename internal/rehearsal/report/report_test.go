package report_test

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/report"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

func course(drains ...*observe.Drain) *report.Course {
	timeline := observe.NewTimeline(&observe.Sample{Answered: true})
	timeline.Drains = drains
	return &report.Course{Timeline: timeline, RehearsalStart: time.Unix(0, 0), Phases: []report.Phase{{Name: "control plane to v1.37"}}}
}

func drain(outcome observe.Outcome, held time.Duration) *observe.Drain {
	return &observe.Drain{
		Node: "n1", Group: "pool", Start: time.Unix(10, 0), End: time.Unix(70, 0), Outcome: outcome,
		Blocked: map[string]time.Duration{"shop/web": held}, Refused: map[string]int{"shop/web": 2},
	}
}

// Claim: A rehearsal passes only if every drain ended well and no pod is worse off. Broken: a drain that timed out, an unscheduled pod, a missing pod or a skew ignored.
func TestVerdicts(t *testing.T) {
	unscheduled := []observe.Unscheduled{{Workload: "Deployment shop/web", Pods: 1, Reason: "0/2 nodes are available"}}
	for name, test := range map[string]struct {
		course  *report.Course
		verdict report.Verdict
		says    string
	}{
		"all well":               {course(drain(observe.Drained, 30*time.Second)), report.Passed, "1 drain"},
		"a drain timed out":      {course(drain(observe.TimedOut, 60*time.Second)), report.Failed, "PodDisruptionBudget shop/web held it for 1m0s"},
		"a drain did not end":    {course(drain(observe.Unfinished, 0)), report.Failed, "did not end"},
		"it was not carried out": {&report.Course{Failure: "the hub is away"}, report.Incomplete, "the hub is away"},
		"a pod has lost its Node": {func() *report.Course {
			c := course()
			c.After = unscheduled
			return c
		}(), report.Failed, "1 pod of Deployment shop/web not scheduled after"},
		"it had none before, as in the cluster": {func() *report.Course {
			c := course()
			c.Before, c.After = unscheduled, unscheduled
			return c
		}(), report.Passed, "no Node was drained"},
		"it has one in the cluster": {func() *report.Course {
			c := course()
			c.Before, c.After = unscheduled, unscheduled
			c.ReadyInSource, c.ReadyBefore = map[string]int{"Deployment shop/web": 2}, map[string]int{"Deployment shop/web": 1}
			return c
		}(), report.Failed, "has 1 of the 2 Ready pods"},
		"skew": {func() *report.Course {
			c := course()
			c.Skew = []shape.SkewProblem{{Step: "control plane to v1.37", Group: "old", Nodes: 2, Problem: "too old", Remedy: "upgrade it"}}
			return c
		}(), report.Failed, "old (2 Nodes): too old: upgrade it"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := &report.Report{Strategy: report.Strategy{Type: "RollingUpdate", MaxSurge: "1", MaxUnavailable: "0", DrainTimeout: metav1.Duration{Duration: time.Minute}}}
			r.Judge(test.course)
			g.Expect(r.Verdict).To(Equal(test.verdict))
			var out bytes.Buffer
			g.Expect(r.WriteText(&out)).To(Succeed())
			g.Expect(out.String()).To(And(HavePrefix(string(test.verdict)+": "), ContainSubstring(test.says), ContainSubstring("What a rehearsal cannot know")))
		})
	}
}

func TestBudgetsAreSummedOverDrains(t *testing.T) {
	g := NewWithT(t)
	r := &report.Report{}
	c := course(drain(observe.Drained, 30*time.Second), drain(observe.TimedOut, 60*time.Second))
	c.Timeline.Never["shop/web"] = "maxUnavailable: 0"
	r.Judge(c)
	second := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	g.Expect(r.Budgets).To(HaveExactElements(report.Budget{Name: "shop/web", Drains: 2, Longest: second(60), Total: second(90), TimedOut: 1, Never: "maxUnavailable: 0"}))
	g.Expect(r.Drains[0]).To(And(HaveField("After", second(10)), HaveField("Duration", second(60)), HaveField("Blocks", HaveExactElements(report.Block{Budget: "shop/web", Duration: second(30), Pods: 2}))))
}

// Claim: A rehearsal says of which kubelets the version was only a name. Broken: what Nodes ran before the upgrade is forgotten; the patch release counts.
func TestKubeletsThatRan(t *testing.T) {
	g := NewWithT(t)
	machine := func(version, code string) *v1alpha1.Machine {
		return &v1alpha1.Machine{Status: v1alpha1.MachineStatus{Versions: &v1alpha1.ObservedVersions{Kubelet: version, KubeletCode: code}}}
	}
	c := course()
	c.Timeline.Add(&observe.Sample{Answered: true, Machines: []*v1alpha1.Machine{machine("v1.36.0", "v1.36.3"), machine("v1.35.4", "v1.37.1"), {}}})
	c.Timeline.Add(&observe.Sample{Answered: true, Machines: []*v1alpha1.Machine{machine("v1.37.1", "v1.37.1"), machine("v1.37.1", "v1.37.1"), machine("v1.37.1", "")}})
	r := &report.Report{}
	r.Judge(c)
	g.Expect(r.Kubelets).To(Equal([]observe.Kubelet{{Version: "v1.35.4", Code: "v1.37.1"}, {Version: "v1.36.0", Code: "v1.36.3"}, {Version: "v1.37.1", Code: "v1.37.1"}}))
	g.Expect(r.Differences).To(ConsistOf(And(ContainSubstring("version v1.35.4 only reported"), ContainSubstring("MINORS=1.35"))))
	var text bytes.Buffer
	g.Expect(r.WriteText(&text)).To(Succeed())
	g.Expect(text.String()).To(ContainSubstring("Nodes of version v1.36.0 ran the kubelet code of v1.36.3"))
}
