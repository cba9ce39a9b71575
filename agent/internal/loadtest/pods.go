package loadtest

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// stages is how many things happen to a pod until it is Ready, which is the last of them.
const stages = 4

// podStages are what happens to a pod, in order.
var podStages = [stages]struct {
	measurement v1alpha1.LoadMeasurement
	reached     func(*corev1.Pod) bool
}{
	{v1alpha1.LoadPodScheduled, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }},
	{v1alpha1.LoadPodInitialized, func(pod *corev1.Pod) bool { return podCondition(pod, corev1.PodInitialized) != nil }},
	{v1alpha1.LoadPodRunning, podRunning},
	{v1alpha1.LoadPodReady, func(pod *corev1.Pod) bool { return podCondition(pod, corev1.PodReady) != nil }},
}

// recordFunc takes in a measured time that ended at a point of time.
type recordFunc func(key measure.Key, measured time.Duration, at time.Time)

// podTimes is when the watch has shown the stages of a pod.
type podTimes struct {
	// watched is that the watch has shown the pod.
	watched bool
	// created is when the answer to the creation came or, for pods that the run has not made itself, when the watch has shown them
	// first. It is zero as long as the answer has not come.
	created time.Time
	seen    [stages]time.Time
	told    [stages]bool
}

// podTracker measures how pods start.
type podTracker struct {
	uid    types.UID
	record recordFunc

	mu   sync.Mutex
	pods map[types.NamespacedName]*podTimes
	// created and ready count pods.
	created, ready int64
}

func newPodTracker(uid types.UID, record recordFunc) *podTracker {
	return &podTracker{uid: uid, record: record, pods: map[types.NamespacedName]*podTimes{}}
}

// answered notes when the API server has answered that it made a pod of the run. The watch may have shown it before.
func (t *podTracker) answered(key types.NamespacedName, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := t.of(key)
	times.created = at
	t.tell(times)
}

// observe notes what the watch shows of a pod.
func (t *podTracker) observe(pod *corev1.Pod, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := t.of(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	if !times.watched {
		times.watched = true
		t.created++
		if !t.own(pod) {
			times.created = now
		}
	}
	for i, stage := range podStages {
		if times.seen[i].IsZero() && stage.reached(pod) {
			times.seen[i] = now
			if stage.measurement == v1alpha1.LoadPodReady {
				t.ready++
				took := podCondition(pod, corev1.PodReady).LastTransitionTime.Sub(pod.CreationTimestamp.Time)
				t.record(measure.Key{Measurement: v1alpha1.LoadPodReadyByObject}, max(took, 0), now)
			}
		}
	}
	t.tell(times)
}

// gone forgets a pod.
func (t *podTracker) gone(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, key)
}

// counts is how many pods there have been, and how many of them have been Ready.
func (t *podTracker) counts() (created, ready int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.created, t.ready
}

// own tells whether the run has made a pod itself, and so learns when from the answer. Those of its Deployments and the like have
// the label only if the template says so, and an owner in any case.
func (t *podTracker) own(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LoadTestRunUIDLabel] == string(t.uid) && len(pod.OwnerReferences) == 0
}

func (t *podTracker) of(key types.NamespacedName) *podTimes {
	times := t.pods[key]
	if times == nil {
		times = &podTimes{}
		t.pods[key] = times
	}
	return times
}

// tell records the stages that are known and have not been recorded.
func (t *podTracker) tell(times *podTimes) {
	if times.created.IsZero() {
		return
	}
	for i, stage := range podStages {
		if !times.told[i] && !times.seen[i].IsZero() {
			times.told[i] = true
			t.record(measure.Key{Measurement: stage.measurement}, max(times.seen[i].Sub(times.created), 0), times.seen[i])
		}
	}
}

// podCondition returns a condition of a pod that is True, nil if it is not.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// podRunning tells whether all containers of a pod run.
func podRunning(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].State.Running == nil {
			return false
		}
	}
	return true
}
