package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func annotations(machine, namespace string) map[string]string {
	return map[string]string{v1alpha1.NodeMachineAnnotation: machine, v1alpha1.NodeClusterNamespaceAnnotation: namespace}
}

func TestIsOf(t *testing.T) {
	const own = "hollowfleet://c1/m1"
	told, untold := []string{own}, []string{UnknownProviderID}
	tests := map[string]struct {
		name, providerID string
		annotations      map[string]string
		drivers          []string
		want             bool
	}{
		"should be ours when it has just registered":                                {"m1", own, nil, told, true},
		"should be ours when the agent has written to it":                           {"m1", own, annotations("m1", "c1"), told, true},
		"should be ours when a user removed one annotation":                         {"m1", own, map[string]string{v1alpha1.NodeMachineAnnotation: "m1"}, told, true},
		"should not be ours by annotations without a provider ID":                   {"m1", "", annotations("m1", "c1"), told, false},
		"should not be ours without any sign":                                       {"m1", "", nil, told, false},
		"should not be ours with another's provider ID":                             {"m1", "hollowfleet://c2/m1", nil, told, false},
		"should not be ours with another's provider ID, but annotations":            {"m1", "aws:///i-1", annotations("m1", "c1"), told, false},
		"should not be ours with another name":                                      {"m2", own, nil, told, false},
		"should not be ours with the annotations of another machine":                {"m1", own, annotations("m2", "c1"), told, false},
		"should not be ours with the annotations of another cluster":                {"m1", own, annotations("m1", "c2"), told, false},
		"should be ours by annotations when the driver cannot tell":                 {"m1", "aws:///i-1", annotations("m1", "c1"), untold, true},
		"should not be ours without annotations when the driver cannot tell":        {"m1", "aws:///i-1", nil, untold, false},
		"should not be ours without a provider ID even when the driver cannot tell": {"m1", "", annotations("m1", "c1"), untold, false},
		"should not be ours when no driver was asked":                               {"m1", own, annotations("m1", "c1"), nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := &v1alpha1.Machine{}
			machine.Namespace, machine.Name = "c1", "m1"
			machine.Spec.ProviderID = new("aws:///i-1") // what users can write proves nothing
			node := &corev1.Node{}
			node.Name, node.Annotations, node.Spec.ProviderID = test.name, test.annotations, test.providerID
			if got := IsOf(node, machine, test.drivers); got != test.want {
				t.Errorf("IsOf = %t, want %t", got, test.want)
			}
		})
	}
}

func TestConflictMessage(t *testing.T) {
	const own, remedy = "hollowfleet://c1/m1", "delete the Machine and create it with another name, or delete the Node"
	for name, test := range map[string]struct {
		providerID  string
		annotations map[string]string
		want        string
	}{
		"should name another provider ID":            {"aws:///i-1", nil, `its provider ID is "aws:///i-1"`},
		"should say that it has none":                {"", nil, "it has no provider ID"},
		"should name the machine that it is tied to": {own, annotations("m2", "c2"), `it belongs to machine "m2" of namespace "c2"`},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{}
			node.Name, node.Annotations, node.Spec.ProviderID = "m1", test.annotations, test.providerID
			got := ConflictMessage(node, []string{own})
			for _, part := range []string{`a Node named "m1" exists and does not belong to this Machine`, test.want, remedy} {
				if !strings.Contains(got, part) {
					t.Errorf("%q does not say %q", got, part)
				}
			}
		})
	}
}
