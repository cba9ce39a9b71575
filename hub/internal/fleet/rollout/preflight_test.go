package rollout

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestThePodsThatARolloutNeedsBesides(t *testing.T) {
	deployment := func(replicas, has int32) *v1alpha1.MachineDeployment {
		d := &v1alpha1.MachineDeployment{Spec: v1alpha1.MachineDeploymentSpec{Replicas: &replicas}}
		d.Status.Replicas = has
		return d
	}
	rolling := func(surge string) v1alpha1.MachineDeploymentStrategy {
		value := intstr.Parse(surge)
		return v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: &value}}
	}
	for name, test := range map[string]struct {
		strategy   v1alpha1.MachineDeploymentStrategy
		replicas   *int32
		deployment *v1alpha1.MachineDeployment
		needed     int
	}{
		"a new one":                       {rolling("50%"), new(int32(4)), nil, 4},
		"a new one without a number":      {rolling("50%"), nil, nil, 1},
		"surge":                           {rolling("50%"), new(int32(5)), deployment(5, 5), 3},
		"surge of the cluster's own":      {rolling("50%"), nil, deployment(7, 7), 4},
		"machines that are still to come": {rolling("1"), new(int32(5)), deployment(5, 3), 3},
		"machines that are still to go":   {rolling("1"), new(int32(5)), deployment(5, 9), 0},
		"another number than it has":      {rolling("1"), new(int32(9)), deployment(5, 5), 5},
		"in place":                        {v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace}, new(int32(5)), deployment(5, 5), 0},
		"recreated":                       {v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate}, new(int32(5)), deployment(5, 5), 0},
	} {
		s := &Scope{Fleet: &v1alpha1.MachineFleet{}}
		s.Fleet.Spec.Template.Spec.Strategy = test.strategy
		NewWithT(t).Expect(s.podsNeeded(&Member{template: ownTemplate(s.Fleet), replicas: test.replicas, Deployment: test.deployment})).To(Equal(test.needed), name)
	}
}
