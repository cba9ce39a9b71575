package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// remindInterval is how often the reminder looks, and how long a pod has to have waited for its first reminder. Every further wait is
	// twice as long, up to longestReminder.
	remindInterval, longestReminder = 15 * time.Second, 5 * time.Minute
	// remindTimeout bounds one look.
	remindTimeout = time.Minute
	// takeoverLeases is for how many durations of a Lease all pods are looked at after another controller has taken a Node over.
	takeoverLeases = 3
	// podPage is how many pods are read at a time.
	podPage = 500
)

// reminder makes kwok's controller look again at pods that it has overlooked. The controller reads the pods of a Node once, when it has
// taken its Lease; if its own cache does not show that Lease yet, it leaves these pods alone until they change. So the reminder changes an
// annotation of theirs. It removes nothing, and a pod that moves on by itself never meets it.
type reminder struct {
	target        driver.Access
	log           logr.Logger
	clock         clock.PassiveClock
	leaseDuration time.Duration
	isOwn         func(*corev1.Node) bool

	// holder is the last that was seen to hold the Lease of a Node; empty before the first look. Until takeoverEnds not only the pods are
	// looked at that have not started yet, which are few and cheap to find, but all.
	holder       string
	takeoverEnds time.Time
}

func (d *Driver) newReminder() *reminder {
	return &reminder{
		target: d.environment.Target, log: d.environment.Log, clock: d.environment.Clock, isOwn: d.isOwn,
		leaseDuration: time.Duration(leaseSeconds(d.options)) * time.Second,
	}
}

// remindUntilDone looks again and again until ctx ends. A failure, such as that of a frozen agent, is put right by a later look.
func (r *reminder) remindUntilDone(ctx context.Context) {
	for reported := ""; waitFor(ctx, remindInterval); {
		bounded, cancel := context.WithTimeout(ctx, remindTimeout)
		err := r.remindOnce(bounded)
		cancel()
		switch {
		case err == nil:
			reported = ""
		case err.Error() != reported && ctx.Err() == nil:
			reported = err.Error()
			r.log.Info("Looking later for pods that kwok's controller has overlooked", "reason", reported)
		}
	}
}

// remindOnce looks once.
func (r *reminder) remindOnce(ctx context.Context) error {
	ready, err := r.listReadyNodes(ctx)
	if err != nil || len(ready) == 0 {
		return err
	}
	if err := r.observeHolder(ctx, ready); err != nil {
		return err
	}
	return r.eachPod(ctx, func(pod *corev1.Pod) error {
		if _, own := slices.BinarySearch(ready, pod.Spec.NodeName); !own || !isOverlooked(pod, r.clock.Now()) {
			return nil
		}
		return r.remindOf(ctx, pod)
	})
}

// listReadyNodes returns the sorted names of the driver's own Nodes that a controller keeps Ready: another has no use for reminders.
func (r *reminder) listReadyNodes(ctx context.Context) ([]string, error) {
	nodes := &corev1.NodeList{}
	err := r.target.Client.List(ctx, nodes, client.MatchingLabels{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		node := &nodes.Items[i]
		isReady := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if isReady && node.DeletionTimestamp == nil && r.isOwn(node) {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// observeHolder notices by the Lease of one Node that another controller takes the Nodes over: one controller has them all.
func (r *reminder) observeHolder(ctx context.Context, ready []string) error {
	lease := &coordinationv1.Lease{}
	err := r.target.Reader.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: ready[0]}, lease)
	if apierrors.IsNotFound(err) {
		return nil // A Node that has just been created.
	}
	if err != nil {
		return fmt.Errorf("getting the Lease of node %s: %w", ready[0], err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" && holder != r.holder {
		r.holder = holder
		r.takeoverEnds = r.clock.Now().Add(takeoverLeases * r.leaseDuration)
	}
	return nil
}

// eachPod calls visit for the pods that have a Node and may have been overlooked.
func (r *reminder) eachPod(ctx context.Context, visit func(*corev1.Pod) error) error {
	selector := fields.OneTermNotEqualSelector("spec.nodeName", "")
	if !r.clock.Now().Before(r.takeoverEnds) {
		selector = fields.AndSelectors(selector, fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)))
	}
	for token, more := "", true; more; more = token != "" {
		pods := &corev1.PodList{}
		if err := r.target.Reader.List(ctx, pods, client.MatchingFieldsSelector{Selector: selector}, client.Limit(podPage), client.Continue(token)); err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		for i := range pods.Items {
			if err := visit(&pods.Items[i]); err != nil {
				return err
			}
		}
		token = pods.Continue
	}
	return nil
}

// remindOf changes pod. One that has been replaced meanwhile is left alone.
func (r *reminder) remindOf(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{v1alpha1.KwokRemindedAtAnnotation: r.clock.Now().UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// The right to patch the status is enough, and less than that to patch pods.
	err = r.target.Client.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("patching pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// isOverlooked reports whether pod has waited so long for kwok's controller, which acts at once, that it is time for a reminder.
func isOverlooked(pod *corev1.Pod, now time.Time) bool {
	since, waits := waitingSince(pod)
	if !waits {
		return false
	}
	last, err := time.Parse(time.RFC3339, pod.Annotations[v1alpha1.KwokRemindedAtAnnotation])
	if err != nil || last.Before(since) || last.After(now) {
		return now.Sub(since) >= remindInterval // It has not been reminded of, or for another reason.
	}
	return now.Sub(last) >= min(max(last.Sub(since), remindInterval), longestReminder)
}

// waitingSince returns when kwok's controller would have had to act on pod by its stages, and false if it has nothing to do.
func waitingSince(pod *corev1.Pod) (time.Time, bool) {
	isJobs := slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == "Job" })
	switch {
	case pod.DeletionTimestamp != nil:
		grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
		// With no grace left and finalizers, it has been removed already, and somebody else has to let it go.
		return pod.DeletionTimestamp.Add(-grace), grace > 0 || len(pod.Finalizers) == 0
	case pod.Status.Phase == corev1.PodPending:
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
				return condition.LastTransitionTime.Time, true
			}
		}
		return pod.CreationTimestamp.Time, true
	case pod.Status.Phase == corev1.PodRunning && isJobs && pod.Status.StartTime != nil:
		return pod.Status.StartTime.Time, true
	}
	return time.Time{}, false
}
