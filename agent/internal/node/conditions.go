package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Ready reports whether a Node says that it is Ready.
func Ready(node *corev1.Node) bool { return HasCondition(node, corev1.NodeReady, corev1.ConditionTrue) }

// HasCondition reports whether a Node says that it has a condition with that status.
func HasCondition(node *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind && c.Status == status })
}
