package kwok

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	operatingSystem, architecture = "linux", "amd64"
	// unknownVersion is reported while neither the Machine nor the API server tells one.
	unknownVersion = "v0.0.0"
	// neverUpdated is the reason with which the node controller says that a new Node was never Ready.
	neverUpdated = "NodeStatusNeverUpdated"
)

// renderNode writes the Node of a Machine, as a kubelet would register it.
func (d *Driver) renderNode(machine *v1alpha1.Machine, want desired, tainted bool) *corev1.Node {
	labels := maps.Clone(machine.Spec.NodeMetadata.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname: machine.Name, corev1.LabelOSStable: operatingSystem, corev1.LabelArchStable: architecture,
		v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue, v1alpha1.KubeletVersionSourceLabel: v1alpha1.KubeletVersionReported,
	})
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: machine.Name, Labels: labels,
			Annotations: map[string]string{v1alpha1.KwokConfigurationAnnotation: want.hash},
		},
		Spec: corev1.NodeSpec{ProviderID: d.providerID(machine.Name), Taints: machine.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: want.capacity, Allocatable: want.capacity,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: machine.Name}},
			NodeInfo:  d.nodeInfo(want),
		},
	}
	if tainted {
		node.Spec.Taints = hollow.WithDefaultTaint(node.Spec.Taints)
	}
	if want.startupDelay > 0 {
		node.Annotations[v1alpha1.KwokReadyAtAnnotation] = d.environment.Clock.Now().Add(want.startupDelay).UTC().Format(time.RFC3339)
	}
	return node
}

func (d *Driver) nodeInfo(want desired) corev1.NodeSystemInfo {
	version := want.kubeletVersion
	if version == "" && d.options.ServerVersion != nil {
		version = d.options.ServerVersion()
	}
	if version == "" {
		version = unknownVersion
	}
	return corev1.NodeSystemInfo{
		OperatingSystem: operatingSystem, Architecture: architecture, OSImage: want.osImage,
		KubeletVersion: version, ContainerRuntimeVersion: want.runtimeVersion,
	}
}

// statusPatch brings the status of node to want. It fails if the Node is another by now. kwok's controller writes none of these fields.
func statusPatch(node *corev1.Node, want desired) ([]byte, error) {
	capacity := map[string]any{}
	for name := range node.Status.Capacity {
		capacity[string(name)] = nil
	}
	for name := range node.Status.Allocatable {
		capacity[string(name)] = nil
	}
	for name, quantity := range want.capacity {
		capacity[string(name)] = quantity
	}
	info := map[string]any{"containerRuntimeVersion": want.runtimeVersion, "osImage": want.osImage}
	if want.kubeletVersion != "" {
		info["kubeletVersion"] = want.kubeletVersion
	}
	return encodePatch(node, map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"capacity": capacity, "allocatable": capacity, "nodeInfo": info},
	})
}

// markPatch notes that node is as want says.
func markPatch(node *corev1.Node, want desired) ([]byte, error) {
	return encodePatch(node, map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]any{v1alpha1.KwokConfigurationAnnotation: want.hash},
	}})
}

func encodePatch(node *corev1.Node, body map[string]any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch of node %s: %w", node.Name, err)
	}
	return data, nil
}

// matchesDesired reports whether node was made from want.
func matchesDesired(node *corev1.Node, want desired) bool {
	return node.Annotations[v1alpha1.KwokConfigurationAnnotation] == want.hash
}

// describeInstance describes node. Without a class it is not judged.
func (d *Driver) describeInstance(node *corev1.Node, request driver.Request) driver.Instance {
	found := driver.Instance{Name: node.Name, ProviderID: d.providerID(node.Name), UpToDate: true}
	found.State, found.Message = d.stateOf(node)
	if found.State == driver.Pending || found.State == driver.Failing {
		found.RecheckAfter = programRecheck
	}
	if request.Class == nil || found.State == driver.Deleting {
		return found
	}
	// With a configuration that cannot be read the Node is as it is, and Update says what is wrong with it.
	want, invalid := d.resolveDesired(request)
	found.UpToDate = invalid == nil && matchesDesired(node, want)
	if invalid == nil {
		found.Taints, found.UnwantedTaints = d.nodeTaints(want)
	}
	return found
}

// stateOf tells how a Node is, and what there is to say about it.
func (d *Driver) stateOf(node *corev1.Node) (driver.State, string) {
	if node.DeletionTimestamp != nil {
		return driver.Deleting, joinMessage("node "+node.Name+" is being deleted", node.Finalizers)
	}
	var ready *corev1.NodeCondition
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			ready = &node.Status.Conditions[i]
		}
	}
	problem := ""
	if d.controller != nil {
		if text := d.controller.describeProblem(); text != "" {
			problem = ": " + text
		}
	}
	switch {
	case ready != nil && ready.Status == corev1.ConditionTrue:
		return driver.Running, ""
	case ready == nil || ready.Reason == neverUpdated:
		if at, err := time.Parse(time.RFC3339, node.Annotations[v1alpha1.KwokReadyAtAnnotation]); err == nil && d.environment.Clock.Now().Before(at) {
			return driver.Pending, "the Node starts up until " + at.UTC().Format(time.RFC3339) + problem
		}
		return driver.Pending, "kwok's controller has not made the Node Ready yet" + problem
	}
	return driver.Failing, "kwok's controller does not keep the Node Ready" + problem
}

func joinMessage(message string, finalizers []string) string {
	if len(finalizers) == 0 {
		return message
	}
	return message + "; finalizers: " + strings.Join(finalizers, ", ")
}
