package observe_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

var start = time.Date(2026, 11, 28, 22, 0, 0, 0, time.UTC)

// course takes samples of a cluster that a test changes in between.
type course struct {
	observe.Sample
	timeline *observe.Timeline
}

func newCourse(pods ...*corev1.Pod) *course {
	c := &course{Sample: observe.Sample{At: start, Answered: true, Pods: pods}}
	first := c.Sample
	c.timeline = observe.NewTimeline(&first)
	return c
}

func (c *course) after(d time.Duration) {
	c.At = c.At.Add(d)
	sample := c.Sample
	c.timeline.Add(&sample)
}

func pod(name, node string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{shape.WorkloadAnnotation: "Deployment shop/web"}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func machine(name string, status metav1.ConditionStatus, reason string) *v1alpha1.Machine {
	now := metav1.NewTime(start)
	one := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Generation: 2, DeletionTimestamp: &now, Labels: map[string]string{v1alpha1.MachineDeploymentNameLabel: "pool"},
	}}
	one.Status.NodeRef = &v1alpha1.NodeReference{Name: name}
	if reason != "" {
		one.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MachineDrainedCondition, Status: status, Reason: reason, Message: "waiting", ObservedGeneration: 2}}
	}
	return one
}

// alive is a Machine that is not deleted: a condition is about its update in place.
func alive(name string, status metav1.ConditionStatus, reason string) *v1alpha1.Machine {
	one := machine(name, status, reason)
	one.DeletionTimestamp = nil
	return one
}

func budget(allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: new(intstr.FromInt32(1))},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed, ExpectedPods: 2, CurrentHealthy: 2, DesiredHealthy: 1},
	}
}

// Claim: A budget is charged for the time for which it refused evictions from a Node that was drained. Broken: charged while it allowed one; for pods of other Nodes; after the drain.
func TestABudgetIsChargedForWhatItHeld(t *testing.T) {
	g := NewWithT(t)
	c := newCourse(pod("a", "n1", true), pod("b", "n2", true))
	c.Machines, c.Budgets = []*v1alpha1.Machine{machine("n1", "", "")}, []*policyv1.PodDisruptionBudget{budget(0)}
	c.after(time.Second)
	c.Machines = []*v1alpha1.Machine{machine("n1", metav1.ConditionFalse, v1alpha1.ReasonDraining)}
	c.after(time.Second)
	c.after(2 * time.Second) // Held for 3 s.
	c.Budgets = []*policyv1.PodDisruptionBudget{budget(1)}
	c.after(time.Second) // And 1 s until this sample.
	now := metav1.NewTime(c.At)
	c.Pods = []*corev1.Pod{pod("a", "n1", true), c.Pods[1]}
	c.Pods[0].DeletionTimestamp = &now
	c.Budgets = []*policyv1.PodDisruptionBudget{budget(0)}
	c.after(time.Second)
	c.after(3 * time.Second) // Its own pod is leaving, and that of n2 is no concern of the drain.
	c.Machines = []*v1alpha1.Machine{machine("n1", metav1.ConditionTrue, v1alpha1.ReasonDrained)}
	c.after(time.Second)
	c.Pods = []*corev1.Pod{pod("c", "n1", true), c.Pods[1]}
	c.after(time.Second)
	c.Machines = nil
	c.after(time.Second)

	g.Expect(c.timeline.Drains).To(HaveLen(1))
	drain := c.timeline.Drains[0]
	g.Expect(drain.Node).To(Equal("n1"))
	g.Expect(drain.Group).To(Equal("pool"))
	g.Expect(drain.Outcome).To(Equal(observe.Drained))
	g.Expect(drain.End.Sub(drain.Start)).To(Equal(9 * time.Second))
	g.Expect(drain.Blocked).To(Equal(map[string]time.Duration{"shop/web": 4 * time.Second}))
	g.Expect(drain.Refused).To(Equal(map[string]int{"shop/web": 1}))
	g.Expect(drain.Leaving).To(Equal(4 * time.Second))
	g.Expect(c.timeline.Never).To(BeEmpty())
}

func TestADrainThatTimesOut(t *testing.T) {
	g := NewWithT(t)
	never := budget(0)
	never.Spec.MinAvailable, never.Spec.MaxUnavailable = nil, new(intstr.FromInt32(0))
	c := newCourse(pod("a", "n1", true), pod("b", "n2", true))
	c.Machines, c.Budgets = []*v1alpha1.Machine{machine("n1", metav1.ConditionFalse, v1alpha1.ReasonMisconfiguredBudget), machine("n2", metav1.ConditionFalse, v1alpha1.ReasonDraining)}, []*policyv1.PodDisruptionBudget{never}
	c.after(time.Second)
	c.after(time.Minute)
	c.Machines[0] = machine("n1", metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut)
	c.after(time.Second)
	g.Expect(c.timeline.Drains[0].Outcome).To(Equal(observe.TimedOut))
	g.Expect(c.timeline.Drains[0].Blocked["shop/web"]).To(Equal(6*time.Second), "what was in a long pause nobody knows")
	g.Expect(c.timeline.Drains[1].Outcome).To(Equal(observe.Unfinished))
	g.Expect(c.timeline.Never).To(HaveKeyWithValue("shop/web", "maxUnavailable: 0"))
}

func TestADrainForAnUpdateInPlaceEndsWithItsCondition(t *testing.T) {
	g := NewWithT(t)
	c := newCourse(pod("a", "n1", true))
	c.Machines = []*v1alpha1.Machine{alive("n1", metav1.ConditionFalse, v1alpha1.ReasonDraining)}
	c.after(time.Second)
	c.Machines = []*v1alpha1.Machine{alive("n1", "", "")}
	c.after(time.Second)
	c.after(time.Second)
	g.Expect(c.timeline.Drains).To(HaveExactElements(And(HaveField("Outcome", observe.Drained), HaveField("End", start.Add(2*time.Second)))))
	c.Machines = []*v1alpha1.Machine{alive("n1", metav1.ConditionFalse, v1alpha1.ReasonDraining)}
	c.after(time.Second)
	g.Expect(c.timeline.Drains).To(HaveLen(2), "another drain of the same Machine")
}

// Claim: The drain of a Machine that is deleted is timed although its agent says nothing of it. Broken: only the condition is looked at.
func TestADrainThatItsAgentDoesNotMention(t *testing.T) {
	g := NewWithT(t)
	c := newCourse(pod("a", "n1", true), pod("b", "n2", true))
	c.Machines, c.Budgets = []*v1alpha1.Machine{machine("n1", "", ""), machine("n2", "", "")}, []*policyv1.PodDisruptionBudget{budget(0)}
	c.after(time.Second)
	c.after(2 * time.Second)
	c.Pods = c.Pods[1:]
	c.after(time.Second)
	c.after(time.Second)
	c.Machines = nil
	c.after(time.Second)
	g.Expect(c.timeline.Drains).To(HaveExactElements(
		And(HaveField("Node", "n1"), HaveField("Outcome", observe.Drained), HaveField("End", start.Add(4*time.Second)), HaveField("Blocked", HaveKeyWithValue("shop/web", 3*time.Second))),
		And(HaveField("Node", "n2"), HaveField("Outcome", observe.TimedOut), HaveField("Message", ContainSubstring("while a budget held pods"))),
	))
}

// Claim: A Machine that is drained and gone from one sample to the next counts as drained. Broken: only conditions are looked at.
func TestADrainBetweenTwoSamples(t *testing.T) {
	g := NewWithT(t)
	c := newCourse()
	c.Machines = []*v1alpha1.Machine{alive("n1", "", "")}
	c.after(time.Second)
	g.Expect(c.timeline.Drains).To(BeEmpty())
	c.Machines = nil
	c.after(time.Second)
	g.Expect(c.timeline.Drains).To(HaveExactElements(And(HaveField("Node", "n1"), HaveField("Outcome", observe.Drained))))
}

// Machines and pods are watched apart, so a Machine may be gone before the last eviction from its Node is known.
func TestAShortHoldIsNoTimeout(t *testing.T) {
	g := NewWithT(t)
	c := newCourse(pod("a", "n1", true), pod("b", "n2", true))
	c.Machines, c.Budgets = []*v1alpha1.Machine{machine("n1", "", "")}, []*policyv1.PodDisruptionBudget{budget(0)}
	c.after(time.Second)
	c.after(300 * time.Millisecond)
	c.Machines = nil
	c.after(10 * time.Millisecond)
	g.Expect(c.timeline.Drains).To(HaveExactElements(And(
		HaveField("Outcome", observe.Drained), HaveField("Message", ""), HaveField("Blocked", HaveKeyWithValue("shop/web", 310*time.Millisecond)))))
}

func TestWhichPodsABudgetHolds(t *testing.T) {
	always := policyv1.AlwaysAllow
	for name, test := range map[string]struct {
		change func(*corev1.Pod, *policyv1.PodDisruptionBudget)
		held   bool
	}{
		"a Ready one":                       {func(*corev1.Pod, *policyv1.PodDisruptionBudget) {}, true},
		"of another namespace":              {func(p *corev1.Pod, _ *policyv1.PodDisruptionBudget) { p.Namespace = "x" }, false},
		"with other labels":                 {func(p *corev1.Pod, _ *policyv1.PodDisruptionBudget) { p.Labels = nil }, false},
		"no selector":                       {func(_ *corev1.Pod, b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, false},
		"an empty selector":                 {func(_ *corev1.Pod, b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }, true},
		"one allowed":                       {func(_ *corev1.Pod, b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }, false},
		"one allowed for an earlier budget": {func(_ *corev1.Pod, b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed, b.Generation = 1, 2 }, true},
		"unready while enough are healthy":  {func(p *corev1.Pod, _ *policyv1.PodDisruptionBudget) { p.Status.Conditions = nil }, false},
		"unready while too few are": {func(p *corev1.Pod, b *policyv1.PodDisruptionBudget) {
			p.Status.Conditions, b.Status.CurrentHealthy = nil, 0
		}, true},
		"unready, which may always go": {func(p *corev1.Pod, b *policyv1.PodDisruptionBudget) {
			p.Status.Conditions, b.Status.CurrentHealthy, b.Spec.UnhealthyPodEvictionPolicy = nil, 0, &always
		}, false},
		"of a DaemonSet": {func(p *corev1.Pod, _ *policyv1.PodDisruptionBudget) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, b := pod("a", "n1", true), budget(0)
			test.change(p, b)
			c := newCourse(p)
			c.Machines, c.Budgets = []*v1alpha1.Machine{machine("n1", metav1.ConditionFalse, v1alpha1.ReasonDraining)}, []*policyv1.PodDisruptionBudget{b}
			c.after(time.Second)
			c.after(time.Second)
			isHeld := len(c.timeline.Drains[0].Blocked) > 0
			NewWithT(t).Expect(isHeld).To(Equal(test.held))
		})
	}
}

func TestWorkloadsThatLoseTheirPodsAndOutages(t *testing.T) {
	g := NewWithT(t)
	c := newCourse(pod("a", "n1", true), pod("b", "n2", true))
	c.Pods = []*corev1.Pod{pod("a", "n1", true)}
	c.after(time.Second)
	c.Pods = []*corev1.Pod{pod("c", "n3", false)}
	c.after(time.Second)
	c.after(2 * time.Second)
	c.Answered = false
	c.after(time.Second)
	c.after(2 * time.Second)
	c.Answered = true
	c.Pods = []*corev1.Pod{pod("c", "n3", true), pod("d", "n3", true)}
	c.after(time.Second)
	c.after(time.Second)
	g.Expect(c.timeline.ListDips()).To(HaveExactElements(observe.Dip{Workload: "Deployment shop/web", Want: 2, Lowest: 0, Missing: 4 * time.Second, None: 3 * time.Second}))
	g.Expect(c.timeline.Outages).To(HaveLen(1))
	g.Expect(c.timeline.Outages[0].End.Sub(c.timeline.Outages[0].Start)).To(Equal(3 * time.Second))
}

func TestPodsWithoutANode(t *testing.T) {
	g := NewWithT(t)
	waiting := pod("a", "", false)
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}
	other := pod("x", "", false)
	other.Annotations = nil
	s := observe.Sample{Pods: []*corev1.Pod{waiting, waiting.DeepCopy(), pod("b", "n", true), other}}
	g.Expect(s.ListUnscheduled()).To(HaveExactElements(observe.Unscheduled{Workload: "Deployment shop/web", Pods: 2, Reason: "0/2 nodes are available"}))
	g.Expect(s.CountPods()).To(Equal(map[string]observe.WorkloadPods{"Deployment shop/web": {Total: 3, Scheduled: 1, Ready: 1}}))
}
