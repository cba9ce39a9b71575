package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

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

// TakeOver gives b all of from that reaches the Machines and Nodes that there are. The rest, versions, requireVersionCode, configSource
// and providerConfig, needs an update or a replacement, and stays as it is in b.
func (b *MachineTemplateBody) TakeOver(from *MachineTemplateBody) {
	taken := from.DeepCopy()
	taken.Versions, taken.ConfigSource, taken.ProviderConfig = b.Versions, b.ConfigSource, b.ProviderConfig
	taken.RequireVersionCode = b.RequireVersionCode
	if sameTaints(b.Taints, from.Taints) {
		taken.Taints = b.Taints
	}
	*b = *taken
}

// HasTakenOver reports whether TakeOver would leave b as it is.
func (b *MachineTemplateBody) HasTakenOver(from *MachineTemplateBody) bool {
	wanted := *from
	wanted.Versions, wanted.ConfigSource, wanted.ProviderConfig = b.Versions, b.ConfigSource, b.ProviderConfig
	wanted.RequireVersionCode = b.RequireVersionCode
	if sameTaints(b.Taints, from.Taints) {
		wanted.Taints = b.Taints
	}
	return equality.Semantic.DeepEqual(*b, wanted)
}

// sameTaints compares taints without when they were added: a Node has its own time.
func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Taint) bool {
		a.TimeAdded, b.TimeAdded = nil, nil
		return a == b
	})
}
