package hollowpod

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// toldBytes bounds what is told of a value that is refused.
const toldBytes = 120

// compare returns the fields that are not as they should be, by their names in the API.
func compare(want, got corev1.PodSpec) Refusals {
	wantFields, wantErr := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	gotFields, gotErr := runtime.DefaultUnstructuredConverter.ToUnstructured(&got)
	if wantErr != nil || gotErr != nil {
		return Refusals{{"spec", "it cannot be read"}}
	}
	return compareValues("spec", wantFields, gotFields)
}

// compareValues descends as far as both values have fields or items. That a field is false is the same as that it is not there.
func compareValues(path string, want, got any) (refusals Refusals) {
	wantFields, isObject := want.(map[string]any)
	gotFields, isAlsoObject := got.(map[string]any)
	if isObject && isAlsoObject {
		all := maps.Clone(wantFields)
		maps.Copy(all, gotFields)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			refusals = append(refusals, compareValues(path+"."+name, wantFields[name], gotFields[name])...)
		}
		return refusals
	}
	wantItems, isList := want.([]any)
	gotItems, isAlsoList := got.([]any)
	if hasObjects := len(wantItems) > 0 && reflect.TypeOf(wantItems[0]).Kind() == reflect.Map; isList && isAlsoList && hasObjects {
		for i := range max(len(wantItems), len(gotItems)) {
			refusals = append(refusals, compareValues(fmt.Sprintf("%s[%d]", path, i), item(wantItems, i), item(gotItems, i))...)
		}
		return refusals
	}
	isTrue, isBool := got.(bool)
	if reflect.DeepEqual(want, got) || want == nil && isBool && !isTrue {
		return nil
	}
	return Refusals{{path, fmt.Sprintf("want %s, got %s", tell(want), tell(got))}}
}

func item(items []any, i int) any {
	if i < len(items) {
		return items[i]
	}
	return nil
}

func tell(value any) string {
	if value == nil {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "something else"
	}
	if len(text) > toldBytes {
		return strings.ToValidUTF8(string(text[:toldBytes]), "") + "…"
	}
	return string(text)
}
