package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const bad = `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"Machine","metadata":{"name":"bad","namespace":"c1","uid":"u","labels":{"a":"b"},` +
	`"finalizers":["hollowfleet.io/agent"]},"spec":{"clusterName":"c1","timeouts":{"drain":"2d"}},"status":{"phase":"Running"}}`

const good = `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"Machine","metadata":{"name":"good","namespace":"c1"},` +
	`"spec":{"clusterName":"c1","timeouts":{"drain":"2h0m0s"},"providerConfig":{"value":{"capacity":{"cpu":"1e-2000000000"}}}},"status":{"phase":"Running"}}`

func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}

func TestAnObjectThatCannotBeDecodedKeepsItsMetadataOnly(t *testing.T) {
	list := `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"MachineList","metadata":{"resourceVersion":"7"},"items":[` + bad + "," + good + `]}`
	object, _, err := decoder(t).Decode([]byte(list), nil, nil)
	if err != nil {
		t.Fatalf("one bad Machine makes the list fail: %v", err)
	}
	machines := object.(*MachineList).Items
	if len(machines) != 2 || machines[1].NotDecoded() != "" || machines[1].Status.Phase != MachineRunning {
		t.Fatalf("the good Machine is not as it should be: %+v", machines)
	}
	got := &machines[0]
	if !strings.Contains(got.NotDecoded(), "unknown unit") {
		t.Errorf("the error is %q", got.NotDecoded())
	}
	if got.Name != "bad" || got.UID != "u" || got.Labels["a"] != "b" || got.Finalizers[0] != MachineFinalizer {
		t.Errorf("metadata: %+v", got.ObjectMeta)
	}
	if got.Spec.ClusterName != "" || got.Spec.Timeouts != nil || got.Status.Phase != "" {
		t.Errorf("half of it was decoded: %+v, %+v", got.Spec, got.Status)
	}
}

// kinds returns a new object of each kind.
func kinds(t *testing.T) (kinds []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, known := range scheme.KnownTypes(GroupVersion) {
		if _, found := known.FieldByName("ObjectMeta"); found && known.PkgPath() == reflect.TypeFor[Machine]().PkgPath() {
			kinds = append(kinds, reflect.New(known).Interface().(runtime.Object))
		}
	}
	if len(kinds) < 10 {
		t.Fatalf("%d kinds", len(kinds))
	}
	return kinds
}

// Edge case: Undecoded objects could be written back empty.
func TestAnObjectThatWasNotDecodedIsNeverEncoded(t *testing.T) {
	objects := []any{&MachineList{Items: []Machine{{DecodeError: "x"}}}}
	for _, object := range kinds(t) {
		value := reflect.ValueOf(object).Elem()
		value.FieldByName("DecodeError").SetString("x")
		objects = append(objects, object, value.Interface())
	}
	for _, object := range objects {
		if text, err := json.Marshal(object); err == nil {
			t.Errorf("%T: written as %s", object, text)
		}
	}
}

func TestEveryKindKeepsItsMetadataOnlyIfItCannotBeDecoded(t *testing.T) {
	for _, object := range kinds(t) {
		kind := reflect.TypeOf(object).Elem().Name()
		text := `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"` + kind + `","metadata":{"name":"bad"},"spec":7}`
		if _, found := reflect.TypeOf(object).Elem().FieldByName("Spec"); !found {
			t.Fatalf("%s has no spec", kind)
		}
		if err := json.Unmarshal([]byte(text), object); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		undecoded := object.(interface {
			NotDecoded() string
			GetName() string
		})
		if undecoded.NotDecoded() == "" || undecoded.GetName() != "bad" || object.GetObjectKind().GroupVersionKind().Kind != kind {
			t.Errorf("%s: %+v", kind, object)
		}
		if _, err := json.Marshal(object); err == nil || !strings.Contains(err.Error(), kind+" bad was not decoded") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestAnObjectIsDecodedAnewAndWrittenAsBefore(t *testing.T) {
	machine := &Machine{}
	for _, text := range []string{bad, good} {
		if err := json.Unmarshal([]byte(text), machine); err != nil {
			t.Fatal(err)
		}
	}
	if machine.NotDecoded() != "" || len(machine.Finalizers) > 0 {
		t.Errorf("something is left of the object before: %+v", machine)
	}
	written, err := json.Marshal(machine)
	if err != nil || !strings.Contains(string(written), `"timeouts":{"drain":"2h0m0s"}`) {
		t.Errorf("written as %s, %v", written, err)
	}
	if _, err := json.Marshal(*machine.DeepCopy()); err != nil {
		t.Error(err)
	}
}

func TestMetadataThatCannotBeDecodedIsAnError(t *testing.T) {
	if err := json.Unmarshal([]byte(`{"metadata":{"name":7},"spec":{}}`), &Machine{}); err == nil {
		t.Error("an object without a name is accepted")
	}
}

// What decodes once decodes again as it was written, whatever it was.
func FuzzMachine(f *testing.F) {
	f.Add([]byte(bad))
	f.Add([]byte(good))
	f.Add([]byte(`{"metadata":{"name":7}}`))
	f.Add([]byte(`{"spec":{"taints":[{"timeAdded":"2026-01-01t00:00:00Z"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		machine := &Machine{}
		if json.Unmarshal(data, machine) != nil {
			return
		}
		written, err := json.Marshal(machine)
		if (err != nil) != (machine.NotDecoded() != "") {
			t.Fatalf("not decoded: %q, and written with %v", machine.NotDecoded(), err)
		}
		again := &Machine{}
		if err == nil && (json.Unmarshal(written, again) != nil || again.NotDecoded() != "") {
			t.Errorf("%s is written as %s, which is not decoded", data, written)
		}
	})
}
