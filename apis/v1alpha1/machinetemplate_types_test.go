package v1alpha1_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A field that is added to the template is taken over, unless it is named here.
var needsReplacement = []string{"Versions", "RequireVersionCode", "ConfigSource", "ProviderConfig"}

func TestEachFieldOfATemplateIsTakenOverOrNeedsReplacement(t *testing.T) {
	kind := reflect.TypeFor[v1alpha1.MachineTemplateBody]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		t.Run(name, func(t *testing.T) {
			var from, to v1alpha1.MachineTemplateBody
			fill(t, reflect.ValueOf(&from).Elem().Field(i))
			replaced := slices.Contains(needsReplacement, name)
			if same := to.HasTakenOver(&from); same != replaced {
				t.Errorf("before: has taken over: %t", same)
			}
			to.TakeOver(&from)
			if taken := !reflect.ValueOf(to).Field(i).IsZero(); taken == replaced {
				t.Errorf("taken over: %t", taken)
			}
			if !to.HasTakenOver(&from) {
				t.Error("after: has not taken over")
			}
			to = from
			to.TakeOver(&v1alpha1.MachineTemplateBody{})
			if left := !reflect.ValueOf(to).Field(i).IsZero(); left != replaced {
				t.Errorf("taken away again: %t", !left)
			}
		})
	}
}

func TestWhatWasTakenOverIsItsOwn(t *testing.T) {
	from := v1alpha1.MachineTemplateBody{Roles: []string{"a"}}
	var to v1alpha1.MachineTemplateBody
	to.TakeOver(&from)
	from.Roles[0] = "b"
	if to.Roles[0] != "a" {
		t.Error("a change of the one changed the other")
	}
}

func TestWhenATaintWasAddedIsNotTakenOver(t *testing.T) {
	added := metav1.NewTime(time.Unix(1e9, 0))
	to := v1alpha1.MachineTemplateBody{Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}}
	from := *to.DeepCopy()
	from.Taints[0].TimeAdded = &added
	if !to.HasTakenOver(&from) {
		t.Error("it is taken for a change")
	}
	if to.TakeOver(&from); to.Taints[0].TimeAdded != nil {
		t.Error("it was taken over")
	}
	from.Taints[0].Value = "b"
	if to.HasTakenOver(&from) {
		t.Error("another value is taken for none")
	}
}

// fill makes value differ from its zero value.
func fill(t *testing.T, value reflect.Value) {
	t.Helper()
	switch value.Kind() {
	case reflect.Bool:
		value.SetBool(true)
	case reflect.String:
		value.SetString("x")
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.Zero(value.Type().Key()), reflect.Zero(value.Type().Elem()))
	case reflect.Struct:
		fill(t, value.Field(0))
	default:
		t.Fatalf("a field of kind %s: say here how to fill it", value.Kind())
	}
}
