package hollow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// hollowTaintAnnotation, on a Machine's Secret, keeps whether its Node registers with the default taint: "true" or "false".
const hollowTaintAnnotation = "hollowfleet.io/hollow-taint"

// hollowTaint is the default taint of hollow Nodes.
func hollowTaint() corev1.Taint {
	return corev1.Taint{Key: v1alpha1.HollowNodeTaint, Value: v1alpha1.HollowNodeTaintValue, Effect: corev1.TaintEffectNoSchedule}
}

// withHollowTaint adds the default taint, unless the Machine's own taints have one of its key and effect.
func withHollowTaint(taints []corev1.Taint) []corev1.Taint {
	added := hollowTaint()
	if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&added) }) {
		return taints
	}
	return append(slices.Clone(taints), added)
}

// taintMode is what holds for a Machine's Node: what its class says, else what the agent is set to.
func (d *Driver) taintMode(want desired) v1alpha1.HollowTaint {
	return cmp.Or(want.hollowTaint, d.options.HollowTaint, v1alpha1.HollowTaintAuto)
}

// nodeTaints are the taints that a Node has to have, and those that it must not have. With Auto it keeps what it has.
func (d *Driver) nodeTaints(want desired) (taints, unwanted []corev1.Taint) {
	switch d.taintMode(want) {
	case v1alpha1.HollowTaintAlways:
		return []corev1.Taint{hollowTaint()}, nil
	case v1alpha1.HollowTaintNever:
		return nil, []corev1.Taint{hollowTaint()}
	case v1alpha1.HollowTaintAuto:
	}
	return nil, nil
}

// registersTainted reports whether a Machine's Node registers with the default taint. With Auto that is decided once, and kept in
// the Machine's Secret. While it cannot be decided, no hollow node is made.
func (d *Driver) registersTainted(ctx context.Context, secret *corev1.Secret, want desired) (bool, error) {
	switch d.taintMode(want) {
	case v1alpha1.HollowTaintAlways:
		return true, nil
	case v1alpha1.HollowTaintNever:
		return false, nil
	case v1alpha1.HollowTaintAuto:
	}
	if secret != nil {
		if tainted, err := strconv.ParseBool(secret.Annotations[hollowTaintAnnotation]); err == nil {
			return tainted, nil
		}
	}
	return d.hasRealNodes(ctx)
}

// hasRealNodes asks the target for a Node that is neither hollow nor a podhost's.
func (d *Driver) hasRealNodes(ctx context.Context) (bool, error) {
	selector := labels.NewSelector()
	for _, key := range []string{v1alpha1.HollowNodeLabel, v1alpha1.PodHostLabel} {
		requirement, err := labels.NewRequirement(key, selection.DoesNotExist, nil)
		if err != nil {
			return false, fmt.Errorf("selecting the nodes without label %s: %w", key, err)
		}
		selector = selector.Add(*requirement)
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := d.environment.Target.Reader.List(ctx, nodes, client.MatchingLabelsSelector{Selector: selector}, client.Limit(1)); err != nil {
		return false, fmt.Errorf("looking for nodes that are not hollow: %w", err)
	}
	return len(nodes.Items) > 0, nil
}
