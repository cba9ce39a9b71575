package measurement

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// NeverReadyAfter is how long a pod may not be Ready before it matters where no threshold says how long it may take.
const NeverReadyAfter = 10 * time.Second

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
	// first is when the pod was seen or answered first, for one whose answer never comes.
	first time.Time
	seen  [stages]time.Time
	told  [stages]bool
	// succeeded is that it has done its work, Ready or not.
	succeeded bool
	// unready is why it is not Ready, as the watch has shown it last.
	unready unreadyPod
}

// PodTracker measures how pods start.
type PodTracker struct {
	uid    types.UID
	record recordFunc

	mu   sync.Mutex
	pods map[types.NamespacedName]*podTimes
	// created and ready count pods, and stuck those that were not Ready for long when they were deleted or the steps ended. Lacking
	// are those that were not created for long.
	created, ready, stuck, lacking int64
	// unready are why pods were never Ready.
	unready unreadyPods
	// over is that the steps are: what happens to pods later is not measured.
	over bool
}

func newPodTracker(uid types.UID, record recordFunc) *PodTracker {
	return &PodTracker{uid: uid, record: record, pods: map[types.NamespacedName]*podTimes{}, unready: unreadyPods{}}
}

// markAnswered notes when the API server has answered that it made a pod of the run. The watch may have shown it before.
func (t *PodTracker) markAnswered(key types.NamespacedName, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := t.timesOf(key, at)
	times.created = at
	t.recordStages(times)
}

// observePod notes what the watch shows of a pod, and reports whether that is the first time. Passed is how long ago the pod was made, by
// its creation time.
func (t *PodTracker) observePod(pod *corev1.Pod, now time.Time, passed time.Duration) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	times := t.timesOf(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, now)
	if first = !times.watched; first {
		times.watched = true
		switch {
		case t.isOwnPod(pod):
		case passed > LongestLag:
			// The watch is behind: the pod has been there for longer.
			times.created = now.Add(-passed)
		default:
			times.created = now
		}
	}
	times.succeeded = times.succeeded || pod.Status.Phase == corev1.PodSucceeded
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
	if times.seen[stages-1].IsZero() {
		times.unready = whyUnready(pod)
	}
	t.recordStages(times)
	return first
}

// forgetPod forgets a pod. What it has not reached counts as unfinished.
func (t *PodTracker) forgetPod(pod *corev1.Pod, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if times := t.pods[key]; times != nil {
		t.recordAbandoned(key, times, now)
		delete(t.pods, key)
	}
}

// recordUnfinished counts what pods have not reached when the steps are over as unfinished.
func (t *PodTracker) recordUnfinished(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, times := range t.pods {
		t.recordAbandoned(key, times, now)
	}
	clear(t.pods)
	t.over = true
}

// recordAbandoned records how long a pod has waited for what it never reached. One that has succeeded needs not be Ready any more.
func (t *PodTracker) recordAbandoned(key types.NamespacedName, times *podTimes, now time.Time) {
	if times.created.IsZero() {
		times.created = times.first
		t.recordStages(times)
	}
	if times.succeeded {
		return
	}
	waited := max(now.Sub(times.created), 0)
	t.recordUnreached(times.seen, waited, now)
	if times.seen[stages-1].IsZero() {
		t.unready.addPod(key, times.unready)
		if waited >= NeverReadyAfter {
			t.stuck++
		}
	}
}

// recordUnreached records how long a pod has waited for the stages that were not seen.
func (t *PodTracker) recordUnreached(seen [stages]time.Time, waited time.Duration, now time.Time) {
	for i, stage := range podStages {
		if seen[i].IsZero() {
			t.record(measure.Key{Measurement: stage.measurement, Unfinished: true}, waited, now)
		}
	}
	if seen[stages-1].IsZero() {
		t.record(measure.Key{Measurement: v1alpha1.LoadPodReadyByObject, Unfinished: true}, waited, now)
	}
}

// CountPods is how many pods there have been, and how many of them have been Ready.
func (t *PodTracker) CountPods() (created, ready int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.created, t.ready
}

// CountStuck is how many pods were not Ready for long when they were deleted or the steps ended, and how many were not even created.
func (t *PodTracker) CountStuck() (stuck, lacking int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stuck, t.lacking
}

// isOwnPod reports whether the run has made a pod itself, and so learns when from the answer. Those of its Deployments and the like have
// the label only if the template says so, and an owner in any case.
func (t *PodTracker) isOwnPod(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LoadTestRunUIDLabel] == string(t.uid) && len(pod.OwnerReferences) == 0
}

func (t *PodTracker) timesOf(key types.NamespacedName, now time.Time) *podTimes {
	times := t.pods[key]
	if times == nil {
		times = &podTimes{first: now, unready: unreadyPod{reason: "NotSeen", message: "The watch has not delivered the pod"}}
		t.pods[key] = times
		t.created++
	}
	return times
}

// recordStages records the stages that are known and have not been recorded.
func (t *PodTracker) recordStages(times *podTimes) {
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

// podRunning reports whether all containers of a pod run.
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
