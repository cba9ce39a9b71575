package localfleet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// WorkersName is the MachineDeployment that Workers makes.
	WorkersName = "workers"
	workerClass = "small"
)

// Workers are a MachineClass and a MachineDeployment of that many hollow nodes in a cluster. An empty version of
// the kubelet means that of its code.
func Workers(cluster string, replicas int32, kubelet string) []client.Object {
	labels := map[string]string{"pool": WorkersName}
	return []client.Object{
		&v1alpha1.MachineClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: workerClass},
			Spec: v1alpha1.MachineClassSpec{
				Provider: v1alpha1.ProviderHollow,
				NodeTemplate: &v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
				}},
			},
		},
		&v1alpha1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: WorkersName},
			Spec: v1alpha1.MachineDeploymentSpec{
				ClusterName: cluster, Replicas: &replicas,
				Selector: v1alpha1.MachineSelector{MatchLabels: labels},
				Template: v1alpha1.MachineTemplate{
					Metadata: v1alpha1.TemplateMetadata{Labels: labels},
					Spec: v1alpha1.MachineTemplateBody{
						NodeMetadata:   v1alpha1.NodeMetadata{Labels: labels},
						Roles:          []string{"worker"},
						Versions:       v1alpha1.MachineVersions{Kubelet: kubelet},
						ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: workerClass}},
					},
				},
			},
		},
	}
}
