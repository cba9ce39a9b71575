package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// objectTemplate makes the objects of one template of a run.
type objectTemplate struct {
	name string
	run  *v1alpha1.LoadTestRun
	text text
	// kind is that of the object with index 0, and resource where the API server has it.
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
}

// parseTemplate returns a template whose first object is one of a kind.
func parseTemplate(run *v1alpha1.LoadTestRun, from v1alpha1.LoadTemplate) (*objectTemplate, error) {
	parsed, err := parseText(from.Name, from.Object)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	t := &objectTemplate{name: from.Name, run: run, text: parsed}
	first, err := t.render("load-00000000-0", 0, 0)
	if err != nil {
		return nil, err
	}
	t.kind = first.GroupVersionKind()
	return t, nil
}

// objectName is that of an object.
func (t *objectTemplate) objectName(index int) string { return fmt.Sprintf("%s-%d", t.name, index) }

// render makes an object.
func (t *objectTemplate) render(namespace string, index, iteration int) (*unstructured.Unstructured, error) {
	name := t.objectName(index)
	rendered, err := t.text.execute(map[string]any{
		"Name": name, "Namespace": namespace, "Run": t.run.Name, "Index": int64(index), "Iteration": int64(iteration),
	})
	if err != nil {
		return nil, fmt.Errorf("rendering: %w", err)
	}
	if bytes.Contains(bytes.TrimSpace(rendered), []byte("\n---")) {
		return nil, errors.New("the YAML has more than one object: use a template for each")
	}
	content, err := yaml.YAMLToJSONStrict(rendered)
	if err != nil {
		return nil, fmt.Errorf("reading the YAML: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		return nil, fmt.Errorf("the YAML is no object: %w", err)
	}
	if err := t.check(object); err != nil {
		return nil, err
	}
	metadata, _ := object.Object["metadata"].(map[string]any)
	for _, field := range []string{"generateName", "uid", "resourceVersion"} {
		delete(metadata, field)
	}
	object.SetName(name)
	object.SetNamespace(namespace)
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LoadTestRunUIDLabel], labels[v1alpha1.LoadTemplateLabel] = string(t.run.UID), t.name
	object.SetLabels(labels)
	return object, nil
}

// check reports what keeps an object from being one of the template.
func (t *objectTemplate) check(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	switch metadata := object.Object["metadata"]; {
	case object.GetAPIVersion() == "" || kind.Kind == "":
		return errors.New("the object needs apiVersion and kind")
	case t.kind != (schema.GroupVersionKind{}) && kind != t.kind:
		return fmt.Errorf("the object is a %s, but that of index 0 is a %s: use a template for each kind", kind.Kind, t.kind.Kind)
	case metadata != nil:
		if _, ok := metadata.(map[string]any); !ok {
			return errors.New("metadata: must be an object")
		}
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", "labels"); err != nil {
			return fmt.Errorf("metadata.labels: %w", err)
		}
	}
	return nil
}

// path is where the API server has the objects of the template in a namespace, or one of them.
func (t *objectTemplate) path(namespace, name string) []string {
	parts := []string{"/apis", t.resource.Group}
	if t.resource.Group == "" {
		parts = []string{"/api"}
	}
	parts = append(parts, t.resource.Version, "namespaces", namespace, t.resource.Resource)
	if name != "" {
		parts = append(parts, name)
	}
	return parts
}

// selector finds the objects of the template.
func (t *objectTemplate) selector() string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.LoadTestRunUIDLabel: string(t.run.UID), v1alpha1.LoadTemplateLabel: t.name,
	}})
}
