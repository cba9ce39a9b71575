// Package strictyaml reads YAML of users, of which a few bytes must not become many.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	yamlnodes "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// ErrManyObjects is returned for a text with several objects.
var ErrManyObjects = errors.New("the YAML has more than one object")

// ToJSON returns the one object of text as JSON. Keys that come twice, anchors and aliases are errors: without these the JSON is not much
// longer than the text.
func ToJSON(text []byte) ([]byte, error) {
	if bytes.Contains(bytes.TrimSpace(text), []byte("\n---")) {
		return nil, ErrManyObjects
	}
	if bytes.ContainsAny(text, "&*") {
		if err := rejectAliases(text); err != nil {
			return nil, err
		}
	}
	content, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("reading the YAML: %w", err)
	}
	return content, nil
}

// rejectAliases refuses anchors and aliases. A few of them make gigabytes of a kilobyte, so they are looked for before they are
// followed.
func rejectAliases(text []byte) error {
	document := yamlnodes.NewDecoder(bytes.NewReader(text))
	root := &yamlnodes.Node{}
	if err := document.Decode(root); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the YAML: %w", err)
	}
	return rejectAliasesIn(root)
}

func rejectAliasesIn(node *yamlnodes.Node) error {
	if node.Kind == yamlnodes.AliasNode || node.Anchor != "" {
		return fmt.Errorf("line %d of the YAML has an anchor or an alias (& or *): write out what it stands for", node.Line)
	}
	for _, inner := range node.Content {
		if err := rejectAliasesIn(inner); err != nil {
			return err
		}
	}
	return nil
}
