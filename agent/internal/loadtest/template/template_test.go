package template

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestTemplates(t *testing.T) {
	g := NewWithT(t)
	run := &v1alpha1.LoadTestRun{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "0123456789"}}
	template, err := parseTemplate(run, v1alpha1.LoadTemplate{Name: "web", Object: strings.Join([]string{
		"apiVersion: v1", "kind: ConfigMap", "metadata: {name: other, generateName: x-, namespace: elsewhere, labels: {own: label}}",
		`data: {all: "{{.Name}} {{.Namespace}} {{.Index}} {{.Iteration}} {{.Run}}"}`,
	}, "\n")}, limits(t))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(template.Kind).To(Equal(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}))
	object, err := template.Object("load-01234567-1", 3, 2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(object.Object).To(Equal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "web-3", "namespace": "load-01234567-1", "labels": map[string]any{
			"own": "label", v1alpha1.LoadTestRunUIDLabel: "0123456789", v1alpha1.LoadTemplateLabel: "web",
		}},
		"data": map[string]any{"all": "web-3 load-01234567-1 3 2 r"},
	}))
	template.Resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	g.Expect(strings.Join(template.APIPath("n", "web-3"), "/")).To(Equal("/api/v1/namespaces/n/configmaps/web-3"))
	template.Resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	g.Expect(strings.Join(template.APIPath("n", ""), "/")).To(Equal("/apis/apps/v1/namespaces/n/deployments"))
}

// limits are those of an agent without flags.
func limits(t *testing.T) confine.Limits {
	t.Helper()
	limits, err := confine.Limits{}.Complete()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return limits
}

func TestTemplatesDecideByIndex(t *testing.T) {
	g := NewWithT(t)
	parsed, err := parseText("t", `{{/* nothing */}}{{if eq (mod .Index 3) 1}}one{{else if gt .Index 4}}many{{else}}{{.Name}} {{add .Index 1}} {{"x"}} {{lt .Index 2}} {{div .Index 3}}{{end}}`)
	g.Expect(err).NotTo(HaveOccurred())
	for index, want := range []string{"n 1 x true 0", "one", "n 3 x false 0", "n 4 x false 1", "one", "many"} {
		got, err := parsed.executeWith(nil, map[string]any{"Index": int64(index), "Name": "n"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got)).To(Equal(want))
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ object, want string }{
		"a template that does not parse": {"{{.Name", "parsing"},
		"a field that there is not":      {"apiVersion: v1\nkind: Pod\nspec: {{.Nodes}}", "rendering"},
		"no YAML":                        {"kind: [", "reading the YAML"},
		"a field twice":                  {"apiVersion: v1\nkind: Pod\nkind: Secret", "already"},
		"not an object":                  {"- 1", "not an object"},
		"two objects":                    {"---\nkind: Pod\n---\nkind: Pod", "more than one object"},
		"no kind":                        {"apiVersion: v1", "apiVersion and kind"},
		"no apiVersion":                  {"kind: Pod", "apiVersion and kind"},
		"metadata that is none":          {"apiVersion: v1\nkind: Pod\nmetadata: no", "metadata"},
		"labels that are none":           {"apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: 1}}", "labels"},
		"a loop":                         {"apiVersion: v1\nkind: Pod\nx: {{range 1000000000}}a{{end}}", "not supported"},
		"a definition":                   {"{{define \"x\"}}a{{end}}apiVersion: v1", "define is not supported"},
		"a variable":                     {"{{$x := 1}}apiVersion: v1", "no variables"},
		"a pipe":                         {"{{.Index | eq 1}}", "no pipes"},
		"a function that there is not":   {"{{printf .Name}}", "function \"printf\" not defined"},
		"a function without arguments":   {"{{eq .Index}}", "two arguments"},
		"no numbers":                     {"{{mod .Name 2}}", "not two numbers"},
		"a division by 0":                {"{{mod .Index 0}}", "division by 0"},
		"a quotient by 0":                {"{{div .Index 0}}", "division by 0"},
		"nothing":                        {"", "apiVersion and kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTemplate(&v1alpha1.LoadTestRun{}, v1alpha1.LoadTemplate{Name: "t", Object: test.object}, limits(t))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
	t.Run("another kind for another index", func(t *testing.T) {
		template, err := parseTemplate(&v1alpha1.LoadTestRun{}, v1alpha1.LoadTemplate{Name: "t", Object: "apiVersion: v1\nkind: {{if .Index}}Pod{{else}}Secret{{end}}"}, limits(t))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_, err = template.Object("n", 1, 0)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("is a Pod, but that of index 0 is a Secret")))
	})
}
