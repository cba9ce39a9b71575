package node

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestValidate(t *testing.T) {
	labels := func(key, value string) func(*v1alpha1.Machine) {
		return func(m *v1alpha1.Machine) { m.Spec.NodeMetadata.Labels = map[string]string{key: value} }
	}
	taints := func(taints ...corev1.Taint) func(*v1alpha1.Machine) {
		return func(m *v1alpha1.Machine) { m.Spec.Taints = taints }
	}
	const no = corev1.TaintEffectNoSchedule
	tests := map[string]struct {
		change func(*v1alpha1.Machine)
		// want is the beginning of the message; empty means valid.
		want string
	}{
		"nothing special":    {func(*v1alpha1.Machine) {}, ""},
		"a label":            {labels("example.com/a", "b"), ""},
		"a restricted label": {labels("node-restriction.kubernetes.io/a", "b"), ""},
		"a bad label key":    {labels("a b", "c"), "spec.metadata.labels.a b: no valid key: "},
		"a bad label value":  {labels("a", "b c"), "spec.metadata.labels.a: no label value: "},
		"a reserved label":   {labels("hollowfleet.io/hollow", "false"), "spec.metadata.labels.hollowfleet.io/hollow: reserved: the agent sets it itself; remove it"},
		"a long label value": {labels("a", strings.Repeat("x", 64)), "spec.metadata.labels.a: no label value: "},
		"a bad annotation":   {func(m *v1alpha1.Machine) { m.Spec.NodeMetadata.Annotations = map[string]string{"a//b": ""} }, "spec.metadata.annotations.a//b: no valid key: "},
		"our annotation": {func(m *v1alpha1.Machine) {
			m.Spec.NodeMetadata.Annotations = map[string]string{"hollowfleet.io/machine": "x"}
		}, "spec.metadata.annotations.hollowfleet.io/machine: reserved: "},
		"taints":               {taints(taint("a", "1", no), taint("a", "1", corev1.TaintEffectNoExecute)), ""},
		"a taint twice":        {taints(taint("a", "1", no), taint("a", "2", no)), "spec.taints: a:NoSchedule is listed twice"},
		"a bad effect":         {taints(taint("a", "1", "Never")), `spec.taints: effect "Never" of key "a": want NoSchedule, PreferNoSchedule or NoExecute`},
		"no effect":            {taints(taint("a", "1", "")), `spec.taints: effect "" of key "a"`},
		"a bad taint key":      {taints(taint("", "1", no)), `spec.taints: key ""`},
		"a bad value of taint": {taints(taint("a", "x y", no)), `spec.taints: value "x y" of key "a"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := &v1alpha1.Machine{}
			test.change(machine)
			err := Validate(machine)
			if test.want == "" {
				if err != nil {
					t.Errorf("Validate: %v", err)
				}
				return
			}
			if !errors.Is(err, driver.ErrInvalidConfiguration) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("Validate = %v, want an invalid configuration that starts with %q", err, test.want)
			}
		})
	}
}
