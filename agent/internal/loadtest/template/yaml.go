package template

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	yamlnodes "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// mostText is how many bytes a template may have: as many as the API of the hub allows, whatever schema let it in.
const mostText = 16 << 10

// readYAML returns an object of a template as JSON. Without aliases it is not much longer than its text.
func readYAML(rendered []byte) ([]byte, error) {
	if bytes.Contains(bytes.TrimSpace(rendered), []byte("\n---")) {
		return nil, errors.New("the YAML has more than one object: use a template for each")
	}
	if bytes.ContainsAny(rendered, "&*") {
		if err := rejectAliases(rendered); err != nil {
			return nil, err
		}
	}
	content, err := yaml.YAMLToJSONStrict(rendered)
	if err != nil {
		return nil, fmt.Errorf("reading the YAML: %w", err)
	}
	if len(content) > mostRendered {
		return nil, fmt.Errorf("the object has more than %d bytes", mostRendered)
	}
	return content, nil
}

// rejectAliases refuses anchors and aliases. A few of them make gigabytes of a kilobyte, so they are looked for before they are
// followed.
func rejectAliases(rendered []byte) error {
	document := yamlnodes.NewDecoder(bytes.NewReader(rendered))
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
