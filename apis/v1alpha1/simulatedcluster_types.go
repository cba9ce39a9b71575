package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SimulatedCluster is a whole workload cluster that is simulated: control plane, hollow nodes and agent. It is in the namespace of
// the Cluster that hosts it, whose agent runs it. The hub makes a Cluster of the same name for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=simc,categories=fleet
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Control Plane",type=string,JSONPath=`.status.versions.controlPlane`
// +kubebuilder:printcolumn:name="Frozen",type=string,JSONPath=`.status.conditions[?(@.type=="Frozen")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: at most 63 characters, because the name is also a namespace and a label value"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: lower-case letters, digits and '-' only, starting and ending with a letter or digit, because the name is also a namespace"
// +kubebuilder:validation:XValidation:rule="!(self.metadata.name in ['default', 'hollowfleet', 'hollowfleet-system', 'cert-manager']) && !self.metadata.name.startsWith('kube-') && !self.metadata.name.startsWith('openshift-') && !self.metadata.name.startsWith('open-cluster-management')",message="metadata.name: reserved for a namespace of the hub itself or of an agent (default, hollowfleet, hollowfleet-system, cert-manager, kube-*, openshift-*, open-cluster-management*): choose another name"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.versions) || !has(self.spec.versions.controlPlane) || (has(oldSelf.spec) && has(oldSelf.spec.versions) && has(oldSelf.spec.versions.controlPlane) && oldSelf.spec.versions.controlPlane == self.spec.versions.controlPlane) || !has(self.status) || !has(self.status.versions) || !has(self.status.versions.controlPlane) || !self.status.versions.controlPlane.matches('^v1[.][0-9]{1,3}([.]|$)') || int(self.spec.versions.controlPlane.split('.')[1]) >= int(self.status.versions.controlPlane.split('.')[1])",message="spec.versions.controlPlane: a control plane cannot go back to an earlier minor than status.versions.controlPlane: choose a later version, or create another SimulatedCluster",fieldPath=".spec.versions.controlPlane"
type SimulatedCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user or the SimulatedClusterSet.
	// +kubebuilder:default={}
	// +optional
	Spec SimulatedClusterSpec `json:"spec,omitzero"`
	// status is written by the hub and, where a field says so, by the host's agent. Until the hub has looked, Ready is Unknown.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this simulated cluster yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this simulated cluster yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status SimulatedClusterStatus `json:"status,omitzero"`
}

// SimulatedClusterSpec is the desired simulated cluster.
type SimulatedClusterSpec struct {
	// metadata reaches the Cluster that the hub makes, and is kept in sync there.
	// +optional
	ClusterMetadata ClusterMetadata `json:"metadata,omitzero"`
	// versions that the simulated cluster is to run.
	// +optional
	Versions ControlPlaneVersions `json:"versions,omitzero"`
	// resources of the control plane, without those of the cluster's agent. In a SimulatedCluster they can be changed: a host that runs
	// control planes as pods then starts the pod again, with its data, and its API server does not answer meanwhile. A request that is
	// larger than the host's quota, or than the memory that the machine of a local fleet has left, is refused before anything is changed.
	// A local fleet enforces nothing else, and says in the message of ControlPlaneReady what.
	// +optional
	Resources ControlPlaneResources `json:"resources,omitzero"`
	// machineClasses are the MachineClasses that the simulated cluster starts with, at most 8. The hub creates each once, before the
	// machineDeployments; one of that name in the namespace counts as created. From then on it is the user's: it is not changed again, and
	// not created again when it is deleted. Cannot be changed in a SimulatedCluster.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	MachineClasses []InitialMachineClass `json:"machineClasses,omitempty"`
	// machineDeployments are those that the simulated cluster starts with, at most 8. The hub creates each once, when it has made the
	// Cluster and its namespace. From then on it is the user's: it is not changed again, and not created again when it is deleted.
	// Cannot be changed in a SimulatedCluster.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	MachineDeployments []InitialMachineDeployment `json:"machineDeployments,omitempty"`
}

// InitialMachineClass is a MachineClass that a simulated cluster starts with.
type InitialMachineClass struct {
	// name of the MachineClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// spec of the MachineClass.
	// +required
	Spec MachineClassSpec `json:"spec"`
}

// InitialMachineDeployment is a MachineDeployment that a simulated cluster starts with. All else of it has the defaults.
//
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.metadata) || !has(self.template.metadata.labels) || self.template.metadata.labels.size() <= 15",message="machineDeployments.template.metadata.labels: at most 15 labels, because they are the selector"
type InitialMachineDeployment struct {
	// name of the MachineDeployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=46
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// replicas is the number of Machines, 0 to 10000. Default 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// template of the Machines. Its labels are the selector of the MachineDeployment, too; without any, both are pool: <name>. A
	// MachineClass that it names is to be one of machineClasses, because a new namespace has no others.
	// +required
	Template MachineTemplate `json:"template"`
}

// ClusterMetadata is what reaches the Cluster of a simulated cluster.
type ClusterMetadata struct {
	// labels of the Cluster, by which fleets, load tests and disruptions select it, at most 64. Labels that others give it stay.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('hollowfleet.io/'))",message="spec.metadata.labels: labels under hollowfleet.io are the hub's: choose another domain"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ControlPlaneVersions are the versions of a simulated cluster.
type ControlPlaneVersions struct {
	// controlPlane is the Kubernetes version that the control plane has, v1.34 or later, such as "v1.36" or "v1.36.2". It may be raised, by
	// any number of minors: the host's agent upgrades one minor at a time, the API server first, and continues when all is healthy. It refuses
	// by condition what it cannot run. Default: the version that the host's agent brings.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^v1\\\\.(3[4-9]|[4-9][0-9])(\\\\.(0|[1-9][0-9]{0,2}))?$')",message="versions.controlPlane: not a Kubernetes version from v1.34 on: write it as v1.36 or v1.36.2"
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
}

// ControlPlaneResources are what the control plane of a simulated cluster gets of its host: cpu and memory, as for a container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || !isQuantity(string(self.requests[k])) || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="resources.requests: more than resources.limits: lower the request, or raise the limit"
type ControlPlaneResources struct {
	// requests are set aside on the host. Default, of what is left out: the limit, but no more than what the host gives by itself, which
	// is cpu 40m and memory 320Mi for pods.
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(string(self[k])))",message="resources.requests: not a quantity: write cpu as 500m or 2, and memory as 400Mi or 2Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="resources.requests: only cpu and memory: leave the others out"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : !self[k].startsWith('-'))",message="resources.requests: a quantity is negative: write 0 or more"
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// limits end a control plane that takes more memory, and slow down one that takes more cpu. Default: there are none.
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(string(self[k])))",message="resources.limits: not a quantity: write cpu as 500m or 2, and memory as 400Mi or 2Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="resources.limits: only cpu and memory: leave the others out"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !isQuantity(string(self[k])) || quantity(string(self[k])).isGreaterThan(quantity('0')))",message="resources.limits: want more than 0: leave a limit out that is none"
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// SimulatedClusterStatus is what the hub and the host's agent know of a simulated cluster.
type SimulatedClusterStatus struct {
	// observedGeneration is the generation that the hub last worked on. Written by the hub.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// versions that run; absent until the control plane has answered. Written by the host's agent.
	// +optional
	Versions *ObservedControlPlaneVersions `json:"versions,omitempty"`

	// machineClasses are the names of those of spec.machineClasses that were created. None of them is created again. Written by the hub.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	MachineClasses []string `json:"machineClasses,omitempty"`
	// machineDeployments are the names of those of spec.machineDeployments that were created. None of them is created again. Written by
	// the hub.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=46
	// +listType=set
	// +optional
	MachineDeployments []string `json:"machineDeployments,omitempty"`

	// conditions: ClusterCreated, ClusterReady, MachineDeploymentsCreated, MachinesRemoved, Frozen, Ready, Reconciling and Stalled written by the hub;
	// ControlPlaneReady written by the host's agent.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ObservedControlPlaneVersions are the versions that the control plane of a simulated cluster runs. During an upgrade the API server has
// the new one first.
type ObservedControlPlaneVersions struct {
	// controlPlane is the version that the API server reports, such as "v1.36.0".
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
	// controllerManager and scheduler are the versions with which these were started, and in which they say that they are healthy; absent
	// while one does not.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ControllerManager string `json:"controllerManager,omitempty"`
	// scheduler is the version of the scheduler.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Scheduler string `json:"scheduler,omitempty"`
}

// SimulatedClusterList is a list of SimulatedClusters.
//
// +kubebuilder:object:root=true
type SimulatedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []SimulatedCluster `json:"items"`
}

// ProofOfSimulation is the value of SimulatedClusterAnnotation on what the hub makes for s: its namespace and UID, which no copy of s has.
func (s *SimulatedCluster) ProofOfSimulation() string { return s.Namespace + "/" + string(s.UID) }
