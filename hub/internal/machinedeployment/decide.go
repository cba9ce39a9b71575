package machinedeployment

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// decision is what to do for one deployment.
type decision struct {
	plan.Plan
	// adopt are sets to take over. While there are any, nothing else is done: they change all that follows.
	adopt []*v1alpha1.MachineSet
	// revision of the template. The deployment carries it if number, and every set in stamp still has to.
	// renewed is the revision that the template had when it was the latest before; 0 for a new one.
	revision, renewed int64
	number            bool
	// changes are the sets that are not as they should be, reductions first.
	changes []change
	// forget are sets of the history beyond its limit.
	forget []*v1alpha1.MachineSet
}

func (d decision) isEmpty() bool {
	return d.Plan.Empty() && len(d.adopt) == 0 && !d.number && len(d.changes) == 0 && len(d.forget) == 0
}

// onlyScales reports whether all there is to do is the next step of a rollout.
func (d decision) onlyScales() bool {
	return len(d.Scale) > 0 && len(d.changes) == len(d.Scale) && !d.CreateNew && len(d.Replace) == 0 &&
		len(d.adopt) == 0 && !d.number && len(d.forget) == 0
}

// startsRollout reports whether the template is about to get its revision, and is not the first one.
func (d decision) startsRollout() bool { return d.number && d.revision > 1 }

// change is what one set is to become.
type change struct {
	before, after *v1alpha1.MachineSet
}

// replicaChange is the change of the set's replicas.
func (c change) replicaChange() int { return setReplicas(c.after) - setReplicas(c.before) }

// decide is pure.
func decide(s *scope) decision {
	if s.frozen.Frozen || s.deployment.DeletionTimestamp != nil || s.overlap != "" {
		return decision{}
	}
	if len(s.orphans) > 0 {
		return decision{adopt: s.orphans}
	}
	d := decision{Plan: plan.Decide(s.planInput()), revision: currentRevision(s)}
	if s.config.missing != "" {
		d.CreateNew = false // Its content, and so its template, is not known.
	}
	if s.current != nil || d.CreateNew {
		d.number = revisionOf(s.deployment) != d.revision
	}
	if s.current != nil && revisionOf(s.current) < d.revision {
		d.renewed = revisionOf(s.current)
	}
	for _, set := range s.sets {
		if set.DeletionTimestamp != nil {
			continue
		}
		if wanted := s.wantedSet(set, d); !sameSet(set, wanted) {
			d.changes = append(d.changes, change{set, wanted})
		}
	}
	slices.SortStableFunc(d.changes, func(a, b change) int { return cmp.Compare(directionOf(a), directionOf(b)) })
	if s.config.missing == "" { // Else the one that is missing may be among them.
		d.forget = surplusHistory(s)
	}
	return d
}

func directionOf(c change) int { return cmp.Compare(c.replicaChange(), 0) }

// currentRevision is one more than that of all older templates; a set that is the latest keeps its own.
func currentRevision(s *scope) int64 {
	var highest int64
	for _, set := range s.sets {
		if set != s.current {
			highest = max(highest, revisionOf(set))
		}
	}
	if s.current != nil && revisionOf(s.current) > highest {
		return revisionOf(s.current)
	}
	return highest + 1
}

// wantedSet is set as it should be: its size, its place in the history, and what needs no replacement.
func (s *scope) wantedSet(set *v1alpha1.MachineSet, d decision) *v1alpha1.MachineSet {
	wanted := set.DeepCopy()
	for _, scale := range slices.Concat(d.Scale, d.Settle) {
		if scale.Name == set.Name {
			wanted.Spec.Replicas = new(int32(scale.To))
		}
	}
	if len(d.Settle) > 0 {
		delete(wanted.Annotations, v1alpha1.TransferAnnotation)
	}
	setLabels(&wanted.ObjectMeta, s.deployment)
	spec := s.deployment.Spec
	wanted.Spec.MinReadySeconds, wanted.Spec.DeletePolicy, wanted.Spec.Remediation = spec.MinReadySeconds, spec.DeletePolicy, spec.Remediation
	if set == s.current {
		setRevision(&wanted.ObjectMeta, d.revision)
		// Sets of older templates keep theirs until their Machines are gone: what they have is what was tried
		// together, and what a rollback goes back to is made up to date then.
		wanted.Spec.Template = plan.Propagate(set.Spec.Template, s.machineTemplate(), set.Spec.Selector.MatchLabels)
	} else if s.machines[set.UID].Total > 0 {
		// All but timeouts, which say how long a Machine is waited for on its way out: what holds a rollout up can be cut
		// short in the deployment.
		wanted.Spec.Template.Spec.Timeouts = spec.Template.Spec.Timeouts.DeepCopy()
	}
	// A set without Machines has nothing to grow from; it learns the number when it is used again. While the plan waits
	// for something, the number stays: else a change of replicas that comes meanwhile would not be seen.
	if d.Sized && setReplicas(wanted) > 0 {
		setAnnotation(&wanted.ObjectMeta, v1alpha1.DesiredReplicasAnnotation, strconv.Itoa(replicasOf(s.deployment)))
	}
	return wanted
}

// machineTemplate is the deployment's without what no Machine can have.
func (s *scope) machineTemplate() v1alpha1.MachineTemplate {
	template := s.template
	template.Metadata, _ = machinesets.Usable(template.Metadata)
	return template
}

func sameSet(a, b *v1alpha1.MachineSet) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
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
	text := strconv.FormatInt(number, 10)
	setAnnotation(object, v1alpha1.RevisionAnnotation, text)
	setAnnotation(object, v1alpha1.AutoscalerRevisionAnnotation, text)
}

func setAnnotation(object *metav1.ObjectMeta, key, value string) {
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[key] = value
}

// surplusHistory returns the empty sets of older templates beyond revisionHistoryLimit, oldest revision first.
func surplusHistory(s *scope) []*v1alpha1.MachineSet {
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
	slices.SortStableFunc(empty, func(a, b *v1alpha1.MachineSet) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	return empty[:max(len(empty)-limit, 0)]
}
