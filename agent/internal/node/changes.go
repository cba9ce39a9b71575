package node

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// Any tells whether there is anything to change.
func (c Changes) Any() bool { return c.Apply || c.SetTaints || c.removes() }

func (c Changes) removes() bool { return len(c.RemoveLabels)+len(c.RemoveAnnotations) > 0 }

// ChangesOf compares node with what is desired. It is pure.
func ChangesOf(node *corev1.Node, desired Desired) (Changes, error) {
	var changes Changes
	labels, annotations := ownedKeys(node)
	changes.RemoveLabels = surplus(labels, desired.Labels, node.Labels)
	changes.RemoveAnnotations = surplus(annotations, desired.Annotations, node.Annotations)
	changes.Apply = lacks(node.Labels, labels, desired.Labels) || lacks(node.Annotations, annotations, desired.Annotations)
	return changes.withTaints(node, desired)
}

// surplus returns those of owned that are not desired and still there.
func surplus(owned []string, desired, present map[string]string) []string {
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

func lacks(present map[string]string, owned []string, desired map[string]string) bool {
	for key, want := range desired {
		if have, there := present[key]; !there || have != want || !slices.Contains(owned, key) {
			return true
		}
	}
	return false
}

func (c Changes) withTaints(node *corev1.Node, desired Desired) (Changes, error) {
	before := rememberedTaints(node)
	want := make([]taintID, 0, len(desired.Taints))
	for _, taint := range desired.Taints {
		want = append(want, idOf(taint))
	}
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(taint corev1.Taint) bool {
		id := idOf(taint)
		return before.Has(id) && !slices.Contains(want, id)
	})
	for _, taint := range desired.Taints {
		taints = put(taints, taint)
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
	if err := json.Unmarshal([]byte(node.Annotations[v1alpha1.NodeAppliedTaintsAnnotation]), &before); err != nil {
		return nil
	}
	return sets.New(before...)
}

// put adds taint, or gives the one of its key and effect its value.
func put(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
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
