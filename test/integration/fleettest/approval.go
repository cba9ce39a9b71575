package fleettest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Approver is the user by whose name tests approve rollouts: an administrator of a hub of a simulated cluster.
const Approver = "admin"

// ApprovalOf is the approval of the rollout that a fleet's status shows, for a group.
func ApprovalOf(fleet *v1alpha1.MachineFleet, group string) *v1alpha1.FleetApproval {
	return &v1alpha1.FleetApproval{
		ObjectMeta: metav1.ObjectMeta{GenerateName: fleet.Name + "-"},
		Spec: v1alpha1.FleetApprovalSpec{
			Fleet: fleet.Name, FleetUID: string(fleet.UID), Revision: fleet.Status.Revision, Rollout: fleet.Status.Rollout, Group: group, Approver: Approver,
		},
	}
}
