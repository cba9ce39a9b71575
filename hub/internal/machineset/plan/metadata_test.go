package plan

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestUsableNamesWhatItLeavesOut(t *testing.T) {
	metadata := v1alpha1.TemplateMetadata{
		Labels:      map[string]string{"tier": "not valid!", "app": "x", v1alpha1.UpdateInPlaceLabel: "true"},
		Annotations: map[string]string{"my note": "n", "Note": "any value!", v1alpha1.DeleteMachineAnnotation: "yes"},
	}
	usable, problems := Usable(metadata)
	if !maps.Equal(usable.Labels, map[string]string{"app": "x"}) || !maps.Equal(usable.Annotations, map[string]string{"Note": "any value!"}) {
		t.Errorf("left are %v and %v", usable.Labels, usable.Annotations)
	}
	all := strings.Join(problems, "\n")
	for _, want := range []string{`metadata.labels["tier"]`, v1alpha1.UpdateInPlaceLabel, `metadata.annotations["my note"]`, v1alpha1.DeleteMachineAnnotation} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing is said of %s in\n%s", want, all)
		}
	}
	if len(metadata.Labels) != 3 || len(problems) != 4 {
		t.Errorf("the metadata was changed to %v, or not 4 problems: %q", metadata.Labels, problems)
	}
}

// Whatever a template says: what is left can be stored, and leaving it out once is enough.
func FuzzUsable(f *testing.F) {
	for _, seed := range [][2]string{
		{"app", "x"}, {"my note", "n"}, {"", ""}, {"tier", "not valid!"}, {"a/b/c", "d"}, {"-", "-"}, {"é", "é"},
		{strings.Repeat("k", 64), strings.Repeat("v", 64)}, {v1alpha1.UpdateInPlaceLabel, "true"}, {v1alpha1.TemplateKeysAnnotation, "{}"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		metadata := v1alpha1.TemplateMetadata{Labels: map[string]string{key: value}, Annotations: map[string]string{key: value}}
		usable, problems := Usable(metadata)
		for key, value := range usable.Labels {
			if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
				t.Errorf("label %q=%q is left", key, value)
			}
		}
		if left := 2 - len(usable.Labels) - len(usable.Annotations); left != len(problems) {
			t.Errorf("%d left out, and told: %q", left, problems)
		}
		if _, again := Usable(usable); len(again) > 0 {
			t.Errorf("still %q", again)
		}
	})
}
