package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// What decodes itself, such as a time, a duration or a quantity, may accept less than its schema's type, or take long. So
// the schema of each field of such a type has a length and a pattern, or a rule with one.
// Edge case: A new type could accept more than decodes.
func TestEveryFieldThatDecodesItselfIsBounded(t *testing.T) {
	found := 0
	for resource, kind := range kinds {
		text, err := config.CRDs.ReadFile("crd/hollowfleet.io_" + resource + ".yaml")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		definition := &apiextensionsv1.CustomResourceDefinition{}
		NewWithT(t).Expect(yaml.Unmarshal(text, definition)).To(Succeed())
		root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		structure := reflect.TypeOf(kind).Elem()
		for _, part := range []string{"Spec", "Status"} {
			if field, has := structure.FieldByName(part); has {
				schema := root.Properties[strings.ToLower(part)]
				unbounded(t, field.Type, schema, resource+"."+strings.ToLower(part), &found)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d fields found only: the test looks in the wrong place", found)
	}
}

func unbounded(t *testing.T, of reflect.Type, schema apiextensionsv1.JSONSchemaProps, path string, found *int) {
	t.Helper()
	own := of.Implements(unmarshaler) || reflect.PointerTo(of).Implements(unmarshaler)
	switch {
	case of.Kind() == reflect.Pointer:
		unbounded(t, of.Elem(), schema, path, found)
	case of == reflect.TypeFor[kruntime.RawExtension]():
		// Its decoder copies; what reads it bounds it.
	case own && len(schema.Properties) == 0:
		*found++
		rules := slices.ContainsFunc(schema.XValidations, func(rule apiextensionsv1.ValidationRule) bool {
			return strings.Contains(rule.Rule, "self.matches('^")
		})
		if schema.MaxLength == nil || schema.Pattern == "" && !rules {
			t.Errorf("%s: of type %s, and without a length, or a pattern: see hack/crdbounds", path, of)
		}
	case of == reflect.TypeFor[[]byte]():
		// Base64, of which the API server checks the format.
		if schema.MaxLength == nil || schema.Format != "byte" {
			t.Errorf("%s: of type %s, and without a length or its format", path, of)
		}
	case of.Kind() == reflect.Slice:
		unbounded(t, of.Elem(), *schema.Items.Schema, path+"[]", found)
	case of.Kind() == reflect.Map:
		unbounded(t, of.Elem(), *schema.AdditionalProperties.Schema, path+"{}", found)
	case of.Kind() == reflect.Struct:
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				unbounded(t, field.Type, schema, path, found)
				continue
			}
			unbounded(t, field.Type, schema.Properties[name], path+"."+name, found)
		}
	}
}

// places are all kinds of fields that decode themselves, and where a value of the fuzz test is put.
var places = map[string]string{
	"a timeout":        `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"Machine","spec":{"timeouts":{"creation":%[1]s},"providerConfig":{"valueRef":{"name":"x"}}}}`,
	"a drain timeout":  `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"Machine","spec":{"timeouts":{"drain":%[1]s},"providerConfig":{"valueRef":{"name":"x"}}}}`,
	"a taint's time":   `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"Machine","spec":{"taints":[{"key":"a","effect":"NoSchedule","timeAdded":%[1]s}],"providerConfig":{"valueRef":{"name":"x"}}}}`,
	"a class's CPUs":   `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"MachineClass","spec":{"provider":"hollow","nodeTemplate":{"capacity":{"cpu":%[1]s}}}}`,
	"most unhealthy":   `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"MachineSet","spec":{"remediation":{"maxUnhealthy":%[1]s},"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}}`,
	"the surge":        `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"MachineDeployment","spec":{"strategy":{"rollingUpdate":{"maxSurge":%[1]s,"maxUnavailable":1}},"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}}`,
	"a load's timeout": `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"LoadTestRun","spec":{"timeout":%[1]s,"steps":[{"name":"a","phases":[{"action":"Wait","duration":"1s"}]}]}}`,
	"a phase's time":   `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"LoadTestRun","spec":{"steps":[{"name":"a","phases":[{"action":"Wait","duration":%[1]s}]}]}}`,
	"most unavailable": `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"MachineDeployment","spec":{"strategy":{"type":"InPlace","inPlace":{"maxUnavailable":%[1]s}},"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}}`,
}

// FuzzWhatTheAPIServerAcceptsIsDecoded holds that what the API server accepts Go decodes, and encodes to what the API server
// accepts, without more than 1 MB. What it costs is measured in memory, which every computation of many digits takes.
// Edge case: Numbers and times that Go cannot decode.
func FuzzWhatTheAPIServerAcceptsIsDecoded(f *testing.F) {
	for _, seed := range []string{
		`"2d"`, `"1 week"`, `"5 minutes"`, `"1h30m"`, `"0"`, `"-1s"`, `"87600h"`, `"99999h99999h"`, `"1.5µs"`, `"9223372036854775807ns"`, `90`,
		`"1e-50000000"`, `"1e50000000"`, `"1e99"`, `"16Gi"`, `"-8"`, `"99999999999999999999"`, `1e30`, `1.0`, `1.5`, `""`, `" 1"`, `"1_000"`, `"1E"`,
		`3000000000`, `-1`, `"40%"`, `"101%"`, `"007%"`, `"9999999999%"`, `null`, `true`, `[]`, `{}`,
		`"2026-01-01T00:00:00Z"`, `"2026-01-01t00:00:00z"`, `"2026-01-01T00:00:00,5Z"`, `"2026-01-01T24:00:00Z"`, `"2026-02-30T00:00:00Z"`,
		`"2026-01-01T00:00:60Z"`, `"2028-02-29T00:00:00Z"`, `"2027-02-29T00:00:00Z"`, `"2100-02-29T00:00:00Z"`, `"2000-02-29T00:00:00Z"`, `"2026-01-01T00:00:00+99:99"`, `"0000-01-01T00:00:00+23:59"`, `"9999-12-31T23:59:59-23:59"`, `"2026-01-01T00:00:00.123456789123Z"`,
	} {
		f.Add(seed)
	}
	direct, err := client.New(testenv.Server().Config, client.Options{Scheme: scheme.New()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for place, template := range places {
			object := &unstructured.Unstructured{}
			if !json.Valid([]byte(value)) || object.UnmarshalJSON([]byte(fmt.Sprintf(template, value))) != nil {
				return // The API server gets no such thing.
			}
			object.SetNamespace(metav1.NamespaceDefault)
			object.SetName("fuzzed")
			_ = unstructured.SetNestedField(object.Object, metav1.NamespaceDefault, "spec", "clusterName")
			if object.GetKind() == "MachineClass" {
				unstructured.RemoveNestedField(object.Object, "spec", "clusterName")
			}
			accepted, err := post(t.Context(), object)
			if err != nil {
				continue
			}
			into := kinds[strings.ToLower(object.GetKind())+"s"]
			if object.GetKind() == "MachineClass" {
				into = kinds["machineclasses"]
			}
			typed := into.DeepCopyObject().(client.Object)
			if cost := allocated(func() { err = json.Unmarshal(accepted, typed) }); cost > 1<<20 {
				t.Errorf("%s as %s: decoding took %d bytes", value, place, cost)
			}
			if err != nil || typed.(interface{ NotDecoded() string }).NotDecoded() != "" {
				t.Errorf("%s as %s: the API server accepts it, and Go does not: %v, %+v", value, place, err, typed)
				continue
			}
			typed.SetUID("")
			typed.SetCreationTimestamp(metav1.Time{})
			if err := direct.Create(t.Context(), typed, client.DryRunAll); err != nil {
				t.Errorf("%s as %s: what Go writes is refused: %v", value, place, err)
			}
		}
	})
}

// post asks the API server whether it would create object, and returns what it would store.
func post(ctx context.Context, object *unstructured.Unstructured) ([]byte, error) {
	clients, err := kubernetes.NewForConfig(testenv.Server().Config)
	if err != nil {
		return nil, err
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	resource := strings.ToLower(object.GetKind()) + "s"
	if object.GetKind() == "MachineClass" {
		resource = "machineclasses"
	}
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + object.GetNamespace() + "/" + resource
	return clients.Discovery().RESTClient().Post().AbsPath(path).Param("dryRun", "All").SetHeader("Content-Type", "application/json").
		Body(text).Timeout(time.Minute).DoRaw(ctx)
}

// allocated is how many bytes do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
