package v1alpha1

// MachineTemplate is what the Machines of a MachineSet or MachineDeployment are made from.
type MachineTemplate struct {
	// metadata of the Machines.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`
	// spec of the Machines, without what is particular to one.
	// +required
	Spec MachineTemplateBody `json:"spec"`
}

// TemplateMetadata is the metadata that a template gives to Machines.
type TemplateMetadata struct {
	// labels of the Machines; they must contain the selector's.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the Machines.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// MachineSelector selects Machines by labels. It reads like a LabelSelector with matchLabels only, so that
// the API server can hold it against the template.
type MachineSelector struct {
	// matchLabels must all be on a Machine. At least one.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +required
	MatchLabels map[string]string `json:"matchLabels"`
}
