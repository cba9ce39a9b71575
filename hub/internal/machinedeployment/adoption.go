package machinedeployment

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// deploymentNameLabels are the labels by which the hub notes on a set which MachineDeployment made it.
var deploymentNameLabels = []string{v1alpha1.MachineDeploymentNameLabel, v1alpha1.AutoscalerDeploymentNameLabel}

// madeBy tells whether the hub made set for a MachineDeployment of that name, and whether for one of another name. Neither holds
// for a set that a user made.
func madeBy(set *v1alpha1.MachineSet, name string) (own, foreign bool) {
	for _, key := range deploymentNameLabels {
		if made := set.Labels[key]; made == name {
			own = true
		} else if made != "" {
			foreign = true
		}
	}
	return own && !foreign, foreign
}

// isOrphanOf tells whether a MachineDeployment of that name and selector may take set over: it has no controller, its labels match,
// and no deployment of another name made it. Such a set belongs to its user until a deployment of that name is there again.
func isOrphanOf(set *v1alpha1.MachineSet, controller *metav1.OwnerReference, name string, selector labels.Selector) bool {
	_, foreign := madeBy(set, name)
	return controller == nil && set.DeletionTimestamp == nil && !foreign && selector.Matches(labels.Set(set.Labels))
}

// addOrphans chooses among sets that match and have no owner. One that carries the deployment's name is the deployment's. One that
// matches by its labels alone is adopted if that takes no Machine away: while the deployment has no set of this template,
// and the set is not larger than the deployment. Any other keeps its Machines.
func (s *scope) addOrphans(candidates []*v1alpha1.MachineSet) error {
	current := s.current != nil
	for _, set := range candidates {
		own, _ := madeBy(set, s.deployment.Name)
		size := max(setReplicas(set), int(set.Status.Replicas))
		same, err := plan.SameTemplate(set.Spec.Template, s.deployment.Spec.Template)
		if err != nil {
			return fmt.Errorf("comparing machine set %s: %w", set.Name, err)
		}
		if !own && size > 0 && (!same || current || size > replicas(s.deployment)) {
			s.strangers = append(s.strangers, set)
			s.others[set.UID] = true
			continue
		}
		current = current || same
		s.orphans = append(s.orphans, set)
		s.machines[set.UID] = &members{}
	}
	return nil
}

// overlap says with which older MachineDeployment of the namespace this one would fight for MachineSets: the selector of one matches
// the labels that the other gives its own. It is empty if there is none. Two of one age are ordered by name.
func overlap(deployment *v1alpha1.MachineDeployment, neighbours []v1alpha1.MachineDeployment) string {
	var older []string
	for i := range neighbours {
		other := &neighbours[i]
		if other.UID == deployment.UID || other.NotDecoded() != "" || !isOlder(other, deployment) || !selectorsOverlap(deployment, other) {
			continue
		}
		older = append(older, other.Name)
	}
	if len(older) == 0 {
		return ""
	}
	slices.Sort(older)
	return fmt.Sprintf("spec.selector.matchLabels: it and that of MachineDeployment %s match MachineSets of each other, so nothing is changed for "+
		"this one, the younger: delete it, and create it with a selector that has a label of its own", reconciler.ListFew(older))
}

func isOlder(a, b *v1alpha1.MachineDeployment) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// selectorsOverlap tells whether one of two MachineDeployments selects the MachineSets that the other makes.
func selectorsOverlap(a, b *v1alpha1.MachineDeployment) bool { return selects(a, b) || selects(b, a) }

func selects(a, b *v1alpha1.MachineDeployment) bool {
	metadata, _ := machinesets.Usable(b.Spec.Template.Metadata)
	return labels.SelectorFromSet(a.Spec.Selector.MatchLabels).Matches(labels.Set(metadata.Labels))
}
