package v1alpha1

// LoadEnvironment is what a run was made on. Measurements of runs whose environments differ cannot be compared.
type LoadEnvironment struct {
	// kubernetesVersion is the API server's, such as v1.37.1.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// nodes is how many hollow Nodes there were when the steps started.
	// +optional
	Nodes int32 `json:"nodes"`
	// kubeletVersions are those of these Nodes, the most frequent first.
	// +listType=map
	// +listMapKey=value
	// +kubebuilder:validation:MaxItems=8
	// +optional
	KubeletVersions []LoadNodeCount `json:"kubeletVersions,omitempty"`
	// profiles are those of the hollow nodes of the cluster: Fast, Realistic, Custom for a profile of which the MachineClass changes
	// settings, and Unknown for hollow nodes that an agent of an earlier release made.
	// +listType=map
	// +listMapKey=value
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Profiles []LoadNodeCount `json:"profiles,omitempty"`
	// processors is how many the agent's machine has, and processor which. Empty where that is not known.
	// +optional
	Processors int32 `json:"processors,omitempty"`
	// processor is the model of the processors, as the machine's kernel names it.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Processor string `json:"processor,omitempty"`
	// memoryMiB is the memory of the agent's machine.
	// +optional
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
}

// LoadNodeCount is how many Nodes have a value.
type LoadNodeCount struct {
	// value that they have.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Value string `json:"value"`
	// nodes is how many have it.
	// +required
	Nodes int32 `json:"nodes"`
}
