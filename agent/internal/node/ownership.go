package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// UnknownProviderID stands for the answer of a driver that cannot tell the provider ID of a Machine without an instance.
const UnknownProviderID = ""

// IsOf tells whether node was made for machine. providerIDs are what the drivers say the Machine's Node has; what the
// Machine itself says in spec.providerID is no proof, because users can write it.
//
// A Node gets its provider ID when it registers, and the API server refuses to change it after that. So a Node with the
// driver's ID was registered by the Machine's own kubelet. It has no annotations of the agent until the agent's first
// write; annotations of another Machine or cluster show that another agent has it. If a driver cannot tell the ID,
// because the instance is gone, the agent's annotations alone decide: the agent wrote them when the driver could tell.
func IsOf(node *corev1.Node, machine *v1alpha1.Machine, providerIDs []string) bool {
	switch id := node.Spec.ProviderID; {
	case node.Name != machine.Name || id == "":
		return false
	case slices.Contains(providerIDs, id):
		return !annotatedForAnother(node, machine)
	}
	return slices.Contains(providerIDs, UnknownProviderID) && Claimed(node, machine)
}

// Claimed tells whether node has the annotations that the agent writes on the Node of machine.
func Claimed(node *corev1.Node, machine *v1alpha1.Machine) bool {
	for key, want := range claimOf(machine) {
		if node.Annotations[key] != want {
			return false
		}
	}
	return true
}

func annotatedForAnother(node *corev1.Node, machine *v1alpha1.Machine) bool {
	for key, want := range claimOf(machine) {
		if found, there := node.Annotations[key]; there && found != want {
			return true
		}
	}
	return false
}

// claimOf returns the annotations that tie a Node to machine. The Machine's UID is not among them: a Machine that is
// put back after it was lost has another one and takes its Node back.
func claimOf(machine *v1alpha1.Machine) map[string]string {
	return map[string]string{
		v1alpha1.NodeMachineAnnotation:          machine.Name,
		v1alpha1.NodeClusterNamespaceAnnotation: machine.Namespace,
	}
}

// Claim writes the agent's annotations on a Node of machine that has just registered, if it has none yet. The write
// fails if the Node has changed since it was read.
func Claim(ctx context.Context, writer client.Client, node *corev1.Node, machine *v1alpha1.Machine) error {
	if Claimed(node, machine) {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion, "annotations": claimOf(machine),
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch of node %s: %w", node.Name, err)
	}
	if err := writer.Patch(ctx, node, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	return nil
}

// Conflict asks the API server for the Node of machine's name and says why it is not the Machine's. It returns an empty
// string if there is no such Node or if it is the Machine's own.
func Conflict(ctx context.Context, reader client.Reader, machine *v1alpha1.Machine, providerIDs []string) (string, error) {
	found := &corev1.Node{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: machine.Name}, found); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("getting node %s: %w", machine.Name, err)
	case IsOf(found, machine, providerIDs):
		return "", nil
	}
	return ConflictMessage(found, providerIDs), nil
}

// ConflictMessage says why node is not that of the Machine of its name, and what to do.
func ConflictMessage(node *corev1.Node, providerIDs []string) string {
	why := fmt.Sprintf("its provider ID is %q", node.Spec.ProviderID)
	switch {
	case node.Spec.ProviderID == "":
		why = "it has no provider ID"
	case slices.Contains(providerIDs, node.Spec.ProviderID):
		why = fmt.Sprintf("it belongs to machine %q of namespace %q",
			node.Annotations[v1alpha1.NodeMachineAnnotation], node.Annotations[v1alpha1.NodeClusterNamespaceAnnotation])
	}
	return fmt.Sprintf("a Node named %q exists that this Machine did not make (%s): delete the Machine and create it with another name, or delete the Node", node.Name, why)
}
