package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// costly would keep resource.ParseQuantity computing for hours, and take gigabytes.
const costly = "1e-2000000000"

// The test itself would not end if one of them were parsed without bounds.
// Edge case: `1e-50000000` kept programs busy.
func TestCostlyQuantitiesAreNotParsed(t *testing.T) {
	if _, err := DecodeQuantity([]byte(costly)); err == nil {
		t.Error("it is decoded")
	}
	for name, target := range map[string]any{
		`{"capacity":{"cpu":"` + costly + `"}}`:                            &NodeTemplate{},
		`{"capacity":{"cpu":` + costly + `}}`:                              &NodeTemplate{},
		`{"capacity":{"cpu":"` + costly + `"},"capacity":{"cpu":"1"}}`:     &HollowNodeConfig{},
		`{"podResources":{"cpu":"` + costly + `"}}`:                        &HollowNodeConfig{},
		`{"maxPods":1,"capacity":{"cpu":"` + costly + `"}}`:                &KwokNodeConfig{},
		`{"capacity":{"cpu":"\u0031e-2000000000"}}`:                        &ClusterStatus{},
		`{"capacity":{"cpu":"` + strings.Repeat("1", 1<<20) + `"}}`:        &ClusterStatus{},
		`{"capacity":{"memory":"1"},"podResources":{"cpu":"1e100000000"}}`: &HollowNodeConfig{},
		`{"imagePull":{"bytesPerSecond":"` + costly + `"}}`:                &HollowNodeConfig{},
		`{"devices":[{"capacity":{"memory":"` + costly + `"}}]}`:           &HollowNodeConfig{},
	} {
		if err := json.Unmarshal([]byte(name), target); err == nil {
			t.Errorf("%.60s: decoded as %T", name, target)
		}
	}
}

// Edge case: `1000E` was written back as `1`. Also: FuzzDecodeQuantity.
func TestBoundedQuantitiesAreKept(t *testing.T) {
	for _, text := range []string{"0", "4", "500m", "16Gi", ".5", "1.", "+3", "-8", "1e3", "12E-9", "9223372036854775807", "1.5Ei", "1e99", "1e-99", "1000E", "-5000E"} {
		got, err := DecodeQuantity([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want := resource.MustParse(text); got.Cmp(want) != 0 {
			t.Errorf("%s: got %v, want %v", text, got.String(), want.String())
		}
		written := got.String()
		if again, err := DecodeQuantity([]byte(written)); err != nil || again.Cmp(got) != 0 {
			t.Errorf("%s: written as %s, which is read as %v, %v", text, written, again.String(), err)
		}
	}
	config := HollowNodeConfig{}
	text := `{"kind":"k","apiVersion":"v","capacity":{"cpu":8,"memory":"1Gi"},"maxPods":3,"osImage":"x","startupDelay":"3s","podResources":{"cpu":"20m"},"imagePull":{"bytesPerSecond":"50Mi","failurePercent":5}}`
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(config); err != nil || string(again) != strings.Replace(text, ":8,", `:"8",`, 1) {
		t.Errorf("got %s, %v", again, err)
	}
}

// Every struct of the API with quantities bounds them itself, as no later check comes before the decoder.
func TestEveryStructWithQuantitiesBoundsThem(t *testing.T) {
	found := map[string]bool{}
	for _, kind := range []any{Cluster{}, MachineClass{}, Machine{}, MachineSet{}, MachineDeployment{}, HollowNodeConfig{}, KwokNodeConfig{}, SimulatedCluster{}, SimulatedClusterSet{}} {
		holders(reflect.TypeOf(kind), found)
	}
	if len(found) != 7 {
		t.Errorf("structs with quantities: %v, want seven", found)
	}
	for name, bounded := range found {
		if !bounded {
			t.Errorf("%s has quantities and decodes them without bounds: give it an UnmarshalJSON with boundedResources", name)
		}
	}
}

// holders notes the structs with a field of quantities, and whether they decode themselves.
func holders(t reflect.Type, into map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		holders(t.Elem(), into)
	case reflect.Struct:
		if t == reflect.TypeFor[metav1.ObjectMeta]() || t == reflect.TypeFor[metav1.Time]() {
			return
		}
		for field := range t.Fields() {
			inner := field.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Map || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner == reflect.TypeFor[resource.Quantity]() {
				_, bounded := reflect.PointerTo(t).MethodByName("UnmarshalJSON")
				into[t.Name()] = bounded
				continue
			}
			holders(field.Type, into)
		}
	}
}

// Edge case: Fractions were written with 21 digits.
func FuzzDecodeQuantity(f *testing.F) {
	for _, seed := range []string{"4", "16Gi", "1e-3", costly, "1e-99", "-1", "1E", "1E5", ".", "1..", "9999999999999999999999", "1e+99", "+.5k", `"16Gi"`, `"\u0031"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := DecodeQuantity([]byte(text))
		if err != nil {
			return
		}
		written := got.String()
		again, err := DecodeQuantity([]byte(written))
		if err != nil || again.Cmp(got) != 0 {
			t.Errorf("%q is written as %q, which is read as %v, %v", text, written, again.String(), err)
		}
	})
}
