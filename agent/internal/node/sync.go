// Package node keeps a Machine's Node in line with the Machine: labels, annotations, role labels and taints.
//
// The agent owns only what it put there. For labels and annotations the API server remembers that itself
// (server-side apply, field manager "hollowfleet-agent"); for taints, which are one list to the API server,
// the annotation hollowfleet.io/applied-taints does. What others put on the Node stays.
package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	// With its UID the Node is never recreated if it is gone. Force: the kubelet has registered the Node with
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

// Desired is what the agent wants to own on a Node.
type Desired struct {
	Labels      map[string]string
	Annotations map[string]string
	Taints      []corev1.Taint
	// Unwanted are taints that the agent takes away although it would keep them as the Node's registration made them.
	Unwanted []corev1.Taint
}

// WithProviderTaints adds what a provider says of the Node's taints. What the Machine's spec.taints says goes.
func (d Desired) WithProviderTaints(taints, unwanted []corev1.Taint) Desired {
	for _, taint := range taints {
		if !containsTaint(d.Taints, taint) {
			d.Taints = append(d.Taints, taint)
		}
	}
	d.Unwanted = unwanted
	return d
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
