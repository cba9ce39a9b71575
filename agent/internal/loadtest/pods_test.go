package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

type recorded map[v1alpha1.LoadMeasurement][]time.Duration

func (r recorded) record(key measure.Key, took time.Duration, _ time.Time) {
	r[key.Measurement] = append(r[key.Measurement], took)
}

func TestPodTimes(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	pod := func(name string, own bool, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(at(0))}}
		if own {
			p.Labels = map[string]string{v1alpha1.LoadTestRunUIDLabel: "u"}
		}
		p.Spec.Containers = make([]corev1.Container, 1)
		if change != nil {
			change(p)
		}
		return p
	}
	scheduled := func(p *corev1.Pod) { p.Spec.NodeName = "x" }
	ready := func(p *corev1.Pod) {
		scheduled(p)
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(3))},
		}
	}
	all := func(scheduled, rest time.Duration) recorded {
		return recorded{
			v1alpha1.LoadPodScheduled: {scheduled}, v1alpha1.LoadPodInitialized: {rest}, v1alpha1.LoadPodRunning: {rest}, v1alpha1.LoadPodReady: {rest},
			v1alpha1.LoadPodReadyByObject: {3 * time.Second},
		}
	}
	key := types.NamespacedName{Namespace: "n", Name: "p"}
	for name, test := range map[string]struct {
		do   func(*podTracker)
		want recorded
	}{
		"the answer before the watch": {func(p *podTracker) {
			p.answered(key, at(1))
			p.observe(pod("p", true, nil), at(2))
			p.observe(pod("p", true, scheduled), at(3))
			p.observe(pod("p", true, ready), at(5))
			p.observe(pod("p", true, ready), at(9))
		}, all(2*time.Second, 4*time.Second)},
		"the watch before the answer": {func(p *podTracker) {
			p.observe(pod("p", true, scheduled), at(2))
			p.observe(pod("p", true, ready), at(3))
			p.answered(key, at(1))
		}, all(time.Second, 2*time.Second)},
		"a pod of a controller": {func(p *podTracker) {
			p.observe(pod("p", false, nil), at(2))
			p.observe(pod("p", false, scheduled), at(3))
			p.observe(pod("p", false, ready), at(5))
		}, all(time.Second, 3*time.Second)},
		"a pod without an answer": {func(p *podTracker) {
			p.observe(pod("p", true, scheduled), at(2))
		}, recorded{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := recorded{}
			tracker := newPodTracker("u", got.record)
			test.do(tracker)
			NewWithT(t).Expect(got).To(Equal(test.want))
			created, _ := tracker.counts()
			NewWithT(t).Expect(created).To(BeEquivalentTo(1))
		})
	}
}

func TestNodeTimes(t *testing.T) {
	g := NewWithT(t)
	got := recorded{}
	tracker := newNodeTracker(got.record)
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	node := func(name string, status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	}
	tracker.observe(node("old", corev1.ConditionTrue), true, at(0))
	tracker.observe(node("ill", corev1.ConditionFalse), true, at(0))
	tracker.observe(node("new", corev1.ConditionFalse), false, at(1))
	tracker.observe(node("ill", corev1.ConditionTrue), false, at(2))
	g.Expect(got).To(BeEmpty(), "it is not known since when it was ill")
	tracker.observe(node("new", corev1.ConditionTrue), false, at(4))
	tracker.observe(node("old", corev1.ConditionUnknown), false, at(5))
	tracker.observe(node("old", corev1.ConditionTrue), false, at(7))
	g.Expect(got).To(Equal(recorded{v1alpha1.LoadNodeReady: {3 * time.Second, 2 * time.Second}}))
	tracker.gone("ill")
	g.Expect(tracker.hollow()).To(Equal(map[string]bool{"old": true, "new": true}))
}
