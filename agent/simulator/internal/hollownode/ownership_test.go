package hollownode

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAPatchOfTheStatusNamesTheNodeThatIsThisKubelets(t *testing.T) {
	r := newRegistration(nil, "hollow://c1/n1", func(types.UID) {})
	if got, err := r.bindPatch([]byte(`{"status":{}}`)); err != nil || string(got) != `{"status":{}}` {
		t.Errorf("before the Node is known: %s, %v", got, err)
	}
	node := &corev1.Node{}
	node.Spec.ProviderID, node.UID = "hollow://c1/n1", "u1"
	if err := r.checkNode(node); err != nil {
		t.Fatal(err)
	}
	other := &corev1.Node{}
	other.UID = "u2"
	for range 2 { // The second finding must not wait for the first one to be read.
		if r.checkNode(other) == nil {
			t.Error("a Node without a provider ID was registered by another machine")
		}
	}
	if err := <-r.lost; err == nil {
		t.Error("the process does not end")
	}
	for patch, want := range map[string]string{
		`{"status":{"a":1}}`: `{"metadata":{"uid":"u1"},"status":{"a":1}}`,
		`{"metadata":{"annotations":{"a":"b"}},"status":{"$setElementOrder/conditions":[]}}`: `{"metadata":{"annotations":{"a":"b"},"uid":"u1"},"status":{"$setElementOrder/conditions":[]}}`,
		`{"metadata":null}`: `{"metadata":{"uid":"u1"}}`,
	} {
		if got, err := r.bindPatch([]byte(patch)); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v", patch, got, err)
		}
	}
	for _, patch := range []string{`[]`, `{"metadata":1}`, ``} {
		if _, err := r.bindPatch([]byte(patch)); err == nil {
			t.Errorf("%q was taken for a patch", patch)
		}
	}
}
