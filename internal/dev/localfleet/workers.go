package localfleet

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Heartbeats is how often the Nodes of a fleet report.
type Heartbeats string

// HeartbeatsNormal is every 10 seconds, as kubelets do, and HeartbeatsSlow every 30.
const (
	HeartbeatsNormal Heartbeats = "normal"
	HeartbeatsSlow   Heartbeats = "slow"
)

// slowNodeMonitor is Kubernetes' own default. The grace period of 50 seconds stays, which heartbeats every 30 seconds keep.
const slowNodeMonitor = "node-monitor-period=5s"

// Configure lets the hollow nodes of a class without a configuration report so.
func (h Heartbeats) Configure(class *v1alpha1.MachineClass) {
	if h != HeartbeatsSlow {
		return
	}
	class.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{` + hollowNodeKind() + `,` + slowKubelet + `}`)}
}

// slowKubelet is a field of a HollowNodeConfig.
const slowKubelet = `"kubelet":{"nodeLeaseDurationSeconds":120,"nodeStatusUpdateFrequency":"30s"}`

func hollowNodeKind() string {
	return fmt.Sprintf(`"apiVersion":%q,"kind":%q`, v1alpha1.GroupVersion, v1alpha1.HollowNodeConfigKind)
}

const (
	// WorkersName is the MachineDeployment that Workers makes.
	WorkersName = "workers"
	workerClass = "small"
)

// Workers are a MachineClass and a MachineDeployment of that many hollow nodes in a cluster. An empty version of
// the kubelet means that of its code.
func Workers(cluster string, replicas int32, kubelet string) []client.Object {
	return []client.Object{
		&v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: workerClass}, Spec: workerClassSpec()},
		&v1alpha1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: WorkersName},
			Spec: v1alpha1.MachineDeploymentSpec{
				ClusterName: cluster, Replicas: &replicas,
				Selector: v1alpha1.MachineSelector{MatchLabels: workerLabels()},
				Template: workerTemplate(kubelet, v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: workerClass}}),
			},
		},
	}
}

func workerClassSpec() v1alpha1.MachineClassSpec {
	return v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow, NodeTemplate: &v1alpha1.NodeTemplate{Capacity: workerCapacity()}}
}

func workerLabels() map[string]string { return map[string]string{"pool": WorkersName} }

func workerCapacity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")}
}

func workerTemplate(kubelet string, provider v1alpha1.ProviderConfig) v1alpha1.MachineTemplate {
	return v1alpha1.MachineTemplate{
		Metadata: v1alpha1.TemplateMetadata{Labels: workerLabels()},
		Spec: v1alpha1.MachineTemplateBody{
			NodeMetadata: v1alpha1.NodeMetadata{Labels: workerLabels()}, Roles: []string{"worker"},
			Versions: v1alpha1.MachineVersions{Kubelet: kubelet}, ProviderConfig: provider,
		},
	}
}

// InitialClass is the MachineClass of Workers, for simulated clusters to start with.
func InitialClass(heartbeats Heartbeats) v1alpha1.InitialMachineClass {
	class := &v1alpha1.MachineClass{Spec: workerClassSpec()}
	heartbeats.Configure(class)
	return v1alpha1.InitialMachineClass{Name: workerClass, Spec: class.Spec}
}

// InitialWorkers is the MachineDeployment of Workers, for simulated clusters to start with. It needs no MachineClass.
func InitialWorkers(replicas int32, kubelet string, heartbeats Heartbeats) (v1alpha1.InitialMachineDeployment, error) {
	capacity, err := json.Marshal(workerCapacity())
	if err != nil {
		return v1alpha1.InitialMachineDeployment{}, fmt.Errorf("writing the capacity of hollow nodes: %w", err)
	}
	config := `{` + hollowNodeKind() + `,"capacity":` + string(capacity)
	if heartbeats == HeartbeatsSlow {
		config += `,` + slowKubelet
	}
	value := &runtime.RawExtension{Raw: []byte(config + `}`)}
	return v1alpha1.InitialMachineDeployment{
		Name: WorkersName, Replicas: &replicas, Template: workerTemplate(kubelet, v1alpha1.ProviderConfig{Value: value}),
	}, nil
}
