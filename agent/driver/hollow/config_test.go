package hollow

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const head = `"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"`

// Claim: Refused: unknown configuration fields. Broken: unknown fields skipped.
func TestDecodeRefuses(t *testing.T) {
	tests := map[string]struct{ config, want string }{
		"no object":     {`[]`, "c: not a JSON object: write a HollowNodeConfig"},
		"null":          {`null`, "c: not a JSON object: write a HollowNodeConfig"},
		"a broken text": {`{`, "c: not a JSON object: write a HollowNodeConfig"},
		// Edge case: A missing apiVersion was told `got ""`.
		"no apiVersion":               {`{"kind":"HollowNodeConfig"}`, `c.apiVersion: missing: write apiVersion: hollowfleet.io/v1alpha1 and kind: HollowNodeConfig`},
		"no kind":                     {`{"apiVersion":"hollowfleet.io/v1alpha1"}`, `c.kind: missing: write apiVersion: hollowfleet.io/v1alpha1 and kind: HollowNodeConfig`},
		"another version":             {`{"apiVersion":"hollowfleet.io/v2","kind":"HollowNodeConfig"}`, `c.apiVersion: want "hollowfleet.io/v1alpha1", got "hollowfleet.io/v2"`},
		"another kind":                {`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"Machine"}`, `c.kind: want "HollowNodeConfig", got "Machine"`},
		"an unknown field":            {`{` + head + `,"maxpods":5}`, "c.maxpods: unknown field: HollowNodeConfig has apiVersion, capacity, csiDrivers, devices, healthyDuration, hollowTaint, imagePull, kind, kubelet, maxPods, osImage, podResources, probes, profile, registration, startupDelay, staticPods, terminationPercent, turnUnhealthyAfter, turnUnhealthyPeriodically, unhealthyDuration"},
		"maxPods as text":             {`{` + head + `,"maxPods":"5"}`, `c.maxPods: want a whole number from 1 to 1000, got "5"`},
		"maxPods with a fraction":     {`{` + head + `,"maxPods":5.5}`, "c.maxPods: want a whole number from 1 to 1000, got 5.5"},
		"maxPods 0":                   {`{` + head + `,"maxPods":0}`, "c.maxPods: want a whole number from 1 to 1000, got 0"},
		"maxPods 1001":                {`{` + head + `,"maxPods":1001}`, "c.maxPods: want a whole number from 1 to 1000, got 1001"},
		"osImage as number":           {`{` + head + `,"osImage":7}`, "c.osImage: want a text of at most 128 bytes, got 7"},
		"startupDelay as number":      {`{` + head + `,"startupDelay":30}`, `c.startupDelay: want a duration such as "30s", from 0s to 24h, got 30`},
		"startupDelay without unit":   {`{` + head + `,"startupDelay":"30"}`, `c.startupDelay: want a duration such as "30s", from 0s to 24h, got "30"`},
		"a negative startupDelay":     {`{` + head + `,"startupDelay":"-1s"}`, `c.startupDelay: want a duration such as "30s", from 0s to 24h, got "-1s"`},
		"a startupDelay of days":      {`{` + head + `,"startupDelay":"25h"}`, `c.startupDelay: want a duration such as "30s", from 0s to 24h, got "25h"`},
		"capacity as list":            {`{` + head + `,"capacity":["cpu"]}`, `c.capacity: want quantities by name such as {"cpu": "4"}, got ["cpu"]`},
		"pods in capacity":            {`{` + head + `,"capacity":{"pods":"5"}}`, "c.capacity.pods: not allowed here: set the number of pods with maxPods"},
		"an unknown resource":         {`{` + head + `,"capacity":{"gpu":"1"}}`, "c.capacity.gpu: unknown resource: want cpu, memory, ephemeral-storage or an extended resource such as example.com/gpu"},
		"a resource of kubernetes.io": {`{` + head + `,"capacity":{"kubernetes.io/x":"1"}}`, "c.capacity.kubernetes.io/x: unknown resource: want cpu, memory, ephemeral-storage or an extended resource such as example.com/gpu"},
		"no quantity":                 {`{` + head + `,"capacity":{"cpu":"four"}}`, `c.capacity.cpu: not a quantity: write it as "4" or "16Gi", got "four"`},
		// Edge case: A costly quantity in a provider configuration.
		"a costly quantity":        {`{` + head + `,"capacity":{"cpu":"1e-2000000000"}}`, `c.capacity.cpu: not a quantity: write it as "4" or "16Gi", got "1e-2000000000"`},
		"a list as quantity":       {`{` + head + `,"capacity":{"memory":[1]}}`, `c.capacity.memory: not a quantity: write it as "4" or "16Gi", got [1]`},
		"a negative quantity":      {`{` + head + `,"capacity":{"cpu":"-1"}}`, `c.capacity.cpu: negative: want 0 or more, got "-1"`},
		"half a GPU":               {`{` + head + `,"capacity":{"example.com/gpu":"500m"}}`, `c.capacity.example.com/gpu: an extended resource is counted in whole numbers, got "500m"`},
		"a negative pod request":   {`{` + head + `,"podResources":{"memory":"-1Mi"}}`, `c.podResources.memory: negative: want 0 or more, got "-1Mi"`},
		"a duration below 0":       {`{` + head + `,"healthyDuration":"-1s"}`, `c.healthyDuration: want a duration such as "30s", from 0s to 720h, got "-1s"`},
		"a failure of no length":   {`{` + head + `,"unhealthyDuration":"0s"}`, `c.unhealthyDuration: want a duration such as "30s", from 1s to 720h, got "0s"`},
		"a word for a truth value": {`{` + head + `,"turnUnhealthyAfter":"yes"}`, `c.turnUnhealthyAfter: want true or false, got "yes"`},
		"a GPU for the pod":        {`{` + head + `,"podResources":{"example.com/gpu":"1"}}`, "c.podResources.example.com/gpu: unknown resource: a hollow-node pod can ask for cpu, memory, ephemeral-storage"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decodeConfig(&runtime.RawExtension{Raw: []byte(test.config)}, "c")
			if !errors.Is(err, driver.ErrInvalidConfiguration) || err.Error() != test.want {
				t.Errorf("decode:\n got %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	full := `{` + head + `,"capacity":{"cpu":8,"memory":"32Gi","example.com/gpu":"4"},"maxPods":250,"osImage":"Other","startupDelay":"1m30s","podResources":{"cpu":"50m"}}`
	got, err := decodeConfig(&runtime.RawExtension{Raw: []byte(full)}, "c")
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.HollowNodeConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: "hollowfleet.io/v1alpha1", Kind: "HollowNodeConfig"},
		Capacity: corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "example.com/gpu": resource.MustParse("4")},
		MaxPods:  ptr.To[int32](250), OSImage: "Other", StartupDelay: &metav1.Duration{Duration: 90 * time.Second},
		PodResources: corev1.ResourceList{"cpu": resource.MustParse("50m")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, raw := range map[string]*runtime.RawExtension{"nothing": nil, "an empty text": {}} {
		if got, err := decodeConfig(raw, "c"); err != nil || !cmp.Equal(got, v1alpha1.HollowNodeConfig{}) {
			t.Errorf("%s: got %+v, %v, want the defaults", name, got, err)
		}
	}
}
