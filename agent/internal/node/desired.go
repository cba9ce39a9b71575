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
	maps.Copy(d.Annotations, claimOf(machine))
	slices.SortFunc(d.Taints, func(a, b corev1.Taint) int { return strings.Compare(a.ToString(), b.ToString()) })
	return d
}
