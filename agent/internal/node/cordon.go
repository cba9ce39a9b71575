package node

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The values of NodeCordonedAnnotation: what the agent cordoned a Node for.
const (
	ForUpdate   = "update"
	ForDeletion = "deletion"
)

// Cordon makes node unschedulable and notes that the agent did it. A Node that a user has cordoned already is left
// as it is, and so stays cordoned afterwards.
func Cordon(ctx context.Context, writer client.Client, node *corev1.Node, why string) error {
	if node.Spec.Unschedulable {
		return nil
	}
	// The lock: it must not become the agent's own cordon when another client is quicker.
	return patchCordon(ctx, writer, node, map[string]any{
		"metadata": map[string]any{
			"resourceVersion": node.ResourceVersion, "uid": node.UID,
			"annotations": map[string]any{v1alpha1.NodeCordonedAnnotation: why},
		},
		"spec": map[string]any{"unschedulable": true},
	})
}

// Uncordon makes a Node schedulable again that the agent cordoned.
func Uncordon(ctx context.Context, writer client.Client, node *corev1.Node) error {
	return patchCordon(ctx, writer, node, map[string]any{
		"metadata": map[string]any{"uid": node.UID, "annotations": map[string]any{v1alpha1.NodeCordonedAnnotation: nil}},
		"spec":     map[string]any{"unschedulable": nil},
	})
}

func patchCordon(ctx context.Context, writer client.Client, node *corev1.Node, body map[string]any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a patch of node %s: %w", node.Name, err)
	}
	if err := writer.Patch(ctx, node, client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	return nil
}
