// Package inventory has what the pictures of a Cluster in the inventories of others have in common: which labels
// they carry, how they say that the cluster is well, and how they are written and told about.
package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// FieldManager owns what the hub writes.
const FieldManager = client.FieldOwner("hollowfleet-hub")

// Difference says which parts of an object are to be written, besides labels and annotations that differ.
type Difference struct {
	Spec, Status bool
}

// Put makes existing like wanted, a changed copy of it, and writes nothing that does not differ. Status goes first.
func Put(ctx context.Context, c client.Client, existing, wanted client.Object, differs Difference) error {
	before := existing.DeepCopyObject().(client.Object)
	if differs.Status {
		after := wanted.DeepCopyObject().(client.Object)
		if err := c.Status().Patch(ctx, after, reconciler.MergeFromWithLock(before), FieldManager); err != nil {
			return fmt.Errorf("writing status of %T %s: %w", wanted, wanted.GetName(), err)
		}
		before.SetResourceVersion(after.GetResourceVersion())
	}
	if !differs.Spec && maps.Equal(before.GetLabels(), wanted.GetLabels()) && maps.Equal(before.GetAnnotations(), wanted.GetAnnotations()) {
		return nil
	}
	after := wanted.DeepCopyObject().(client.Object)
	after.SetResourceVersion(before.GetResourceVersion())
	if err := c.Patch(ctx, after, reconciler.MergeFromWithLock(before), FieldManager); err != nil {
		return fmt.Errorf("writing %T %s: %w", wanted, wanted.GetName(), err)
	}
	return nil
}

// Remove deletes the picture of a Cluster. It is only a picture, so the absence of its Cluster is enough; but that
// is asked of the API server itself, since a cache may not know the Cluster yet. Wanted reports whether a Cluster
// that is there has a picture.
func Remove(ctx context.Context, c client.Client, picture client.Object, wanted func(*v1alpha1.Cluster) bool) error {
	cluster := &v1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: picture.GetName()}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting cluster %s: %w", picture.GetName(), err)
	}
	if err == nil && wanted(cluster) {
		return nil
	}
	uid, version := picture.GetUID(), picture.GetResourceVersion()
	if err := c.Delete(ctx, picture, preconditionsOf(uid, version)); err != nil {
		return fmt.Errorf("deleting %T %s: %w", picture, picture.GetName(), err)
	}
	return nil
}

func preconditionsOf(uid types.UID, version string) client.Preconditions {
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

// IgnoreGone drops the error of an object, or of a whole kind, that is gone or about to go.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	return err
}

// Available says whether a cluster's API server is known to be well. Only an agent that is heard of can tell:
// without one the answer is Unknown, never False.
func Available(cluster *v1alpha1.Cluster) metav1.Condition {
	for _, part := range []string{v1alpha1.ClusterAgentConnectedCondition, v1alpha1.ClusterTargetReachableCondition} {
		said := Said(cluster, part)
		if part == v1alpha1.ClusterAgentConnectedCondition && said.Status != metav1.ConditionTrue {
			said.Status = metav1.ConditionUnknown
		}
		if said.Status != metav1.ConditionTrue {
			return said
		}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReachable,
		Message: "The cluster's agent is connected and reaches the cluster's API server"}
}

// Said is what a condition of cluster says, without its type; Unknown if it is missing.
func Said(cluster *v1alpha1.Cluster, condition string) metav1.Condition {
	found := meta.FindStatusCondition(cluster.Status.Conditions, condition)
	if found == nil {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: condition + " is not known yet"}
	}
	return metav1.Condition{Status: found.Status, Reason: found.Reason, Message: found.Message}
}

// kept are the domains whose labels mean something about the very object that carries them, so that a copy would
// be false: those of Kubernetes, of this hub and of Open Cluster Management (membership of a cluster set is a
// right there, checked when the label is written), and those by which GitOps tools know what to prune.
var kept = []string{"kubernetes.io", "k8s.io", "hollowfleet.io", "open-cluster-management.io", "argoproj.io", "fluxcd.io"}

// topology is the one domain of Kubernetes that says where a cluster is.
const topology = "topology.kubernetes.io"

// Labels are those of labels that are worth copying to another object: the users' own, and the topology.
func Labels(labels map[string]string) map[string]string {
	copied := map[string]string{}
	for key, value := range labels {
		if isCopyable(key) {
			copied[key] = value
		}
	}
	return copied
}

func isCopyable(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found || domain == topology {
		return true
	}
	return !slices.ContainsFunc(kept, func(kept string) bool {
		return domain == kept || strings.HasSuffix(domain, "."+kept)
	})
}

// CopyLabels makes object carry wanted, and nothing of what was copied to it before and is not wanted any more.
// Labels that others gave it stay.
func CopyLabels(object metav1.Object, wanted map[string]string) {
	labels, annotations := maps.Clone(object.GetLabels()), maps.Clone(object.GetAnnotations())
	for key := range strings.SplitSeq(annotations[v1alpha1.CopiedLabelsAnnotation], ",") {
		if isCopyable(key) { // Else another client has written into the list what can't have been copied.
			delete(labels, key)
		}
	}
	delete(annotations, v1alpha1.CopiedLabelsAnnotation)
	if len(wanted) > 0 {
		labels, annotations = ensureMap(labels), ensureMap(annotations)
		maps.Copy(labels, wanted)
		annotations[v1alpha1.CopiedLabelsAnnotation] = strings.Join(slices.Sorted(maps.Keys(wanted)), ",")
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}

func ensureMap(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}
