package node

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is under what name the agent applies labels and annotations.
const FieldManager = "hollowfleet-agent"

// Shrink is a cache transform for Nodes: it drops what the agent never reads, which is most of a Node, and of
// the managed fields all but the agent's own, which tell what it has applied.
func Shrink(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	var own []metav1.ManagedFieldsEntry
	for _, entry := range node.ManagedFields {
		if isOwn(entry) {
			own = append(own, entry)
		}
	}
	node.ManagedFields = own
	node.Status.Images, node.Status.VolumesAttached, node.Status.VolumesInUse = nil, nil, nil
	return node, nil
}

func isOwn(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// ownedKeys returns the labels and annotations that the agent has applied to node.
func ownedKeys(node *corev1.Node) (labels, annotations []string) {
	for _, entry := range node.ManagedFields {
		if !isOwn(entry) || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels      map[string]json.RawMessage `json:"f:labels"`
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		labels = append(labels, keysOf(fields.Metadata.Labels)...)
		annotations = append(annotations, keysOf(fields.Metadata.Annotations)...)
	}
	return labels, annotations
}

func keysOf(fields map[string]json.RawMessage) []string {
	var keys []string
	for field := range fields {
		if key, ok := strings.CutPrefix(field, "f:"); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
