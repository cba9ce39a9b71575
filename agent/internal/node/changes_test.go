package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// ownedNode is a Node of which the agent has applied these labels and annotations.
func ownedNode(labels, annotations []string) *corev1.Node {
	fields := map[string]map[string]map[string]any{"f:metadata": {"f:labels": {}, "f:annotations": {}}}
	for _, key := range labels {
		fields["f:metadata"]["f:labels"]["f:"+key] = struct{}{}
	}
	for _, key := range annotations {
		fields["f:metadata"]["f:annotations"]["f:"+key] = struct{}{}
	}
	raw, _ := json.Marshal(fields)
	owned := &metav1.FieldsV1{}
	_ = owned.UnmarshalJSON(raw)
	node := &corev1.Node{}
	node.Labels, node.Annotations = map[string]string{}, map[string]string{}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: owned,
	}}
	return node
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// Claim: Labels and annotations follow. Broken: a label that is no longer wanted stays.
func TestChangesOfLabels(t *testing.T) {
	tests := map[string]struct {
		node    func() *corev1.Node
		desired Desired
		want    Changes
	}{
		"should be nothing when all is there and owned": {
			func() *corev1.Node {
				n := ownedNode([]string{"a"}, []string{"b"})
				n.Labels["a"], n.Annotations["b"] = "1", "2"
				return n
			},
			Desired{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}},
			Changes{},
		},
		"should apply what is missing": {
			func() *corev1.Node { return &corev1.Node{} },
			Desired{Labels: map[string]string{"a": "1"}},
			Changes{Apply: true},
		},
		"should apply what the kubelet registered with, so that it is owned": {
			func() *corev1.Node {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}}
			},
			Desired{Labels: map[string]string{"a": "1"}},
			Changes{Apply: true},
		},
		"should apply what a user has changed": {
			func() *corev1.Node { n := ownedNode([]string{"a"}, nil); n.Labels["a"] = "other"; return n },
			Desired{Labels: map[string]string{"a": "1"}},
			Changes{Apply: true},
		},
		"should remove what is owned and no longer desired": {
			func() *corev1.Node {
				n := ownedNode([]string{"a", "b"}, []string{"c"})
				n.Labels["a"], n.Labels["b"], n.Annotations["c"] = "1", "2", "3"
				return n
			},
			Desired{Labels: map[string]string{"a": "1"}},
			Changes{RemoveLabels: []string{"b"}, RemoveAnnotations: []string{"c"}},
		},
		"should leave what others put there": {
			func() *corev1.Node { n := ownedNode(nil, nil); n.Labels["theirs"] = "1"; return n },
			Desired{},
			Changes{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ChangesOf(test.node(), test.desired)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if got.Any() != (diffOf(test.want) != "") {
				t.Errorf("Any() = %t for %+v", got.Any(), got)
			}
		})
	}
}

func diffOf(c Changes) string { return cmp.Diff(Changes{}, c) }

// Claim: Taints follow, others' stay. Broken: taints of others are removed.
func TestChangesOfTaints(t *testing.T) {
	const no, exec = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	notReady := taint("node.kubernetes.io/not-ready", "", no)
	remembered := func(text string) map[string]string {
		return map[string]string{v1alpha1.NodeAppliedTaintsAnnotation: text}
	}
	tests := map[string]struct {
		annotations   map[string]string
		present, want []corev1.Taint
		desired       []corev1.Taint
		set           bool
		applied       string
	}{
		"should not touch a node without any taints of ours": {
			present: []corev1.Taint{notReady}, want: []corev1.Taint{notReady},
		},
		"should add to those of others and remember ours": {
			present: []corev1.Taint{notReady}, desired: []corev1.Taint{taint("a", "1", no)},
			want: []corev1.Taint{notReady, taint("a", "1", no)}, set: true, applied: `[{"key":"a","effect":"NoSchedule"}]`,
		},
		"should remember those that the kubelet registered with": {
			present: []corev1.Taint{taint("a", "1", no)}, desired: []corev1.Taint{taint("a", "1", no)},
			want: []corev1.Taint{taint("a", "1", no)}, set: true, applied: `[{"key":"a","effect":"NoSchedule"}]`,
		},
		"should be nothing when all is as it should be": {
			annotations: remembered(`[{"key":"a","effect":"NoSchedule"}]`),
			present:     []corev1.Taint{taint("a", "1", no), notReady}, desired: []corev1.Taint{taint("a", "1", no)},
			want: []corev1.Taint{taint("a", "1", no), notReady}, applied: `[{"key":"a","effect":"NoSchedule"}]`,
		},
		"should take away only ours when they are no longer desired": {
			annotations: remembered(`[{"key":"a","effect":"NoSchedule"}]`),
			present:     []corev1.Taint{taint("a", "1", no), taint("a", "1", exec), notReady},
			want:        []corev1.Taint{taint("a", "1", exec), notReady}, set: true, applied: `[]`,
		},
		"should put a changed value right": {
			annotations: remembered(`[{"key":"a","effect":"NoSchedule"}]`),
			present:     []corev1.Taint{taint("a", "theirs", no)}, desired: []corev1.Taint{taint("a", "1", no)},
			want: []corev1.Taint{taint("a", "1", no)}, set: true, applied: `[{"key":"a","effect":"NoSchedule"}]`,
		},
		"should take nothing away when its memory is broken": {
			annotations: remembered(`{`),
			present:     []corev1.Taint{taint("a", "1", no)}, desired: []corev1.Taint{taint("b", "", no)},
			want: []corev1.Taint{taint("a", "1", no), taint("b", "", no)}, set: true, applied: `[{"key":"b","effect":"NoSchedule"}]`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}, Spec: corev1.NodeSpec{Taints: test.present}}
			got, err := ChangesOf(node, Desired{Taints: test.desired})
			if err != nil {
				t.Fatal(err)
			}
			want := Changes{SetTaints: test.set, Taints: test.want, AppliedTaints: test.applied}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyHeartbeat(t *testing.T) {
	base := func() *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1", ResourceVersion: "5", Labels: map[string]string{"a": "1"}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Unix(1, 0)}}
		return n
	}
	tests := map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"the time of a heartbeat": {func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now())
			n.ResourceVersion = "6"
		}, true},
		"nothing":         {func(*corev1.Node) {}, true},
		"readiness":       {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, false},
		"a message":       {func(n *corev1.Node) { n.Status.Conditions[0].Message = "x" }, false},
		"a new condition": {func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{}) }, false},
		"a label":         {func(n *corev1.Node) { n.Labels["b"] = "2" }, false},
		"a taint":         {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }, false},
		"an address":      {func(n *corev1.Node) { n.Status.Addresses = []corev1.NodeAddress{{Address: "1"}} }, false},
		"the version":     {func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v2" }, false},
		"deletion":        {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
		"another node":    {func(n *corev1.Node) { n.UID = "2" }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			after := base()
			test.change(after)
			if got := OnlyHeartbeat(base(), after); got != test.want {
				t.Errorf("OnlyHeartbeat = %t, want %t", got, test.want)
			}
		})
	}
}
