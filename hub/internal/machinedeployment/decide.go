package machinedeployment

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
)

// decision is what to do for one deployment.
type decision struct {
	plan.Plan
	// adopt are sets to take over. While there are any, nothing else is done: they change all that follows.
	adopt []*v1alpha1.MachineSet
	// revision of the template. The deployment carries it if number, and every set in stamp still has to.
	revision int64
	number   bool
	// stamp are sets whose labels, annotations or minReadySeconds are not as they should be.
	stamp []*v1alpha1.MachineSet
	// forget are sets of the history beyond its limit.
	forget []*v1alpha1.MachineSet
}

func (d decision) empty() bool {
	return d.Plan.Empty() && len(d.adopt) == 0 && !d.number && len(d.stamp) == 0 && len(d.forget) == 0
}

// decide is pure.
func decide(s *scope) decision {
	if s.frozen.Frozen || s.deployment.DeletionTimestamp != nil {
		return decision{}
	}
	if len(s.orphans) > 0 {
		return decision{adopt: s.orphans}
	}
	d := decision{Plan: plan.Decide(s.input()), revision: currentRevision(s)}
	if s.current != nil || d.CreateNew {
		d.number = revision(s.deployment) != d.revision
	}
	for _, set := range s.sets {
		if set.DeletionTimestamp == nil && stamped(s, set, d.revision) != nil {
			d.stamp = append(d.stamp, set)
		}
	}
	d.forget = history(s)
	return d
}

// currentRevision is one more than that of all older templates; a set that is the latest keeps its own.
func currentRevision(s *scope) int64 {
	var highest int64
	for _, set := range s.sets {
		if set != s.current {
			highest = max(highest, revision(set))
		}
	}
	if s.current != nil && revision(s.current) > highest {
		return revision(s.current)
	}
	return highest + 1
}

// stamped returns set as it should be labeled and annotated, or nil if it is.
func stamped(s *scope, set *v1alpha1.MachineSet, current int64) *v1alpha1.MachineSet {
	wanted := set.DeepCopy()
	setLabels(&wanted.ObjectMeta, s.deployment)
	if set == s.current {
		setRevision(&wanted.ObjectMeta, current)
	}
	wanted.Spec.MinReadySeconds = s.deployment.Spec.MinReadySeconds
	if maps.Equal(wanted.Labels, set.Labels) && maps.Equal(wanted.Annotations, set.Annotations) &&
		wanted.Spec.MinReadySeconds == set.Spec.MinReadySeconds {
		return nil
	}
	return wanted
}

func setLabels(object *metav1.ObjectMeta, deployment *v1alpha1.MachineDeployment) {
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Labels[v1alpha1.ClusterNameLabel] = deployment.Spec.ClusterName
	object.Labels[v1alpha1.MachineDeploymentNameLabel] = deployment.Name
	object.Labels[v1alpha1.AutoscalerDeploymentNameLabel] = deployment.Name
}

func setRevision(object *metav1.ObjectMeta, number int64) {
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	text := strconv.FormatInt(number, 10)
	object.Annotations[v1alpha1.RevisionAnnotation] = text
	object.Annotations[v1alpha1.AutoscalerRevisionAnnotation] = text
}

// history returns the empty sets of older templates beyond revisionHistoryLimit, oldest revision first.
func history(s *scope) []*v1alpha1.MachineSet {
	limit := 10
	if s.deployment.Spec.RevisionHistoryLimit != nil {
		limit = int(*s.deployment.Spec.RevisionHistoryLimit)
	}
	var empty []*v1alpha1.MachineSet
	for _, set := range s.sets {
		// The set's own controller must have seen that it is to be empty.
		if set != s.current && set.DeletionTimestamp == nil && setReplicas(set) == 0 && s.machines[set.UID].Total == 0 &&
			set.Status.ObservedGeneration == set.Generation && set.Status.Replicas == 0 {
			empty = append(empty, set)
		}
	}
	slices.SortStableFunc(empty, func(a, b *v1alpha1.MachineSet) int { return cmp.Compare(revision(a), revision(b)) })
	return empty[:max(len(empty)-limit, 0)]
}
