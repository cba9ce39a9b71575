package freeze

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Label is the value of FrozenLabel that agrees with conditions; empty for none.
func Label(conditions []metav1.Condition) string {
	frozen := meta.FindStatusCondition(conditions, v1alpha1.FrozenCondition)
	if frozen == nil || frozen.Status == metav1.ConditionFalse {
		return ""
	}
	if frozen.Reason == "" || len(validation.IsValidLabelValue(frozen.Reason)) > 0 {
		return v1alpha1.FrozenCondition // The reason of an agent's freeze is the agent's own.
	}
	return frozen.Reason
}

// WriteLabel brings FrozenLabel of object in line with conditions, those that its status is about to get. Label and
// condition are written one after the other in each reconciliation, both from what the world looks like then: if one of
// the two writes is lost, the next reconciliation makes it. The lock keeps the status, which is written next, from
// resting on another version of object than it was computed from.
func WriteLabel(ctx context.Context, c client.Client, object client.Object, conditions []metav1.Condition) error {
	wanted := Label(conditions)
	if current, found := object.GetLabels()[v1alpha1.FrozenLabel]; current == wanted && found == (wanted != "") {
		return nil
	}
	after, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %T: it is not an object", object)
	}
	labels := map[string]string{}
	maps.Copy(labels, object.GetLabels())
	if delete(labels, v1alpha1.FrozenLabel); wanted != "" {
		labels[v1alpha1.FrozenLabel] = wanted
	}
	after.SetLabels(labels)
	switch err := c.Patch(ctx, after, reconciler.MergeFromWithLock(object)); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing the label %s: %w", v1alpha1.FrozenLabel, err)
	}
	object.SetLabels(after.GetLabels())
	object.SetResourceVersion(after.GetResourceVersion())
	return nil
}
