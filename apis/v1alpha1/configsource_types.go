package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// KubeletConfigMap is the ConfigMap in a cluster's namespace on the hub whose keys are KubeletConfigurations. Users write it; the hub
// reads it, and no other ConfigMap.
const KubeletConfigMap = "hollowfleet-kubelet"

// ConfigSource names the KubeletConfiguration of a node: a key of the ConfigMap hollowfleet-kubelet in the cluster's namespace on the hub.
type ConfigSource struct {
	// key of the ConfigMap hollowfleet-kubelet. Its value is a KubeletConfiguration of kubelet.config.k8s.io/v1beta1, as YAML or JSON
	// without anchors, of at most 16384 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +required
	Key string `json:"key"`

	// sha256 of the value that is meant, in hexadecimal digits. While the key has another value, nothing gets it. Default: the value
	// that the key has; another one is another revision of a MachineDeployment.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	SHA256 string `json:"sha256,omitempty"`

	// resolved is the value that the hub has taken. It stays as it is when the ConfigMap changes. Written by the hub, into MachineSets of
	// a MachineDeployment and into Machines.
	// +optional
	Resolved *ResolvedConfigSource `json:"resolved,omitempty"`
}

// ResolvedConfigSource is the value of a key.
type ResolvedConfigSource struct {
	// key that had the value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
	// content is the value, byte for byte.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +required
	Content string `json:"content"`
}

// MaxConfigContent is how many bytes a KubeletConfiguration has at most.
const MaxConfigContent = 16384

// ContentHash is what sha256 of a ConfigSource has to be for content.
func ContentHash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// IsResolved reports whether the hub has taken what s asks for.
func (s *ConfigSource) IsResolved() bool {
	return s.Resolved != nil && s.Resolved.Key == s.Key && (s.SHA256 == "" || s.SHA256 == ContentHash(s.Resolved.Content))
}

// MachineConfigStatus tells which KubeletConfiguration a Machine runs, each by the SHA-256 of its content.
type MachineConfigStatus struct {
	// assigned is the one of spec.configSource; empty while the hub has not taken it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Assigned string `json:"assigned,omitempty"`
	// active is the one that the instance was made with.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Active string `json:"active,omitempty"`
	// lastKnownGood is the last one with which the Node was Ready.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LastKnownGood string `json:"lastKnownGood,omitempty"`
	// ignored are the fields of the assigned one that change nothing on this node.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	Ignored []string `json:"ignored,omitempty"`
	// error says why the assigned one is not active, and what to change; empty if it is, or is on its way.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Error string `json:"error,omitempty"`
}
