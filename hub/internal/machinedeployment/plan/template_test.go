package plan

import (
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func template(config string) v1alpha1.MachineTemplate {
	return v1alpha1.MachineTemplate{
		Metadata: v1alpha1.TemplateMetadata{Labels: map[string]string{"app": "x"}},
		Spec: v1alpha1.MachineTemplateBody{
			Versions:       v1alpha1.MachineVersions{Kubelet: "v1.36.2"},
			ProviderConfig: v1alpha1.ProviderConfig{Provider: "hollow", Value: &runtime.RawExtension{Raw: []byte(config)}},
		},
	}
}

func same(t *testing.T, a, b v1alpha1.MachineTemplate) bool {
	t.Helper()
	same, err := SameTemplate(a, b)
	if err != nil {
		t.Fatal(err)
	}
	one, err := Hash(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Hash(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	if same != (one == other) {
		t.Errorf("same is %t but the hashes are %s and %s", same, one, other)
	}
	return same
}

func TestSameTemplate(t *testing.T) {
	base := template(`{"a":1,"b":{"c":2,"d":9007199254740993}}`)
	if !same(t, base, template(`{ "b": {"d":9007199254740993, "c":2}, "a":1 }`)) {
		t.Error("the order of keys makes a difference")
	}
	if same(t, base, template(`{"a":1,"b":{"c":2,"d":9007199254740992}}`)) {
		t.Error("a number that differs beyond 53 bits makes no difference")
	}
	hashed := *base.DeepCopy()
	hashed.Metadata.Labels[v1alpha1.MachineTemplateHashLabel] = "abc"
	if !same(t, base, hashed) {
		t.Error("the hash label makes a difference")
	}
	if hashed.Metadata.Labels[v1alpha1.MachineTemplateHashLabel] != "abc" {
		t.Error("comparing changed the template")
	}
	if !same(t, base, dressed(base)) {
		t.Error("what needs no replacement makes a difference")
	}
	newer := *base.DeepCopy()
	newer.Spec.Versions.Kubelet = "v1.37.0"
	if same(t, base, newer) {
		t.Error("the kubelet version makes no difference")
	}
	demanding := *base.DeepCopy()
	demanding.Spec.RequireVersionCode = true
	if same(t, base, demanding) {
		t.Error("the demand for its code makes no difference: all Machines would be updated at once")
	}
}

// dressed has all that needs no replacement changed.
func dressed(base v1alpha1.MachineTemplate) v1alpha1.MachineTemplate {
	other := *base.DeepCopy()
	other.Metadata = v1alpha1.TemplateMetadata{Labels: map[string]string{"app": "x", "a": "b"}, Annotations: map[string]string{"c": "d"}}
	other.Spec.NodeMetadata = v1alpha1.NodeMetadata{Labels: map[string]string{"e": "f"}}
	other.Spec.Taints = []corev1.Taint{{Key: "g", Effect: corev1.TaintEffectNoSchedule}}
	other.Spec.Roles = []string{"worker"}
	other.Spec.Timeouts = &v1alpha1.MachineTimeouts{Health: &metav1.Duration{Duration: time.Minute}}
	other.Spec.UnhealthyNodeConditions = []string{"KernelDeadlock"}
	return other
}

func TestPropagate(t *testing.T) {
	base := template(`{"a":1}`)
	base.Metadata.Labels = map[string]string{"app": "x", "old": "y", "tier": "z", v1alpha1.MachineTemplateHashLabel: "abc"}
	wanted := dressed(template(`{ "a" : 2 }`))
	wanted.Spec.Versions.Kubelet = "v1.99.0"
	before := base.DeepCopy()
	got := Propagate(base, wanted, map[string]string{"tier": "z"})
	want := wanted.DeepCopy()
	want.Metadata.Labels = map[string]string{"app": "x", "a": "b", "tier": "z", v1alpha1.MachineTemplateHashLabel: "abc"}
	want.Spec.Versions, want.Spec.ProviderConfig = base.Spec.Versions, base.Spec.ProviderConfig
	if !equality.Semantic.DeepEqual(&got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !equality.Semantic.DeepEqual(&base, before) || wanted.Metadata.Labels["tier"] != "" {
		t.Error("the templates that were given have changed")
	}
}

func TestHashIsAName(t *testing.T) {
	base := template(`{"a":1}`)
	seen := map[string]bool{}
	for collisions := range int32(20) {
		hash, err := Hash(base, collisions)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^[a-z0-9]{1,10}$`).MatchString(hash) {
			t.Errorf("%q is not a part of a name", hash)
		}
		seen[hash] = true
	}
	if len(seen) != 20 {
		t.Errorf("20 collisions gave %d hashes", len(seen))
	}
}

func TestBrokenTemplateIsAnError(t *testing.T) {
	if _, err := Hash(template(`{"a":`), 0); err == nil {
		t.Error("broken JSON has a hash")
	}
}
