package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Pods that come back are evicted again after a time that doubles, by their owner.
const minRefillWait, maxRefillWait = 5 * time.Second, 5 * time.Minute

// mostStrangers is how many pods of a namespace are evicted at once that came after the drain started, and whose owners had none there
// before. Those after them are taken for pods that come back under other names.
const mostStrangers = 20

// Returning are the pods of an owner that makes new ones on the Node for those that the drain evicts.
type Returning struct {
	// Owner is such as "ReplicaSet ns/web-5d4f", "pod ns/name" for pods without one, or "namespace ns" for many such.
	Owner string
	// Tolerates: they tolerate the taint of a cordoned Node. Else something binds them to it without a scheduler.
	Tolerates bool
}

// refills is what a drain of one Node remembers of the owners of its pods. A restart forgets it: then the waits start over.
type refills struct {
	// known are the pods that were there when the drain started, and those that are no news any more.
	known sets.Set[types.UID]
	// evicted are the owners of which a pod was evicted.
	evicted map[string]bool
	owners  map[string]*refill
	// strangers is how many pods of each namespace came after the drain started, and had an owner that had none there before.
	strangers map[string]int
}

// refill is an owner whose pods have come back.
type refill struct {
	Returning
	wait time.Duration
	due  time.Time
}

// holdBack takes those pods out of evict whose owner has made them for evicted ones and whose time has not come. It enters them
// into round. leaving are the pods of the Node that are being deleted.
func (r *refills) holdBack(evict, leaving []corev1.Pod, now time.Time, round *Round) []corev1.Pod {
	first := r.known == nil
	if first {
		r.known, r.evicted, r.owners, r.strangers = sets.New[types.UID](), map[string]bool{}, map[string]*refill{}, map[string]int{}
	}
	ending := sets.New[string]()
	for i := range leaving {
		ending.Insert(r.ownerHere(&leaving[i]))
	}
	again := sets.New[string]()
	var due []corev1.Pod
	for i := range evict {
		pod := &evict[i]
		if first || r.known.Has(pod.UID) || r.isStranger(pod) {
			r.known.Insert(pod.UID)
			r.evicted[ownerOf(pod)] = true
			due = append(due, *pod)
			continue
		}
		owner := r.ownerHere(pod)
		if r.owners[owner] == nil {
			r.owners[owner] = &refill{Returning{owner, toleratesCordon(pod)}, minRefillWait, now.Add(minRefillWait)}
		}
		of := r.owners[owner]
		if now.Before(of.due) || ending.Has(owner) {
			round.Refused = append(round.Refused, Refusal{Pod: nameOf(pod), Why: of.String()})
			continue
		}
		again.Insert(owner)
		due = append(due, *pod)
	}
	for owner, of := range r.owners {
		if again.Has(owner) {
			of.wait = min(2*of.wait, maxRefillWait)
			of.due = now.Add(of.wait)
		}
		if ending.Has(owner) || slices.ContainsFunc(evict, func(pod corev1.Pod) bool { return r.ownerHere(&pod) == owner }) {
			round.Returning = append(round.Returning, of.Returning)
		}
	}
	slices.SortFunc(round.Returning, func(a, b Returning) int { return cmp.Compare(a.Owner, b.Owner) })
	return due
}

// isStranger reports whether a pod that came after the drain started is evicted at once: its owner had none there before, and its namespace
// has not sent many such.
func (r *refills) isStranger(pod *corev1.Pod) bool {
	if r.evicted[ownerOf(pod)] || r.strangers[pod.Namespace] >= mostStrangers {
		return false
	}
	r.strangers[pod.Namespace]++
	return true
}

// ownerHere is the owner of a pod, or its namespace where each pod seems to have another.
func (r *refills) ownerHere(pod *corev1.Pod) string {
	if owner := ownerOf(pod); r.evicted[owner] || r.strangers[pod.Namespace] < mostStrangers {
		return owner
	}
	return "namespace " + pod.Namespace
}

func (r Returning) String() string {
	if r.Tolerates {
		return fmt.Sprintf("pods of %s come back: they tolerate %s", r.Owner, corev1.TaintNodeUnschedulable)
	}
	return fmt.Sprintf("pods of %s come back: they are bound to the cordoned Node", r.Owner)
}

// ownerOf names what makes a pod again: its controller, or else whatever has given it its name.
func ownerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return fmt.Sprintf("%s %s/%s", owner.Kind, pod.Namespace, owner.Name)
	}
	return "pod " + pod.Namespace + "/" + cmp.Or(pod.GenerateName, pod.Name)
}

// toleratesCordon reports whether the scheduler puts a pod on a cordoned Node.
func toleratesCordon(pod *corev1.Pod) bool {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Key == "" && t.Operator == corev1.TolerationOpExists || t.Key == cordon.Key) && (t.Effect == "" || t.Effect == cordon.Effect)
	})
}
