package machine

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// relate says what is to be known of the objects around the Machine.
func (s *story) relate() {
	d := &s.document
	d.Cluster = s.relatedCluster()
	d.Provider = v1alpha1.ProviderHollow
	if value := d.Machine.Spec.ProviderConfig; value.Provider != "" {
		d.Provider = value.Provider
	}
	if reference := d.Machine.Spec.ProviderConfig.ValueRef; reference != nil {
		d.Class, d.Provider = &Related{Kind: classes, Name: reference.Name}, ""
		switch {
		case s.class != nil:
			d.Provider = s.class.Spec.Provider
		case !slices.Contains(s.unread, classes):
			d.Class.Missing = true
		}
	}
	if owner := metav1.GetControllerOf(d.Machine); owner != nil {
		d.Owners = append(d.Owners, s.relatedSet(owner))
	}
	if s.deployment != nil {
		d.Owners = append(d.Owners, Related{Kind: deployments, Name: s.deployment.Name, Notes: append(notesOfFrozen(s.deployment.Status.Conditions), notesOfPause(s.deployment)...)})
	}
	if d.Provider == v1alpha1.ProviderHollow {
		d.Pod = &Pod{Name: d.Machine.Name, Running: metav1.ConditionUnknown}
		if running := s.condition(v1alpha1.MachinePodRunningCondition); running != nil {
			d.Pod.Running, d.Pod.Reason, d.Pod.Message = running.Status, running.Reason, running.Message
		}
	}
}

func (s *story) relatedCluster() *Related {
	found := &Related{Kind: clusters, Name: s.document.Machine.Namespace}
	if s.cluster == nil {
		found.Missing = !slices.Contains(s.unread, clusters)
		return found
	}
	connected := meta.FindStatusCondition(s.cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	switch {
	case connected == nil:
		found.Notes = append(found.Notes, "whether its agent is connected is not known")
	case connected.Status == metav1.ConditionTrue:
		found.Notes = append(found.Notes, "its agent is connected")
	default:
		found.Notes = append(found.Notes, "its agent is not connected: "+connected.Message)
	}
	found.Notes = append(found.Notes, notesOfFrozen(s.cluster.Status.Conditions)...)
	return found
}

func (s *story) relatedSet(owner *metav1.OwnerReference) Related {
	found := Related{Kind: owner.Kind, Name: owner.Name}
	switch {
	case s.set != nil:
		found.Notes = append(found.Notes, fmt.Sprintf("%d of %d ready", s.set.Status.ReadyReplicas, ptr.Deref(s.set.Spec.Replicas, 1)))
		found.Notes = append(found.Notes, notesOfFrozen(s.set.Status.Conditions)...)
		if s.set.DeletionTimestamp != nil {
			found.Notes = append(found.Notes, "being deleted")
		}
	case owner.Kind == sets && !slices.Contains(s.unread, sets):
		found.Missing = true
	}
	return found
}

// notesOfFrozen says that an object is frozen.
func notesOfFrozen(conditions []metav1.Condition) []string {
	frozen := meta.FindStatusCondition(conditions, v1alpha1.FrozenCondition)
	if frozen == nil || frozen.Status == metav1.ConditionFalse {
		return nil
	}
	if frozen.Status == metav1.ConditionUnknown {
		return []string{"whether it is frozen is not known: " + frozen.Message}
	}
	return []string{fmt.Sprintf("frozen (%s): %s", frozen.Reason, frozen.Message)}
}

func notesOfPause(deployment *v1alpha1.MachineDeployment) []string {
	if !deployment.Spec.Paused {
		return nil
	}
	return []string{"paused"}
}
