package measurement

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// notCreated is the reason of pods that were never created.
const notCreated = "NotCreated"

var (
	daemonSetKind = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	// replicated are the kinds that ask for pods by spec.replicas.
	replicated = []schema.GroupKind{deploymentKind, statefulSetKind, {Group: "apps", Kind: "ReplicaSet"}, {Kind: "ReplicationController"}}
)

// lack is pods that an object asks for and that do not exist: an admission plugin refuses them, or a controller does not work. The watch of
// pods never shows them.
type lack struct {
	pods  int64
	since time.Time
	// waited is how long they had been missing when the steps ended, or the object was deleted.
	waited time.Duration
	why    string
}

// asksForPods reports whether objects of a kind say how many pods they ask for, and how many exist.
func asksForPods(kind schema.GroupKind) bool {
	return kind == daemonSetKind || kind == jobKind || slices.Contains(replicated, kind)
}

// countLacking is how many pods an object asks for that do not exist, and why, if it says so.
func countLacking(kind schema.GroupKind, object *unstructured.Unstructured) (pods int64, why string) {
	var wanted, exist int64
	switch {
	case kind == daemonSetKind:
		wanted, _ = nestedNumber(object, "status", "desiredNumberScheduled")
		exist, _ = nestedNumber(object, "status", "currentNumberScheduled")
	case kind == jobKind:
		wanted, exist = countPodsOfJob(object)
	case slices.Contains(replicated, kind):
		if paused, _, _ := unstructured.NestedBool(object.Object, "spec", "paused"); paused {
			return 0, ""
		}
		wanted = wantedReplicas(object)
		exist, _ = nestedNumber(object, "status", "replicas")
	}
	return max(wanted-exist, 0), conditionMessage(object, "ReplicaFailure")
}

// countPodsOfJob is how many pods a Job would have at a time, and how many it has or had. One that failed has existed, and its
// replacement may wait.
func countPodsOfJob(job *unstructured.Unstructured) (wanted, exist int64) {
	suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend")
	if _, ended, _ := unstructured.NestedString(job.Object, "status", "completionTime"); ended || suspended {
		return 0, 0
	}
	wanted, set := nestedNumber(job, "spec", "parallelism")
	if !set {
		wanted = 1
	}
	succeeded, _ := nestedNumber(job, "status", "succeeded")
	if completions, set := nestedNumber(job, "spec", "completions"); set {
		wanted = min(wanted, completions-succeeded)
	} else if succeeded > 0 {
		return 0, 0 // Without a number, it makes no pod after the first success.
	}
	active, _ := nestedNumber(job, "status", "active")
	failed, _ := nestedNumber(job, "status", "failed")
	return wanted, active + failed
}

// NoteLack notes how many pods an object lacks that is about to be made: all of them, until the watch shows it.
func (b *Book) NoteLack(o *Object, rendered *unstructured.Unstructured, now time.Time) {
	pods, why := countLacking(o.kind, rendered)
	b.noteLack(o.placeOf(), pods, why, now)
}

// noteLack notes how many pods an object lacks.
func (b *Book) noteLack(at place, pods int64, why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.objects[at]
	switch {
	case o == nil:
	case pods == 0:
		o.lack = lack{}
	case o.lack.pods == 0:
		o.lack = lack{pods: pods, since: now, why: why}
	default:
		o.lack.pods, o.lack.why = pods, why
	}
}

// endLack keeps what an object lacks that is being deleted. The caller holds mu.
func (b *Book) endLack(o *Object, now time.Time) {
	if o.lack.pods > 0 {
		o.lack.waited = max(now.Sub(o.lack.since), 0)
		b.lacks = append(b.lacks, o.lack)
		o.lack = lack{}
	}
}

// endLacks returns what objects lack, and what those lacked that were deleted.
func (b *Book) endLacks(now time.Time) []lack {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.objects {
		if o.state == made {
			b.endLack(o, now)
		}
	}
	return b.lacks
}

// recordLack records pods that were never created as pods that reached nothing.
func (t *PodTracker) recordLack(missing lack, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range missing.pods {
		t.recordUnreached([stages]time.Time{}, missing.waited, now)
		t.unready.addPod(types.NamespacedName{}, unreadyPod{reason: notCreated, message: missing.why})
	}
	if missing.waited >= NeverReadyAfter {
		t.lacking += missing.pods
	}
}
