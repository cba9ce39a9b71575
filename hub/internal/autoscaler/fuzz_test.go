package autoscaler

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Users write provider configurations and annotations; a plan that is carried out must not be followed by another one.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(`{"capacity":{"cpu":"4","example.com/gpu":"2"},"maxPods":30}`), "cpu", "8", "mztfzo44a8at")
	f.Add([]byte(`{"capacity":{"cpu":"1e-2000000000"}}`), "memory", "", "")
	f.Add([]byte(`{"capacity":{"cpu":1e99,"pods":"-1","gpu/gpu":"1e30"}}`), "", "x", "\xff")
	f.Fuzz(func(t *testing.T, raw []byte, name, value, hash string) {
		in := Input{Annotations: map[string]string{
			v1alpha1.AutoscalerCapacityPrefix + name: value, v1alpha1.AutoscalingHashAnnotation: hash,
		}}
		in.Template.ProviderConfig.Value = &runtime.RawExtension{Raw: raw}
		first := Decide(in)
		if !first.Write {
			return
		}
		// What the hub wrote before is taken away, and what users wrote under other names stays.
		maps.Copy(in.Annotations, first.Annotations)
		if again := Decide(in); again.Write && !maps.Equal(again.Annotations, first.Annotations) {
			t.Errorf("%q: first %q, then %q", raw, first.Annotations, again.Annotations)
		}
	})
}
