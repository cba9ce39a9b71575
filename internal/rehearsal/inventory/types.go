// Package inventory is what a rehearsal knows of a real cluster: its Nodes, what runs on them, and what may hold up their drains. It has
// no fields for Secrets, ConfigMaps, environment variables, commands, images or annotations, so that none of them can get into a file.
package inventory

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What a file of an inventory starts with.
const (
	APIVersion = "rehearsal.hollowfleet.io/v1"
	Kind       = "Inventory"
)

// Inventory is the shape of a cluster.
type Inventory struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Taken is when the cluster was read.
	Taken *metav1.Time `json:"taken,omitempty"`
	// ControlPlane is the version of its API server, such as "v1.36.2".
	ControlPlane string `json:"controlPlane"`
	// NamesHashed is that names and the values of pod labels are hashes.
	NamesHashed bool `json:"namesHashed,omitempty"`

	Nodes           []Node          `json:"nodes"`
	Namespaces      []Namespace     `json:"namespaces,omitempty"`
	PriorityClasses []PriorityClass `json:"priorityClasses,omitempty"`
	Workloads       []Workload      `json:"workloads,omitempty"`
	Budgets         []Budget        `json:"podDisruptionBudgets,omitempty"`
	// LeftOut is what the cluster has beside, and a rehearsal does not.
	LeftOut LeftOut `json:"leftOut,omitzero"`
}

// Node is a Node.
type Node struct {
	Name    string            `json:"name"`
	Kubelet string            `json:"kubelet"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Taints without those that Kubernetes sets for conditions of the Node and for a cordon.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Allocatable is what its pods can use; "pods" is how many it takes.
	Allocatable corev1.ResourceList `json:"allocatable"`
	Ready       bool                `json:"ready"`
	// Cordoned is that it takes no new pods.
	Cordoned bool `json:"cordoned,omitempty"`
}

// Namespace is a namespace with labels that the affinity of a workload may select it by.
type Namespace struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// PriorityClass is one that is not Kubernetes' own.
type PriorityClass struct {
	Name             string                   `json:"name"`
	Value            int32                    `json:"value"`
	GlobalDefault    bool                     `json:"globalDefault,omitempty"`
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
}

// WorkloadKind is what keeps pods.
type WorkloadKind string

// The kinds of workloads.
const (
	Deployment  WorkloadKind = "Deployment"
	StatefulSet WorkloadKind = "StatefulSet"
	DaemonSet   WorkloadKind = "DaemonSet"
)

// Workload keeps pods.
type Workload struct {
	Kind      WorkloadKind `json:"kind"`
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	// Replicas of a Deployment or StatefulSet.
	Replicas int32 `json:"replicas,omitempty"`
	// Ready is how many Ready pods it has.
	Ready           int32                          `json:"ready"`
	Selector        *metav1.LabelSelector          `json:"selector"`
	MinReadySeconds int32                          `json:"minReadySeconds,omitempty"`
	PodManagement   appsv1.PodManagementPolicyType `json:"podManagementPolicy,omitempty"`
	Pod             Pod                            `json:"pod"`
}

// Pod is what the scheduler and a drain look at in the pods of a workload.
type Pod struct {
	Labels                    map[string]string                 `json:"labels,omitempty"`
	NodeSelector              map[string]string                 `json:"nodeSelector,omitempty"`
	Affinity                  *corev1.Affinity                  `json:"affinity,omitempty"`
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	Tolerations               []corev1.Toleration               `json:"tolerations,omitempty"`
	PriorityClassName         string                            `json:"priorityClassName,omitempty"`
	GracePeriodSeconds        *int64                            `json:"terminationGracePeriodSeconds,omitempty"`
	SchedulerName             string                            `json:"schedulerName,omitempty"`
	HostNetwork               bool                              `json:"hostNetwork,omitempty"`
	Overhead                  corev1.ResourceList               `json:"overhead,omitempty"`
	Containers                []Container                       `json:"containers"`
	InitContainers            []Container                       `json:"initContainers,omitempty"`
	// PersistentVolumes is how many PersistentVolumeClaims each pod uses.
	PersistentVolumes int `json:"persistentVolumes,omitempty"`
}

// Container is what of a container takes room on a Node.
type Container struct {
	Requests corev1.ResourceList `json:"requests,omitempty"`
	Limits   corev1.ResourceList `json:"limits,omitempty"`
	// HostPorts that it takes on its Node.
	HostPorts []HostPort `json:"hostPorts,omitempty"`
	// Sidecar is an init container that stays.
	Sidecar bool `json:"sidecar,omitempty"`
}

// HostPort is a port of the Node.
type HostPort struct {
	Port     int32           `json:"port"`
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	HostIP   string          `json:"hostIP,omitempty"`
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	Namespace                  string                                   `json:"namespace"`
	Name                       string                                   `json:"name"`
	Selector                   *metav1.LabelSelector                    `json:"selector,omitempty"`
	MinAvailable               *intstr.IntOrString                      `json:"minAvailable,omitempty"`
	MaxUnavailable             *intstr.IntOrString                      `json:"maxUnavailable,omitempty"`
	UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType `json:"unhealthyPodEvictionPolicy,omitempty"`
}

// LeftOut is what a rehearsal cannot have.
type LeftOut struct {
	// Pods counts pods by the kind of their owner, for kinds that are not rehearsed; "none" are those without one.
	Pods map[string]int `json:"pods,omitempty"`
	// Webhooks counts admission webhook configurations.
	Webhooks int `json:"webhooks,omitempty"`
	// Autoscalers counts HorizontalPodAutoscalers.
	Autoscalers int `json:"autoscalers,omitempty"`
	// NotRead is what could not be looked at, and why.
	NotRead []string `json:"notRead,omitempty"`
}
