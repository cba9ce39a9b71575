package simulatedclusterset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/plan"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// ownerReferences make the set the controlling owner.
func (s *scope) ownerReferences() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "SimulatedClusterSet", Name: s.set.Name, UID: s.set.UID, Controller: new(true),
	}}
}

// createMember creates a SimulatedCluster. Its name follows from its ordinal, so that a second try creates nothing more.
func (c *Controller) createMember(ctx context.Context, s *scope, at plan.Place) error {
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: at.Host, Name: plan.NameOf(s.set.Name, at.Ordinal),
		Labels: map[string]string{v1alpha1.SimulatedClusterSetNameLabel: s.set.Name}, OwnerReferences: s.ownerReferences(),
	}}
	s.set.Spec.Template.Spec.DeepCopyInto(&one.Spec)
	switch err := c.Client.Create(ctx, one); {
	case apierrors.IsAlreadyExists(err):
		return &outcome.Wait{Reason: v1alpha1.ReasonNameTaken, Message: "SimulatedCluster " + one.Name + " has been created meanwhile", After: outcome.ConflictRetry}
	case err != nil:
		return &outcome.Failure{Reason: v1alpha1.ReasonCreateFailed, Err: fmt.Errorf("creating simulated cluster %s/%s: %w", one.Namespace, one.Name, err)}
	}
	createdEvent(one).Send(c.Recorder, s.set)
	return nil
}

// deleteMember deletes a SimulatedCluster, unless it has changed since it was read: a user may have kept it.
func (c *Controller) deleteMember(ctx context.Context, s *scope, at plan.Place) error {
	one := s.members[at.Ordinal]
	err := c.Client.Delete(ctx, one.DeepCopy(), client.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("deleting simulated cluster %s/%s, which has changed: %w", one.Namespace, one.Name, err)
	case err != nil:
		return &outcome.Failure{Reason: v1alpha1.ReasonDeleteFailed, Err: fmt.Errorf("deleting simulated cluster %s/%s: %w", one.Namespace, one.Name, err)}
	}
	deletedEvent(one).Send(c.Recorder, s.set)
	return nil
}

// updateMember brings the metadata of a SimulatedCluster up to date with the template.
func (c *Controller) updateMember(ctx context.Context, s *scope, at plan.Place) error {
	return c.patchMember(ctx, s.members[at.Ordinal], func(one *v1alpha1.SimulatedCluster) {
		s.set.Spec.Template.Spec.ClusterMetadata.DeepCopyInto(&one.Spec.ClusterMetadata)
	})
}

// adoptOrphan makes the set the owner of a SimulatedCluster that has none.
func (c *Controller) adoptOrphan(ctx context.Context, s *scope, at plan.Place) error {
	return c.patchMember(ctx, s.members[at.Ordinal], func(one *v1alpha1.SimulatedCluster) {
		one.OwnerReferences = append(one.OwnerReferences, s.ownerReferences()...)
	})
}

func (c *Controller) patchMember(ctx context.Context, before *v1alpha1.SimulatedCluster, change func(*v1alpha1.SimulatedCluster)) error {
	after := before.DeepCopy()
	change(after)
	if err := c.Client.Patch(ctx, after, reconciler.MergeFromWithLock(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching simulated cluster %s/%s: %w", before.Namespace, before.Name, err)
	}
	return nil
}

func createdEvent(one *v1alpha1.SimulatedCluster) reconciler.Event {
	return reconciler.NormalEvent("SimulatedClusterCreated", "Create", fmt.Sprintf("Created SimulatedCluster %s on host %s", one.Name, one.Namespace)).With(one)
}

func deletedEvent(one *v1alpha1.SimulatedCluster) reconciler.Event {
	return reconciler.NormalEvent("SimulatedClusterDeleted", "Delete", fmt.Sprintf("Deleting SimulatedCluster %s on host %s", one.Name, one.Namespace)).With(one)
}
