package rollout

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// unhealthyConditions says which of the conditions that a fleet rests on do not hold on a cluster. One that is missing does not
// hold: no news is no health.
func unhealthyConditions(conditions []v1alpha1.MachineFleetHealthCondition, cluster *v1alpha1.Cluster) []string {
	var all []string
	for _, wanted := range conditions {
		status := cmp.Or(wanted.Status, metav1.ConditionTrue)
		found := meta.FindStatusCondition(cluster.Status.Conditions, wanted.Type)
		switch {
		case found == nil:
			all = append(all, fmt.Sprintf("condition %s is missing on Cluster %s: add it to spec.healthChecks there, or let a controller write it", wanted.Type, cluster.Name))
		case found.Status != status:
			all = append(all, fmt.Sprintf("condition %s of Cluster %s is %s (%s) and must be %s: %s", wanted.Type, cluster.Name, found.Status, found.Reason, status,
				cmp.Or(found.Message, "no message")))
		}
	}
	return all
}

// unhealthyIn are those that a member in such a phase waits for: what has not started needs no health yet, and what is updated is
// no longer a matter of the rollout.
func (m *Member) unhealthyIn(phase plan.Phase) []string {
	if phase == plan.ToApply || phase == plan.Succeeded || m.held != "" {
		return nil
	}
	return m.unhealthy
}
