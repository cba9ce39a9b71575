// Package template makes the objects of a load test run from its templates, which are text that a user of the hub wrote.
//
//	Check            once, before the first request: parses the text (language.go), renders what is going to be created and each branch,
//	                 and adds up what that takes in etcd (stored.go)
//	Template.Object  for each request: text (language.go) → YAML (yaml.go) → no larger than what Check has seen → kept within the
//	                 namespaces of the run (package confine)
package template

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Template makes the objects of one template of a run.
type Template struct {
	Name string
	// Kind is that of the object with index 0, and Resource where the API server has it, which its user finds out.
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource

	run  *v1alpha1.LoadTestRun
	text text
	// limits keep its objects in the namespaces of the run.
	limits confine.Limits
	// largest is how many bytes an object may have, by what was looked at before the first request; 0 before that.
	largest int
	// mostPods is how many pods an object may ask for, by the same look.
	mostPods int64
}

// String names the template, and the first step that uses it.
func (t *Template) String() string { return describeUse(&t.run.Spec.Load, t.Name) }

// parseTemplate returns a template whose first object is one of a kind.
func parseTemplate(run *v1alpha1.LoadTestRun, from v1alpha1.LoadTemplate, limits confine.Limits) (*Template, error) {
	if len(from.Object) > mostText {
		return nil, fmt.Errorf("object: it has %d bytes, and %d at most are possible", len(from.Object), mostText)
	}
	parsed, err := parseText(from.Name, from.Object)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	t := &Template{Name: from.Name, run: run, text: parsed, limits: limits}
	first, err := t.Object("load-00000000-0", 0, 0)
	if err != nil {
		return nil, err
	}
	t.Kind = first.GroupVersionKind()
	return t, nil
}

// ObjectName is that of an object.
func (t *Template) ObjectName(index int) string { return fmt.Sprintf("%s-%d", t.Name, index) }

// Object makes an object.
func (t *Template) Object(namespace string, index, iteration int) (*unstructured.Unstructured, error) {
	return t.renderWith(nil, namespace, index, iteration)
}

// renderWith makes an object, with some decisions of the template turned round.
func (t *Template) renderWith(forced decisions, namespace string, index, iteration int) (*unstructured.Unstructured, error) {
	name := t.ObjectName(index)
	rendered, err := t.textOf(forced, namespace, index, iteration)
	if err != nil {
		return nil, fmt.Errorf("rendering: %w", err)
	}
	content, err := readYAML(rendered)
	if err != nil {
		return nil, err
	}
	if t.largest > 0 && len(content) > t.largest {
		return nil, &confine.Error{Field: "object", Reason: fmt.Sprintf("object %d has %d bytes, and those that were looked at before the first request had %d at most: do not let a condition make single objects larger",
			index, len(content), t.largest)}
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		return nil, fmt.Errorf("the YAML is not an object: %w", err)
	}
	if err := t.checkObject(object); err != nil {
		return nil, err
	}
	if err := t.limits.Apply(object); err != nil {
		return nil, err
	}
	if pods := t.limits.Pods(object); t.largest > 0 && pods > t.mostPods {
		return nil, &confine.Error{Field: "object", Reason: fmt.Sprintf("object %d asks for %d pods, and those that were looked at before the first request for %d at most: let all of them want about the same number",
			index, pods, t.mostPods)}
	}
	object.SetName(name)
	object.SetNamespace(namespace)
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LoadTestRunUIDLabel], labels[v1alpha1.LoadTemplateLabel] = string(t.run.UID), t.Name
	object.SetLabels(labels)
	return object, nil
}

// textOf fills in what a template may use.
func (t *Template) textOf(forced decisions, namespace string, index, iteration int) ([]byte, error) {
	return t.text.executeWith(forced, map[string]any{
		"Name": t.ObjectName(index), "Namespace": namespace, "Run": t.run.Name, "Index": int64(index), "Iteration": int64(iteration),
	})
}

// checkObject reports what keeps an object from being one of the template.
func (t *Template) checkObject(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	switch metadata := object.Object["metadata"]; {
	case object.GetAPIVersion() == "" || kind.Kind == "":
		return errors.New("the object needs apiVersion and kind")
	case t.Kind != (schema.GroupVersionKind{}) && kind != t.Kind:
		return fmt.Errorf("the object is a %s, but that of index 0 is a %s: use a template for each kind", kind.Kind, t.Kind.Kind)
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

// APIPath is where the API server has the objects of the template in a namespace, or one of them.
func (t *Template) APIPath(namespace, name string) []string {
	parts := []string{"/apis", t.Resource.Group}
	if t.Resource.Group == "" {
		parts = []string{"/api"}
	}
	parts = append(parts, t.Resource.Version, "namespaces", namespace, t.Resource.Resource)
	if name != "" {
		parts = append(parts, name)
	}
	return parts
}

// LabelSelector finds the objects of the template.
func (t *Template) LabelSelector() string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.LoadTestRunUIDLabel: string(t.run.UID), v1alpha1.LoadTemplateLabel: t.Name,
	}})
}
