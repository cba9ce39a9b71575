package machinedeployment

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/overlap"
)

// deploymentNameLabels are the labels by which the hub notes on a set which MachineDeployment made it.
var deploymentNameLabels = []string{v1alpha1.MachineDeploymentNameLabel, v1alpha1.AutoscalerDeploymentNameLabel}

// madeBy reports whether the hub made set for a MachineDeployment of that name, and whether for one of another name. Neither holds
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

// isOrphanOf reports whether a MachineDeployment of that name and selector may take set over: it has no controller, its labels match,
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
		same, err := plan.SameTemplate(set.Spec.Template, s.template)
		if err != nil {
			return fmt.Errorf("comparing machine set %s: %w", set.Name, err)
		}
		if !own && size > 0 && (!same || current || size > replicasOf(s.deployment)) {
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

// overlapping says with which older MachineDeployments of the namespace this one would fight for MachineSets: the selector of one matches
// the labels that the other gives its own. It is empty if there are none.
func overlapping(deployment *v1alpha1.MachineDeployment, neighbours []v1alpha1.MachineDeployment) string {
	var others []overlap.Claim
	for i := range neighbours {
		if neighbours[i].NotDecoded() == "" {
			others = append(others, claimOf(&neighbours[i]))
		}
	}
	return overlap.Explain(claimOf(deployment), others, "MachineSets")
}

// claimOf is what a MachineDeployment selects among MachineSets, and what the ones that it makes carry.
func claimOf(deployment *v1alpha1.MachineDeployment) overlap.Claim {
	metadata, _ := machinesets.Usable(deployment.Spec.Template.Metadata)
	return overlap.Claim{
		Kind: "MachineDeployment", Name: deployment.Name, UID: deployment.UID, Created: deployment.CreationTimestamp,
		Selector: labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels), Labels: metadata.Labels,
	}
}
