package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// UnknownProviderID stands for the answer of a driver that cannot tell the provider ID of a Machine without an instance.
const UnknownProviderID = ""

// IsOf reports whether node was made for machine. providerIDs are what the drivers say the Machine's Node has; what the
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

// Claimed reports whether node has the annotations that the agent writes on the Node of machine.
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
	return fmt.Sprintf("a Node named %q exists and does not belong to this Machine (%s): delete the Machine and create it with another name, or delete the Node", node.Name, why)
}

// reserved are the labels and annotations of a Node that hollow-node and agent set themselves.
var reserved = []string{
	v1alpha1.HollowNodeLabel, v1alpha1.KubeletVersionSourceLabel, v1alpha1.KubeletCodeLabel, v1alpha1.NodeLeaseDurationLabel,
	v1alpha1.NodeStatusFrequencyLabel, v1alpha1.NodeMachineAnnotation, v1alpha1.NodeClusterNamespaceAnnotation,
	v1alpha1.NodeAppliedTaintsAnnotation, v1alpha1.NodeCordonedAnnotation,
	v1alpha1.KwokConfigurationAnnotation, v1alpha1.KwokReadyAtAnnotation,
}

// Validate returns *driver.InvalidConfigurationError for the first label, annotation, taint or role of
// machine that no Node could have. The hub's API server cannot see these.
func Validate(machine *v1alpha1.Machine) error {
	if err := validateMetadata(machine.Spec.NodeMetadata); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, taint := range machine.Spec.Taints {
		if err := ValidateTaint("spec.taints", taint); err != nil {
			return err
		}
		id := taint.Key + ":" + string(taint.Effect)
		if seen[id] {
			return driver.Invalid("spec.taints", "%s is listed twice: a Node has at most one taint for each key and effect", id)
		}
		seen[id] = true
	}
	return nil
}

func validateMetadata(metadata v1alpha1.NodeMetadata) error {
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		field := "spec.metadata.labels." + key
		if problem := keyProblem(key); problem != "" {
			return driver.Invalid(field, "%s", problem)
		}
		if problems := validation.IsValidLabelValue(metadata.Labels[key]); len(problems) > 0 {
			return driver.Invalid(field, "no label value: %s", problems[0])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
		if problem := keyProblem(key); problem != "" {
			return driver.Invalid("spec.metadata.annotations."+key, "%s", problem)
		}
	}
	return nil
}

func keyProblem(key string) string {
	if slices.Contains(reserved, key) {
		return "reserved: the agent sets it itself; remove it"
	}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return "no valid key: " + problems[0]
	}
	return ""
}

// ValidateTaint returns *driver.InvalidConfigurationError for a taint of a field that no Node could have.
func ValidateTaint(field string, taint corev1.Taint) error {
	if problems := validation.IsQualifiedName(taint.Key); len(problems) > 0 {
		return driver.Invalid(field, "key %q: %s", taint.Key, problems[0])
	}
	if problems := validation.IsValidLabelValue(taint.Value); len(problems) > 0 {
		return driver.Invalid(field, "value %q of key %q: %s", taint.Value, taint.Key, problems[0])
	}
	switch taint.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	}
	return driver.Invalid(field, "effect %q of key %q: want NoSchedule, PreferNoSchedule or NoExecute", taint.Effect, taint.Key)
}
