package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Changes are what it takes to bring a Node in line. The zero value is nothing.
type Changes struct {
	// Apply: labels and annotations differ from what is desired, or are not the agent's yet.
	Apply bool
	// RemoveLabels and RemoveAnnotations are the agent's and no longer desired. They are removed outright:
	// giving them up would leave those that the kubelet registered with.
	RemoveLabels, RemoveAnnotations []string
	// Taints is the Node's whole new list when SetTaints; AppliedTaints is the new value of the annotation.
	SetTaints     bool
	Taints        []corev1.Taint
	AppliedTaints string
}

// Any reports whether there is anything to change.
func (c Changes) Any() bool { return c.Apply || c.SetTaints || c.removes() }

func (c Changes) removes() bool { return len(c.RemoveLabels)+len(c.RemoveAnnotations) > 0 }

// ChangesOf compares node with what is desired. It is pure.
func ChangesOf(node *corev1.Node, desired Desired) (Changes, error) {
	var changes Changes
	labels, annotations := ownedKeys(node)
	changes.RemoveLabels = findSurplus(labels, desired.Labels, node.Labels)
	changes.RemoveAnnotations = findSurplus(annotations, desired.Annotations, node.Annotations)
	changes.Apply = lacksAny(node.Labels, labels, desired.Labels) || lacksAny(node.Annotations, annotations, desired.Annotations)
	return changes.withTaints(node, desired)
}

// findSurplus returns those of owned that are not desired and still there.
func findSurplus(owned []string, desired, present map[string]string) []string {
	var keys []string
	for _, key := range owned {
		_, wanted := desired[key]
		_, there := present[key]
		if there && !wanted {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func lacksAny(present map[string]string, owned []string, desired map[string]string) bool {
	for key, want := range desired {
		if have, there := present[key]; !there || have != want || !slices.Contains(owned, key) {
			return true
		}
	}
	return false
}

func (c Changes) withTaints(node *corev1.Node, desired Desired) (Changes, error) {
	before := rememberedTaints(node)
	want := make([]taintID, 0, len(desired.Taints)+1)
	for _, taint := range desired.Taints {
		want = append(want, idOf(taint))
	}
	if keepsHollowTaint(node, before, desired) {
		want = append(want, hollowTaintID)
	}
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(taint corev1.Taint) bool {
		id := idOf(taint)
		return before.Has(id) && !slices.Contains(want, id)
	})
	for _, taint := range desired.Taints {
		taints = putTaint(taints, taint)
	}
	if len(want) > 0 || node.Annotations[v1alpha1.NodeAppliedTaintsAnnotation] != "" {
		remember, err := json.Marshal(want)
		if err != nil {
			return c, fmt.Errorf("encoding the applied taints: %w", err)
		}
		c.AppliedTaints = string(remember)
	}
	c.Taints = taints
	c.SetTaints = !slices.EqualFunc(taints, node.Spec.Taints, sameTaint) ||
		c.AppliedTaints != node.Annotations[v1alpha1.NodeAppliedTaintsAnnotation]
	return c, nil
}

// rememberedTaints are the taints that the agent has put on node, as an annotation of the node says. Where another client
// has made the annotation unreadable there are none: what the agent once put there is not known, so nothing is taken away.
// It is a set, because a client can write a long list into the annotation and as many taints beside it.
func rememberedTaints(node *corev1.Node) sets.Set[taintID] {
	var before []taintID
	if !claimedByAgent(node) {
		// What the hollow node has registered with is the agent's too.
		return sets.New(hollowTaintID)
	}
	if err := json.Unmarshal([]byte(node.Annotations[v1alpha1.NodeAppliedTaintsAnnotation]), &before); err != nil {
		return nil
	}
	return sets.New(before...)
}

// claimedByAgent reports whether an agent has written to node before.
func claimedByAgent(node *corev1.Node) bool {
	_, claimed := node.Annotations[v1alpha1.NodeMachineAnnotation]
	_, tainted := node.Annotations[v1alpha1.NodeAppliedTaintsAnnotation]
	return claimed || tainted
}

// hollowTaintID is the default taint of hollow Nodes.
var hollowTaintID = taintID{Key: v1alpha1.HollowNodeTaint, Effect: corev1.TaintEffectNoSchedule}

// keepsHollowTaint reports whether node keeps the default taint that is the agent's, although nothing asks for it now: whether
// it has it was decided when it registered, and ordinary pods must not come because that is asked again.
func keepsHollowTaint(node *corev1.Node, before sets.Set[taintID], desired Desired) bool {
	is := func(taint corev1.Taint) bool { return idOf(taint) == hollowTaintID }
	return before.Has(hollowTaintID) && slices.ContainsFunc(node.Spec.Taints, is) &&
		!slices.ContainsFunc(desired.Taints, is) && !slices.ContainsFunc(desired.Unwanted, is)
}

func containsTaint(taints []corev1.Taint, taint corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return idOf(t) == idOf(taint) })
}

// putTaint adds taint, or gives the one of its key and effect its value.
func putTaint(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
	for i := range taints {
		if idOf(taints[i]) == idOf(taint) {
			taints[i].Value = taint.Value
			return taints
		}
	}
	return append(taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
}

// taintID is what tells two taints of a Node apart.
type taintID struct {
	Key    string             `json:"key"`
	Effect corev1.TaintEffect `json:"effect"`
}

func idOf(taint corev1.Taint) taintID { return taintID{Key: taint.Key, Effect: taint.Effect} }

func sameTaint(a, b corev1.Taint) bool { return idOf(a) == idOf(b) && a.Value == b.Value }

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

// OnlyHeartbeat reports whether two versions of a Node differ in nothing but the times of its heartbeats, and in
// what the API server keeps count of.
func OnlyHeartbeat(before, after *corev1.Node) bool {
	if before.UID != after.UID || len(before.Status.Conditions) != len(after.Status.Conditions) {
		return false
	}
	if !equality.Semantic.DeepEqual(stableMetadata(before.ObjectMeta), stableMetadata(after.ObjectMeta)) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return false
	}
	a, b := before.Status, after.Status
	for i := range a.Conditions {
		x, y := a.Conditions[i], b.Conditions[i]
		x.LastHeartbeatTime, y.LastHeartbeatTime = metav1.Time{}, metav1.Time{}
		if x != y {
			return false
		}
	}
	a.Conditions, b.Conditions = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// stableMetadata is metadata without what every write changes.
func stableMetadata(metadata metav1.ObjectMeta) metav1.ObjectMeta {
	metadata.ResourceVersion, metadata.ManagedFields, metadata.Generation = "", nil, 0
	return metadata
}
