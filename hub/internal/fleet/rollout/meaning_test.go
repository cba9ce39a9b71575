package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func rawText(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// fullContent has a value in every field of a template, none of which is the default, and two overrides.
func fullContent() *kept {
	k := &kept{}
	k.Metadata = v1alpha1.TemplateMetadata{Labels: map[string]string{"team": "x", "empty": ""}, Annotations: map[string]string{"a": "b"}}
	k.Spec = v1alpha1.MachineDeploymentTemplateSpec{
		Selector: v1alpha1.MachineSelector{MatchLabels: map[string]string{"app": "x"}},
		Strategy: v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{
			MaxSurge: new(intstr.FromString("20%")), MaxUnavailable: new(intstr.FromInt32(2)), SurgeGroup: "zones",
		}, InPlace: &v1alpha1.InPlaceUpdate{MaxUnavailable: new(intstr.FromInt32(3)), Trigger: v1alpha1.InPlaceManual}},
		MinReadySeconds: 7, ProgressDeadlineSeconds: new(int32(900)), RevisionHistoryLimit: new(int32(3)), DeletePolicy: "Newest",
		Remediation: v1alpha1.Remediation{MaxUnhealthy: new(intstr.FromInt32(2)), MaxInFlight: new(intstr.FromString("30%"))},
	}
	k.Spec.Template.Metadata = v1alpha1.TemplateMetadata{Labels: map[string]string{"app": "x", "tier": "1"}, Annotations: map[string]string{"c": "d"}}
	k.Spec.Template.Spec = v1alpha1.MachineTemplateBody{
		NodeMetadata: v1alpha1.NodeMetadata{Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"e": "f"}},
		Taints: []corev1.Taint{
			{Key: "one", Value: "1", Effect: corev1.TaintEffectNoSchedule}, {Key: "two", Effect: corev1.TaintEffectNoExecute}, {Key: "one", Effect: corev1.TaintEffectNoExecute},
		},
		Roles:                   []string{"worker", "gpu"},
		Versions:                v1alpha1.MachineVersions{Kubelet: "v1.36.2", ControlPlane: "v1.36.2", ContainerRuntime: &v1alpha1.ContainerRuntime{Name: "containerd", Version: "2.1.4"}},
		UnhealthyNodeConditions: []string{"KernelDeadlock", "DiskFull"},
		Timeouts: &v1alpha1.MachineTimeouts{
			Creation: &metav1.Duration{Duration: 90 * time.Second}, Health: &metav1.Duration{Duration: time.Minute}, Drain: &metav1.Duration{Duration: time.Hour},
		},
		ProviderConfig: v1alpha1.ProviderConfig{Value: rawText(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","capacity":{"cpu":"1","memory":"32Gi"},"maxPods":50}`)},
	}
	k.Overrides = []v1alpha1.MachineFleetOverride{
		{Name: "east", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "east", "env": "prod"}}, Template: rawText(`{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.36.1"}}}}}`)},
		{Name: "west", ClusterSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: []string{"west", "south"}}}}, Template: rawText(`{"spec":{"minReadySeconds":9}}`)},
	}
	return k
}

// copyContent goes through the text in which it is kept.
func copyContent(t TestingT, k *kept) *kept {
	text, err := json.Marshal(k)
	result := &kept{}
	if err != nil || json.Unmarshal(text, result) != nil {
		t.Fatalf("it cannot be kept")
	}
	return result
}

// TestingT is that of a test and of rapid.
type TestingT interface{ Fatalf(string, ...any) }

func body(k *kept) *v1alpha1.MachineTemplateBody { return &k.Spec.Template.Spec }

// respellings write the same in another way.
var respellings = map[string]func(*kept){
	"a version without v":    func(k *kept) { body(k).Versions.Kubelet = strings.TrimPrefix(body(k).Versions.Kubelet, "v") },
	"the provider":           func(k *kept) { body(k).ProviderConfig.Provider = v1alpha1.ProviderHollow },
	"roles in another order": func(k *kept) { slices.Reverse(body(k).Roles) },
	"conditions":             func(k *kept) { slices.Reverse(body(k).UnhealthyNodeConditions) },
	"taints":                 func(k *kept) { slices.Reverse(body(k).Taints) },
	"when taints were added": func(k *kept) {
		for i := range body(k).Taints {
			body(k).Taints[i].TimeAdded = &metav1.Time{Time: time.Unix(1, 0)}
		}
	},
	"overrides in another order": func(k *kept) { slices.Reverse(k.Overrides) },
	"the name of an override":    func(k *kept) { k.Overrides[0].Name += "x" },
	"an override's spelling": func(k *kept) {
		for i, override := range k.Overrides {
			if strings.Contains(string(override.Template.Raw), "v1.36.1") {
				k.Overrides[i].Template = rawText(`{"metadata":{"labels":{}},"spec":{"template":{"spec":{"versions":{"kubelet":"1.36.1"},"timeouts":{"creation":"1m30s"}}}}}`)
			}
		}
	},
	"a selector's spelling": func(k *kept) {
		for i, override := range k.Overrides {
			switch at := &k.Overrides[i].ClusterSelector; {
			case override.ClusterSelector.MatchLabels["zone"] == "east":
				*at = metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: []string{"east"}}}}
			case len(override.ClusterSelector.MatchExpressions) == 1 && len(override.ClusterSelector.MatchLabels) == 0:
				slices.Reverse(at.MatchExpressions[0].Values)
			}
		}
	},
	"percentages": func(k *kept) { k.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("020%")) },
	"quantities, key order and defaults": func(k *kept) {
		body(k).ProviderConfig.Value = rawText(`{"maxPods":50,"osImage":"Hollow Linux","startupDelay":"0s","kubelet":{},"podResources":null,"capacity":{"memory":"32768Mi","cpu":"1000m"},"kind":"HollowNodeConfig","apiVersion":"hollowfleet.io/v1alpha1"}`)
	},
}

// Edge case: A `timeAdded` in a template's taint changed MachineSets and Machines, and was a new revision of a fleet. Also: hub/internal/machinedeployment TestAnotherSpellingReplacesNothing.
func TestAnotherSpellingMeansTheSame(t *testing.T) {
	g := NewWithT(t)
	base := fullContent()
	wanted, err := meaningOf(base)
	g.Expect(err).NotTo(HaveOccurred())
	for what, change := range respellings {
		changed := copyContent(t, base)
		change(changed)
		g.Expect(changed).NotTo(Equal(base), what)
		g.Expect(changed.means(wanted)).To(BeTrue(), what)
	}
	// Defaults that the API server, or the controller, fills in.
	short, long := &kept{}, &kept{}
	for _, k := range []*kept{short, long} {
		k.Spec.Selector.MatchLabels, k.Spec.Template.Metadata.Labels = map[string]string{"app": "x"}, map[string]string{"app": "x"}
	}
	long.Metadata.Labels, body(long).NodeMetadata.Labels, body(long).Timeouts = map[string]string{}, map[string]string{}, &v1alpha1.MachineTimeouts{}
	long.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromString("0%"))}}
	long.Spec.ProgressDeadlineSeconds, long.Spec.RevisionHistoryLimit, long.Spec.DeletePolicy = new(int32(1800)), new(int32(10)), v1alpha1.DeleteOldest
	long.Spec.Remediation = v1alpha1.Remediation{MaxUnhealthy: new(intstr.FromString("40%")), MaxInFlight: new(intstr.FromInt32(1))}
	wanted, err = meaningOf(short)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(long.means(wanted)).To(BeTrue())
	// Of two taints that differ in their value only, the order may say which holds.
	body(short).Taints = []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}, {Key: "a", Value: "2", Effect: "NoSchedule"}}
	body(long).Taints = []corev1.Taint{{Key: "a", Value: "2", Effect: "NoSchedule"}, {Key: "a", Value: "1", Effect: "NoSchedule"}}
	wanted, err = meaningOf(short)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(long.means(wanted)).To(BeFalse())
}

// mutations are all single changes of a value: each leaf gets another value, each list and map loses and gains an entry.
func mutations(path string, v reflect.Value) map[string]func(reflect.Value) {
	all := map[string]func(reflect.Value){}
	below := func(name string, part reflect.Value, reach func(reflect.Value) reflect.Value) {
		for what, change := range mutations(path+name, part) {
			all[what] = func(v reflect.Value) { change(reach(v)) }
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			break
		}
		all[path+" unset"] = func(v reflect.Value) { v.SetZero() }
		below("", v.Elem(), reflect.Value.Elem)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[intstr.IntOrString]() {
			all[path+" other"] = func(v reflect.Value) { v.Set(reflect.ValueOf(intstr.FromInt32(17))) }
			break
		}
		for i := range v.NumField() {
			below("."+v.Type().Field(i).Name, v.Field(i), func(v reflect.Value) reflect.Value { return v.Field(i) })
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break // The provider's configuration is changed by hand.
		}
		all[path+" shorter"] = func(v reflect.Value) { v.Set(v.Slice(1, v.Len())) }
		for i := range v.Len() {
			below(fmt.Sprintf("[%d]", i), v.Index(i), func(v reflect.Value) reflect.Value { return v.Index(i) })
		}
	case reflect.Map:
		all[path+" more"] = func(v reflect.Value) { v.SetMapIndex(reflect.ValueOf("added"), reflect.ValueOf("")) }
		for _, key := range v.MapKeys() {
			all[fmt.Sprintf("%s[%s] gone", path, key)] = func(v reflect.Value) { v.SetMapIndex(key, reflect.Value{}) }
			all[fmt.Sprintf("%s[%s] changed", path, key)] = func(v reflect.Value) { v.SetMapIndex(key, reflect.ValueOf("other")) }
		}
	case reflect.String:
		all[path] = func(v reflect.Value) { v.SetString(v.String() + "1") }
	case reflect.Int32, reflect.Int64:
		all[path] = func(v reflect.Value) { v.SetInt(v.Int() + 1) }
	}
	return all
}

// realEdits are those that cannot be made field by field.
var realEdits = map[string]func(*kept){
	"capacity":         func(k *kept) { replaceConfig(k, `32`, `33`) },
	"another kind":     func(k *kept) { replaceConfig(k, `HollowNodeConfig`, `OtherConfig`) },
	"an unknown field": func(k *kept) { replaceConfig(k, `{`, `{"unknown":1,`) },
	"a default less": func(k *kept) {
		body(k).ProviderConfig.Value = rawText(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)
	},
	"a class": func(k *kept) {
		body(k).ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "x"}}
	},
	"another provider":  func(k *kept) { body(k).ProviderConfig.Provider = "other" },
	"one override less": func(k *kept) { k.Overrides = k.Overrides[1:] },
	"one override more": func(k *kept) {
		k.Overrides = append(k.Overrides, v1alpha1.MachineFleetOverride{Name: "z", Template: rawText(`{"spec":{"minReadySeconds":1}}`)})
	},
	"an override twice": func(k *kept) { k.Overrides = append(k.Overrides, k.Overrides[0]) },
	"an override's version": func(k *kept) {
		k.Overrides[0].Template = rawText(`{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.36.3"}}}}}`)
	},
	"an override's cluster": func(k *kept) {
		k.Overrides[0].ClusterSelector.MatchLabels = map[string]string{"zone": "east", "env": "test"}
	},
	"an override's clusters negated": func(k *kept) {
		k.Overrides[0].ClusterSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "zone", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"east"}}, {Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"prod"}},
		}}
	},
	"an override that chooses all": func(k *kept) { k.Overrides[0].ClusterSelector = metav1.LabelSelector{} },
	"two overrides' templates": func(k *kept) {
		k.Overrides[0].Template, k.Overrides[1].Template = k.Overrides[1].Template, k.Overrides[0].Template
	},
}

func replaceConfig(k *kept, old, now string) {
	body(k).ProviderConfig.Value = rawText(strings.Replace(string(body(k).ProviderConfig.Value.Raw), old, now, 1))
}

// TestNoRealChangeIsTakenForASpelling makes every single change there is, also of templates that are written in other ways.
// Claim: No real change is taken for a spelling. Broken: taints are left out of the meaning.
func TestNoRealChangeIsTakenForASpelling(t *testing.T) {
	base := fullContent()
	wanted, err := meaningOf(base)
	if err != nil {
		t.Fatal(err)
	}
	edits := maps.Clone(realEdits)
	for what, change := range mutations("", reflect.ValueOf(&base.MachineDeploymentTemplate).Elem()) {
		edits[what] = func(k *kept) { change(reflect.ValueOf(&k.MachineDeploymentTemplate).Elem()) }
	}
	for what, change := range edits {
		changed := copyContent(t, base)
		change(changed)
		if changed.means(wanted) {
			t.Errorf("%s is taken for a spelling", what)
		}
	}
	if len(edits) < 70 {
		t.Errorf("only %d changes are tried", len(edits))
	}
	names, spelled := slices.Sorted(maps.Keys(edits)), slices.Sorted(maps.Keys(respellings))
	rapid.Check(t, func(t *rapid.T) {
		changed := copyContent(t, base)
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(spelled), 0, 4).Draw(t, "spellings") {
			respellings[name](changed)
		}
		if !changed.means(wanted) {
			t.Fatal("a spelling is taken for a change")
		}
		edits[rapid.SampledFrom(names).Draw(t, "edit")](changed)
		if changed.means(wanted) {
			t.Fatal("a change is taken for a spelling")
		}
	})
}
