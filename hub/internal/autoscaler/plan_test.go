package autoscaler

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func class(provider, config string, capacity map[string]string) *v1alpha1.MachineClass {
	c := &v1alpha1.MachineClass{Spec: v1alpha1.MachineClassSpec{Provider: provider}}
	if config != "" {
		c.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(config)}
	}
	if capacity != nil {
		c.Spec.NodeTemplate = &v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{}}
		for name, quantity := range capacity {
			c.Spec.NodeTemplate.Capacity[corev1.ResourceName(name)] = resource.MustParse(quantity)
		}
	}
	return c
}

func byClass() v1alpha1.MachineTemplateBody {
	return v1alpha1.MachineTemplateBody{ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "c"}}}
}

func TestAnnotationsDescribeANode(t *testing.T) {
	rich := byClass()
	rich.NodeMetadata.Labels = map[string]string{"zone": "a", "empty": ""}
	rich.Roles = []string{"worker"}
	rich.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}, {Key: "bare", Effect: corev1.TaintEffectNoExecute}}
	tests := map[string]struct {
		in   Input
		want map[string]string
	}{
		"class of another provider": {
			Input{Template: byClass(), Class: class("other", `{"capacity":{"cpu":"64"}}`, map[string]string{"cpu": "4", "memory": "16Gi"})},
			map[string]string{capacityCPU: "4", capacityMemory: "16Gi"},
		},
		"all resources": {
			Input{Template: byClass(), Class: class("other", "", map[string]string{
				"cpu": "3500m", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "250", "example.com/gpu": "4", "example.com/fpga": "1",
			})},
			map[string]string{capacityCPU: "3500m", capacityMemory: "16Gi", capacityDisk: "100Gi", capacityMaxPods: "250", capacityGPUType: "example.com/gpu", capacityGPUCount: "4"},
		},
		"labels, roles and taints": {
			Input{Template: rich, Class: class("other", "", nil), Annotations: map[string]string{
				v1alpha1.AutoscalerCapacityPrefix + capacityCPU: "1", v1alpha1.AutoscalerCapacityPrefix + capacityMemory: "1Gi",
			}},
			map[string]string{capacityLabels: "empty=,node-role.kubernetes.io/worker=,zone=a", capacityTaints: "k=v:NoSchedule,bare:NoExecute"},
		},
		"hollow: its devices": {
			Input{Template: byClass(), Class: class(v1alpha1.ProviderHollow, `{"devices":[{"resource":"example.com/gpu","count":8}]}`, map[string]string{"cpu": "4", "memory": "16Gi"})},
			map[string]string{capacityCPU: "4", capacityMemory: "16Gi", capacityGPUType: "example.com/gpu", capacityGPUCount: "8", capacityLabels: "hollowfleet.io/hollow=true"},
		},
		"hollow: its configuration has the last word": {
			Input{Template: byClass(), Class: class("hollow", `{"capacity":{"cpu":"8"},"maxPods":30}`, map[string]string{"cpu": "4", "memory": "16Gi", "pods": "10"})},
			map[string]string{capacityCPU: "8", capacityMemory: "16Gi", capacityMaxPods: "30", capacityLabels: "hollowfleet.io/hollow=true"},
		},
		"kwok: read alike, with a label of its own": {
			Input{Template: byClass(), Class: class("kwok", `{"capacity":{"cpu":"8"},"maxPods":30}`, map[string]string{"cpu": "4", "memory": "16Gi"})},
			map[string]string{capacityCPU: "8", capacityMemory: "16Gi", capacityMaxPods: "30", capacityLabels: "hollowfleet.io/hollow=kwok"},
		},
		"hollow without class": {
			Input{Template: v1alpha1.MachineTemplateBody{ProviderConfig: v1alpha1.ProviderConfig{
				Value: &runtime.RawExtension{Raw: []byte(`{"capacity":{"cpu":"2","memory":"1Gi"}}`)},
			}}},
			map[string]string{capacityCPU: "2", capacityMemory: "1Gi", capacityLabels: "hollowfleet.io/hollow=true"},
		},
		"a configuration that cannot be read": {
			Input{Template: byClass(), Class: class("hollow", `{"capacity":`, map[string]string{"cpu": "4", "memory": "1Gi"})},
			map[string]string{capacityCPU: "4", capacityMemory: "1Gi", capacityLabels: "hollowfleet.io/hollow=true"},
		},
		// Edge case: A costly quantity kept the hub busy.
		"a quantity that would take hours to parse": {
			Input{Template: byClass(), Class: class("hollow", `{"capacity":{"cpu":"1e-2000000000"}}`, map[string]string{"cpu": "4", "memory": "1Gi"})},
			map[string]string{capacityCPU: "4", capacityMemory: "1Gi", capacityLabels: "hollowfleet.io/hollow=true"},
		},
		"no memory, and so nothing": {
			Input{Template: rich, Class: class("hollow", "", map[string]string{"cpu": "4"})}, map[string]string{},
		},
		"nothing of nothing": {Input{Template: byClass(), Class: class("other", "", map[string]string{"cpu": "0"})}, map[string]string{}},
		"what a kubelet reserves is not there for pods": {
			Input{Template: byClass(), Class: class("hollow", `{"capacity":{"cpu":"8"},"maxPods":30}`, map[string]string{"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi"}),
				Kubelet: readKubelet("maxPods: 50\npodsPerCore: 5\nkubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {memory: 1Gi}\nevictionHard: {memory.available: 25%, nodefs.available: 10%}\n")},
			map[string]string{capacityCPU: "7500m", capacityMemory: "10Gi", capacityDisk: "90Gi", capacityMaxPods: "40", capacityLabels: "hollowfleet.io/hollow=true"},
		},
		"a kubelet configuration that cannot be read": {
			Input{Template: byClass(), Class: class("other", "", map[string]string{"cpu": "4", "memory": "16Gi"}), Kubelet: readKubelet("kubeReserved: {cpu: &a x}")},
			map[string]string{capacityCPU: "4", capacityMemory: "16Gi"},
		},
		"one that reserves more than there is": {
			Input{Template: byClass(), Class: class("other", "", map[string]string{"cpu": "4", "memory": "16Gi"}), Kubelet: readKubelet("kubeReserved: {cpu: 5}")},
			map[string]string{capacityCPU: "4", capacityMemory: "16Gi"},
		},
		"a class that is not there": {Input{Template: byClass()}, map[string]string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(test.in).Annotations
			delete(got, v1alpha1.AutoscalingHashAnnotation)
			want := map[string]string{}
			for key, value := range test.want {
				want[v1alpha1.AutoscalerCapacityPrefix+key] = value
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWritesOnlyWhatChangedAndLeavesUsersTheirOwn(t *testing.T) {
	in := Input{Template: byClass(), Class: class("other", "", map[string]string{"cpu": "4", "memory": "16Gi"})}
	first := Decide(in)
	with := func(key, value string) Input {
		next := in
		next.Annotations = maps.Clone(first.Annotations)
		if next.Annotations[key] = value; value == "" {
			delete(next.Annotations, key)
		}
		return next
	}
	const key = v1alpha1.AutoscalerCapacityPrefix + capacityCPU
	held := with("x", "y")
	held.Held = true
	larger := with("x", "y")
	larger.Class = class("other", "", map[string]string{"cpu": "8", "memory": "16Gi"})
	gone := with("x", "y")
	gone.Class = nil
	tests := map[string]struct {
		in    Input
		write bool
	}{
		"at first":                 {in, true},
		"not when it is there":     {with("other", "x"), false},
		"not over a user's value":  {with(key, "2"), false},
		"when one was taken away":  {with(key, ""), true},
		"when the class changed":   {larger, true},
		"when the class is gone":   {gone, true},
		"when it is held":          {held, true},
		"never what was never due": {Input{Template: byClass(), Annotations: map[string]string{key: "1"}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Decide(test.in); got.Write != test.write {
				t.Errorf("write is %v, want %v: %v", got.Write, test.write, got.Annotations)
			}
		})
	}
	if p := Decide(held); p.Annotations[v1alpha1.AutoscalerPausedAnnotation] == "" {
		t.Error("nothing keeps cluster-autoscaler away")
	}
}
