package node

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Sync carries changes out on node and returns the resource version that it has then.
func Sync(ctx context.Context, writer client.Client, node *corev1.Node, desired Desired, changes Changes) (string, error) {
	current := node.DeepCopy()
	if changes.SetTaints || changes.removes() {
		body, err := patchBody(current, changes)
		if err != nil {
			return "", err
		}
		// The lock guards the taints: they are one list, and the node lifecycle controller and the scheduler's
		// users write it too.
		if err := writer.Patch(ctx, current, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager)); err != nil {
			return "", fmt.Errorf("patching node %s: %w", node.Name, err)
		}
	}
	if !changes.Apply && !changes.removes() {
		return current.ResourceVersion, nil
	}
	// With its UID the Node is never made anew if it is gone. Force: the kubelet has registered the Node with
	// some of these labels, and what the Machine says goes.
	applied := corev1ac.Node(node.Name).WithUID(node.UID).WithLabels(desired.Labels).WithAnnotations(desired.Annotations)
	if err := writer.Apply(ctx, applied, client.ForceOwnership, client.FieldOwner(FieldManager)); err != nil {
		return "", fmt.Errorf("applying labels and annotations to node %s: %w", node.Name, err)
	}
	if applied.ResourceVersion == nil {
		return current.ResourceVersion, nil
	}
	return *applied.ResourceVersion, nil
}

func patchBody(node *corev1.Node, changes Changes) ([]byte, error) {
	metadata := map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID}
	annotations := map[string]any{}
	for _, key := range changes.RemoveAnnotations {
		annotations[key] = nil
	}
	labels := map[string]any{}
	for _, key := range changes.RemoveLabels {
		labels[key] = nil
	}
	metadata["labels"], metadata["annotations"] = labels, annotations
	body := map[string]any{"metadata": metadata}
	if changes.SetTaints {
		annotations[v1alpha1.NodeAppliedTaintsAnnotation] = changes.AppliedTaints
		body["spec"] = map[string]any{"taints": changes.Taints}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch of node %s: %w", node.Name, err)
	}
	return data, nil
}
