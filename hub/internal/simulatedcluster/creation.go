package simulatedcluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// ensureCluster makes the Cluster, or brings its labels up to date.
func (c *Controller) ensureCluster(ctx context.Context, s *scope) error {
	if s.created = s.explainRefusal(); s.created.Reason != "" {
		return nil
	}
	s.created = metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCreated}
	if s.cluster != nil {
		if err := c.addFinalizer(ctx, s.one); err != nil {
			return err
		}
		return c.updateLabels(ctx, s)
	}
	return c.createCluster(ctx, s)
}

// explainRefusal says why a Cluster is not created for it; the reason is empty if it may be. It is pure.
func (s *scope) explainRefusal() metav1.Condition {
	refusal := func(reason, format string, args ...any) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch host, name := s.one.Namespace, s.one.Name; {
	case s.owns() && s.cluster.DeletionTimestamp != nil:
		return refusal(v1alpha1.ReasonDeleting, "Cluster %s is being deleted; it is created again when it is gone", name)
	case s.owns():
		return metav1.Condition{}
	case s.cluster != nil:
		return refusal(v1alpha1.ReasonNameTaken, "metadata.name: Cluster %s exists and was not made for this SimulatedCluster, so it is left alone: choose another name, or remove it (kubectl hollow cluster remove %s)."+
			" To hand it over, set its annotation %s to %s", name, name, v1alpha1.SimulatedClusterAnnotation, s.one.ProofOfSimulation())
	case s.host == nil:
		return refusal(v1alpha1.ReasonNoHost, "metadata.namespace: Cluster %s does not exist: create the SimulatedCluster in the namespace of the Cluster that is to host it", host)
	case s.hostSimulated:
		return refusal(v1alpha1.ReasonHostSimulated, "metadata.namespace: Cluster %s is simulated itself: create the SimulatedCluster in the namespace of a Cluster that is not", host)
	case s.held.Frozen:
		return refusal(s.held.Reason, "It is created when nothing holds it any more: %s", s.held.Message)
	}
	const remedy = "create the SimulatedCluster in the namespace of a Cluster whose agent does, such as the host of a local fleet (kubectl hollow local up)"
	switch allowed := meta.FindStatusCondition(s.host.Status.Conditions, v1alpha1.ClusterSimulatedClustersAllowedCondition); {
	case allowed == nil:
		return refusal(v1alpha1.ReasonHostNotAllowed, "The agent of Cluster %s runs no simulated clusters: %s", s.host.Name, remedy)
	case allowed.Status != metav1.ConditionTrue:
		return refusal(v1alpha1.ReasonHostNotAllowed, "The agent of Cluster %s runs no simulated clusters: %s: %s", s.host.Name, allowed.Message, remedy)
	}
	return metav1.Condition{}
}

// createCluster makes the Cluster. Whether it may be is asked once more, now of the API server.
func (c *Controller) createCluster(ctx context.Context, s *scope) error {
	live, err := c.observe(ctx, c.Live, s.one)
	if err != nil {
		return err
	}
	if refusal := live.explainRefusal(); refusal.Reason != "" || live.cluster != nil {
		s.created = pendingCondition("The hub has not observed the Clusters as they are now")
		return &outcome.Wait{After: outcome.ConflictRetry, Reason: v1alpha1.ReasonPending, Message: refusal.Message}
	}
	if err := c.addFinalizer(ctx, s.one); err != nil {
		s.created = pendingCondition("The hub has not created the Cluster yet")
		return err
	}
	cluster := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: s.one.Name, Annotations: map[string]string{v1alpha1.SimulatedClusterAnnotation: s.one.ProofOfSimulation()}},
		Spec:       v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted},
	}
	copyLabels(cluster, s.one.Spec.ClusterMetadata.Labels)
	switch err := c.Client.Create(ctx, cluster); {
	case apierrors.IsAlreadyExists(err):
		s.created = pendingCondition("A Cluster of this name has been created meanwhile")
		return nil // Its event is on the way.
	case err != nil:
		s.created = metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCreateFailed, Message: "The API server refuses the Cluster: " + err.Error()}
		return fmt.Errorf("creating Cluster %s: %w", cluster.Name, err)
	}
	s.cluster = cluster
	reconciler.NormalEvent("ClusterCreated", "Create", "Created Cluster "+cluster.Name).Send(c.Recorder, s.one)
	return nil
}

// pendingCondition is the condition of what is not known yet.
func pendingCondition(message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: message}
}

// addFinalizer puts the hub's finalizer on the SimulatedCluster before there is anything to remove.
func (c *Controller) addFinalizer(ctx context.Context, one *v1alpha1.SimulatedCluster) error {
	before := one.DeepCopy()
	if !controllerutil.AddFinalizer(one, v1alpha1.ClusterFinalizer) {
		return nil
	}
	if err := c.Client.Patch(ctx, one, reconciler.MergeFromWithLock(before)); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

func (c *Controller) updateLabels(ctx context.Context, s *scope) error {
	after := s.cluster.DeepCopy()
	copyLabels(after, s.one.Spec.ClusterMetadata.Labels)
	if maps.Equal(after.Labels, s.cluster.Labels) && maps.Equal(after.Annotations, s.cluster.Annotations) {
		return nil
	}
	if err := c.Client.Patch(ctx, after, reconciler.MergeFromWithLock(s.cluster)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the labels of Cluster %s: %w", after.Name, err)
	}
	return nil
}

// copyLabels gives a Cluster the labels that are wanted, and takes away those that it was given before and that are not wanted any more.
func copyLabels(cluster *v1alpha1.Cluster, wanted map[string]string) {
	if cluster.Labels == nil {
		cluster.Labels = map[string]string{}
	}
	if cluster.Annotations == nil {
		cluster.Annotations = map[string]string{}
	}
	for key := range strings.SplitSeq(cluster.Annotations[v1alpha1.CopiedLabelsAnnotation], ",") {
		if !strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") {
			delete(cluster.Labels, key)
		}
	}
	maps.Copy(cluster.Labels, wanted)
	if delete(cluster.Annotations, v1alpha1.CopiedLabelsAnnotation); len(wanted) > 0 {
		cluster.Annotations[v1alpha1.CopiedLabelsAnnotation] = strings.Join(slices.Sorted(maps.Keys(wanted)), ",")
	}
}
