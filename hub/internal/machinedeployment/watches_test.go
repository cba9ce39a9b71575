package machinedeployment

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
)

func TestChangesOfTheVersionOfACluster(t *testing.T) {
	reconcilertest.CheckPredicate(t, versionChanged(), &v1alpha1.Cluster{}, map[string]func(*v1alpha1.Cluster){
		"version": func(c *v1alpha1.Cluster) { c.Status.KubernetesVersion = "v1.37.1" },
	}, map[string]func(*v1alpha1.Cluster){
		"counts": func(c *v1alpha1.Cluster) { c.Status.Machines = &v1alpha1.MachineCounts{Total: 5} },
	})
}

func TestChangesOfASharedSurge(t *testing.T) {
	deployment := &v1alpha1.MachineDeployment{}
	deployment.Spec.Replicas = new(int32(2))
	join := func(d *v1alpha1.MachineDeployment) {
		d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{
			Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{SurgeGroup: "zones"},
		}
	}
	scale := func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(3)) }
	reconcilertest.CheckPredicate(t, sharedSurgeChanged(), deployment, map[string]func(*v1alpha1.MachineDeployment){
		"group": join,
	}, map[string]func(*v1alpha1.MachineDeployment){
		"replicas of one without a group": scale,
	})
	join(deployment)
	reconcilertest.CheckPredicate(t, sharedSurgeChanged(), deployment, map[string]func(*v1alpha1.MachineDeployment){
		"replicas of one in a group": scale,
		"another group":              func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.RollingUpdate.SurgeGroup = "regions" },
		"another strategy":           func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.Type = v1alpha1.Recreate },
	}, map[string]func(*v1alpha1.MachineDeployment){
		"counts": func(d *v1alpha1.MachineDeployment) { d.Status.Replicas = 5 },
	})
}
