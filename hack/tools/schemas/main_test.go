package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const (
	schemas = "../../../config/schema"
	samples = "../../../config/samples"
)

func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	compiled, err := jsonschema.NewCompiler().Compile(filepath.Join(schemas, name))
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// decode reads a document as a validator wants it.
func decode(t *testing.T, document []byte) any {
	t.Helper()
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// configurations are the objects in a document that are of a provider's kind.
func configurations(value any) (found []map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		for _, kind := range providerKinds {
			if v["kind"] == kind {
				found = append(found, v)
			}
		}
		for _, each := range v {
			found = append(found, configurations(each)...)
		}
	case []any:
		for _, each := range v {
			found = append(found, configurations(each)...)
		}
	}
	return found
}

// Claim: Editors accept every sample, and see a misspelled field in it, also in a provider's configuration. Broken: objects open for any field; providerConfig left as it is in the CRD; a sample without its schema's name.
func TestSamplesFitTheSchema(t *testing.T) {
	all := compile(t, "hollowfleet.json")
	files, err := filepath.Glob(filepath.Join(samples, "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	nested := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, []byte("# yaml-language-server: $schema=../schema/hollowfleet.json\n")) {
			t.Errorf("%s: the first line does not name the schema for editors", file)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			object := decode(t, document).(map[string]any)
			if err := all.Validate(object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if object["apiVersion"] != apiVersion {
				continue
			}
			expectMisspelledIsRefused(t, all, object, object["spec"].(map[string]any))
			for _, configuration := range configurations(object) {
				nested++
				expectMisspelledIsRefused(t, all, object, configuration)
			}
			object["kind"] = "Misspelled"
			if err := all.Validate(object); err == nil {
				t.Errorf("%s: an unknown kind is accepted", file)
			}
		}
	}
	if nested < 5 {
		t.Errorf("%d configurations of providers only", nested)
	}
}

// expectMisspelledIsRefused holds that a field too many in a part of an object is an error that names it.
func expectMisspelledIsRefused(t *testing.T, s *jsonschema.Schema, object any, part map[string]any) {
	t.Helper()
	part["misspelled"] = true
	defer delete(part, "misspelled")
	if err := s.Validate(object); err == nil || !strings.Contains(err.Error(), "misspelled") {
		t.Errorf("a misspelled field beside %v: %v", part, err)
	}
}

// Claim: The schemas of providers' configurations refuse what the drivers refuse. Broken: no bounds; any kind; kind not required.
func TestConfigurations(t *testing.T) {
	const head = "apiVersion: hollowfleet.io/v1alpha1\nkind: HollowNodeConfig\n"
	hollow := compile(t, "hollownodeconfig.json")
	for name, test := range map[string]struct {
		text  string
		valid bool
	}{
		"nothing but its kind": {head, true},
		"each kind of value": {head + "capacity: {cpu: 4, memory: 16Gi, example.com/gpu: \"1\"}\nmaxPods: 1000\nstartupDelay: 1m30s\nprofile: Realistic\nprobes: Run\n" +
			"imagePull: {bytesPerSecond: 50Mi, failurePercent: 2}\nkubelet: {nodeLeaseDurationSeconds: 40, nodeStatusUpdateFrequency: 0.5s}\nturnUnhealthyAfter: true\nhealthyDuration: \"0\"", true},
		"no kind":                   {"apiVersion: hollowfleet.io/v1alpha1", false},
		"another kind":              {"apiVersion: hollowfleet.io/v1alpha1\nkind: KwokNodeConfig", false},
		"another version":           {"apiVersion: hollowfleet.io/v1\nkind: HollowNodeConfig", false},
		"a misspelled field":        {head + "maxpods: 5", false},
		"a misspelled field deeper": {head + "kubelet: {eventRecordQps: 5}", false},
		"too many pods":             {head + "maxPods: 1001", false},
		"no pods":                   {head + "maxPods: 0", false},
		"pods as text":              {head + `maxPods: "5"`, false},
		"an unknown profile":        {head + "profile: Slow", false},
		"a duration without unit":   {head + `startupDelay: "30"`, false},
		"a duration as a number":    {head + "startupDelay: 30", false},
		"a quantity that is none":   {head + "capacity: {memory: 16 gigabytes}", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := hollow.Validate(decode(t, []byte(test.text))); (err == nil) != test.valid {
				t.Errorf("valid should be %v: %v", test.valid, err)
			}
		})
	}
}

// Claim: The API reference has every field of what users write. Broken: fields of a type whose name ends in List left out, as capacity was.
func TestTheReferenceHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	fields := map[string]schema{"HollowNodeConfig": nil, "KwokNodeConfig": nil}
	for kind := range fields {
		fields[kind] = readSchema(t, fileName(kind))["properties"].(schema)
	}
	for kind, definition := range readSchema(t, "hollowfleet.json")["definitions"].(schema) {
		properties, _ := definition.(schema)["properties"].(schema)
		if spec, has := properties["spec"].(schema); has {
			fields[kind+"Spec"] = spec["properties"].(schema)
		}
	}
	if len(fields) < 15 {
		t.Errorf("%d types only", len(fields))
	}
	for name, properties := range fields {
		for field := range properties {
			if !strings.Contains(sections[name], "\n| `"+field+"` ") {
				t.Errorf("docs/api.md, %s: there is no field %s", name, field)
			}
		}
	}
}

func readSchema(t *testing.T, name string) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(schemas, name))
	if err != nil {
		t.Fatal(err)
	}
	read := schema{}
	if err := yaml.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}
