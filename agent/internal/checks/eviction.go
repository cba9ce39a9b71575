package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// mostAsked bounds the pods of a budget and of each class that are tried: the API answers for those of a class alike, unless an
// admission webhook or another budget has something to say.
const mostAsked = 3

// class is what the eviction API tells the pods of one budget apart by.
type class int

const (
	// ready pods count for the budget.
	ready class = iota
	// unready ones may go by the budget's unhealthyPodEvictionPolicy.
	unready
	// pending ones, and those that are being deleted, go in any case.
	pending
)

func classOf(pod *corev1.Pod) class {
	switch {
	case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodPending:
		return pending
	case slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}):
		return ready
	}
	return unready
}

// samplePods returns the pods to try, those that are most likely refused first.
func samplePods(pods []corev1.Pod) []*corev1.Pod {
	var byClass [pending + 1][]*corev1.Pod
	for i := range pods {
		if of := classOf(&pods[i]); len(byClass[of]) < mostAsked {
			byClass[of] = append(byClass[of], &pods[i])
		}
	}
	return slices.Concat(byClass[:]...)
}

// findRefusal asks the API server, without any effect, to evict pods one by one, and returns why it refuses one of them; empty if it
// refuses none. Only that answer counts: which pods a budget holds has exceptions, and more of them with each release.
func (c *Checker) findRefusal(ctx context.Context, pods []corev1.Pod) (string, error) {
	for _, pod := range samplePods(pods) {
		err := c.tryEviction(ctx, pod)
		_, forBudget := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		case forBudget:
			return refusedForNow, nil
		case severalBudgets(err):
			return "is one of several that select the same pod, which no eviction can satisfy", nil
		default:
			return "", fmt.Errorf("trying to evict pod %s/%s, as a dry run: %w", pod.Namespace, pod.Name, err)
		}
	}
	return "", nil
}

// severalBudgets reports whether the API server evicts a pod never, because more than one budget selects it. It has no reason for that.
func severalBudgets(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.Contains(status.Status().Message, "more than one PodDisruptionBudget")
}

// tryEviction is an eviction as a dry run. The request says so too, and not its body alone: by that the gate of a freeze knows
// that it changes nothing.
func (c *Checker) tryEviction(ctx context.Context, pod *corev1.Pod) error {
	dryRun := []string{metav1.DryRunAll}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
	err := c.Target.CoreV1().RESTClient().Post().MaxRetries(0).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		VersionedParams(&metav1.CreateOptions{DryRun: dryRun}, scheme.ParameterCodec).Body(eviction).Do(ctx).Error()
	if apierrors.IsConflict(err) {
		return nil // Another pod has its name now: this one is gone.
	}
	return err
}
