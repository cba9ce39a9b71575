package plan

import (
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Users and cluster-autoscaler write these annotations on Machines.
func FuzzAnnotations(f *testing.F) {
	f.Add("2026-01-31 10:00:00.123456 +0000 UTC m=+1.5", `{"labels":["a"],"annotations":["b"]}`)
	f.Add("2026-01-31T10:00:00Z", "{}")
	f.Add("true", "[]")
	f.Add(" m=", "{\"labels\":{}}")
	f.Fuzz(func(t *testing.T, mark, keys string) {
		if at, ok := MarkTime(mark); !ok && !at.Equal(time.Time{}) {
			t.Errorf("%q is not a time, and is %s", mark, at)
		}
		machine := &v1alpha1.Machine{}
		machine.Labels = map[string]string{"kept": "yes"}
		machine.Annotations = map[string]string{v1alpha1.TemplateKeysAnnotation: keys, v1alpha1.DeleteMachineAnnotation: mark}
		template := Template{}
		template.Give(machine)
		if !template.Reached(machine) {
			t.Errorf("keys %q: the machine does not have what it was given", keys)
		}
	})
}
