package kubeburner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// mostConfig is how long a configuration may be. Those of kube-burner's own repositories have a few kilobytes.
	mostConfig = 1 << 20
	// mostActions is how many actions of a template an error names.
	mostActions = 5
)

var (
	anyAction = regexp.MustCompile(`\{\{[^\n]*?\}\}`)
	// ofClusterLoader are lines that tests of clusterloader2 have, and configurations of kube-burner do not.
	ofClusterLoader = regexp.MustCompile(`(?m)^\s*(- )?(tuningSets|objectBundle|objectTemplatePath|namespaceRange|replicasPerNamespace|measurements|chaosMonkey|steps):|\$importFrom|\bDefaultParam\b`)
	jobsOfConfig    = regexp.MustCompile(`(?m)^jobs:`)
)

// readFormat parses a configuration of kube-burner. The error of anything else says what it is.
func readFormat(config []byte) (map[string]any, error) {
	switch {
	case len(config) > mostConfig:
		return nil, fmt.Errorf("the file has %d bytes: a configuration of kube-burner has at most %d", len(config), mostConfig)
	case bytes.IndexByte(config, 0) >= 0:
		return nil, errors.New("the file is binary: want a configuration of kube-burner, which is YAML")
	case len(bytes.TrimSpace(config)) == 0:
		return nil, errors.New("the file is empty: want a configuration of kube-burner, which has jobs")
	case !jobsOfConfig.Match(config) && ofClusterLoader.Match(config):
		return nil, errors.New("this is a test of clusterloader2, and import reads configurations of kube-burner only: write a LoadTest by hand; " +
			"Terms of other tools in docs/load-tests.md says what clusterloader2's terms are called there")
	}
	if actions := actionsOf(config); len(actions) > 0 {
		what := "this file"
		if jobsOfConfig.Match(config) {
			what = "this configuration of kube-burner"
		}
		return nil, fmt.Errorf("%s is a template: kube-burner fills %s in from --user-data and the environment, which import does not do: "+
			"write values in their place, and import the file again", what, strings.Join(actions, ", "))
	}
	var content any
	if err := yaml.UnmarshalStrict(config, &content); err != nil {
		return nil, fmt.Errorf("the file is not YAML that kube-burner reads: %w", err)
	}
	raw, isMap := content.(map[string]any)
	if !isMap {
		return nil, otherList(content)
	}
	if hasSecondDocument(config) {
		return nil, errors.New("the file has more than one YAML document, of which kube-burner reads the first only: remove the others, or import each from a file of its own")
	}
	return raw, checkFields(raw)
}

// hasSecondDocument reports whether there is anything after the first document.
func hasSecondDocument(config []byte) bool {
	var first, second any
	documents := goyaml.NewDecoder(bytes.NewReader(config))
	if documents.Decode(&first) != nil {
		return false
	}
	err := documents.Decode(&second)
	return second != nil || err != nil && !errors.Is(err, io.EOF)
}

// checkFields reports what a file with fields is, if it is not a configuration.
func checkFields(raw map[string]any) error {
	kind, _ := raw["kind"].(string)
	version, _ := raw["apiVersion"].(string)
	switch {
	case kind != "" && version == v1alpha1.GroupVersion.String() && kind == "LoadTest":
		return errors.New("this is a LoadTest already: kubectl hollow loadtest run -f takes it as it is")
	case kind != "" && version != "":
		return fmt.Errorf("this is a manifest of a %s: import takes the configuration of kube-burner, which has jobs and names such manifests as templates", kind)
	case raw["jobs"] == nil:
		return errors.New("the file has no jobs: want a configuration of kube-burner")
	}
	jobs, isList := raw["jobs"].([]any)
	if !isList || len(jobs) == 0 {
		return errors.New("jobs: want a list with at least one job of kube-burner")
	}
	return nil
}

// otherList says what YAML is that is not a configuration, because it has no fields.
func otherList(content any) error {
	items, isList := content.([]any)
	if isList && len(items) > 0 {
		first, _ := items[0].(map[string]any)
		for _, field := range []string{"query", "expr"} {
			if first[field] != nil {
				return errors.New("this is a metrics or alert profile of kube-burner: import takes the configuration, which has jobs")
			}
		}
	}
	return errors.New("the file has no jobs: want a configuration of kube-burner")
}

// actionsOf are the first actions of a template, each once.
func actionsOf(text []byte) (actions []string) {
	for _, found := range anyAction.FindAll(text, -1) {
		if one := string(found); !slices.Contains(actions, one) {
			actions = append(actions, one)
		}
		if len(actions) > mostActions {
			return append(actions[:mostActions], "and more")
		}
	}
	if len(actions) == 0 && bytes.Contains(text, []byte("{{")) {
		return []string{"{{"}
	}
	return actions
}
