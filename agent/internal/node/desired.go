package node

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Desired is what the agent wants to own on a Node.
type Desired struct {
	Labels      map[string]string
	Annotations map[string]string
	Taints      []corev1.Taint
}

// DesiredOf computes what machine says about its Node. hollow Nodes keep the label by which the agent finds them.
func DesiredOf(machine *v1alpha1.Machine, hollow bool) Desired {
	d := Desired{
		Labels:      maps.Clone(machine.Spec.NodeMetadata.Labels),
		Annotations: maps.Clone(machine.Spec.NodeMetadata.Annotations),
		Taints:      slices.Clone(machine.Spec.Taints),
	}
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	for _, role := range machine.Spec.Roles {
		d.Labels[v1alpha1.NodeRoleLabelPrefix+role] = ""
	}
	if hollow {
		d.Labels[v1alpha1.HollowNodeLabel] = "true"
	}
	d.Annotations[v1alpha1.NodeMachineAnnotation] = machine.Name
	d.Annotations[v1alpha1.NodeClusterNamespaceAnnotation] = machine.Namespace
	slices.SortFunc(d.Taints, func(a, b corev1.Taint) int { return strings.Compare(a.ToString(), b.ToString()) })
	return d
}

// IsOf tells whether a Node is the one of machine: by its provider ID, or, while it has none, by the agent's
// annotations. A Node that only has the same name is somebody else's.
func IsOf(node *corev1.Node, machine *v1alpha1.Machine, providerID string) bool {
	if node.Name != machine.Name {
		return false
	}
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID == providerID
	}
	return node.Annotations[v1alpha1.NodeMachineAnnotation] == machine.Name &&
		node.Annotations[v1alpha1.NodeClusterNamespaceAnnotation] == machine.Namespace
}
