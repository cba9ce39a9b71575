package kubeburner

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar is a single value in a document: its place in the text, and the keys that lead to it.
type scalar struct {
	from, to int
	keys     []string
	// siblings is the map that has it.
	siblings *yaml.Node
}

// nthKey is the nth key from the last.
func (s *scalar) nthKey(n int) string {
	if n >= len(s.keys) {
		return ""
	}
	return s.keys[len(s.keys)-1-n]
}

// listScalars are all single values of the document.
func (d *document) listScalars() (all []*scalar) {
	var walk func(node, parent *yaml.Node, keys []string)
	walk = func(node, parent *yaml.Node, keys []string) {
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				walk(node.Content[i+1], node, append(slices.Clip(keys), node.Content[i].Value))
			}
		case yaml.SequenceNode:
			for _, item := range node.Content {
				walk(item, parent, keys)
			}
		case yaml.ScalarNode:
			if found := d.locateScalar(node); found != nil {
				found.keys, found.siblings = keys, parent
				all = append(all, found)
			}
		case yaml.DocumentNode, yaml.AliasNode: // Refused before.
		}
	}
	if d.root != nil {
		walk(d.root, d.root, nil)
	}
	return all
}

// hasAlias reports whether a part of a document stands for another one.
func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

// locateScalar finds where the text has a value; nil for one of several lines, or with escapes.
func (d *document) locateScalar(node *yaml.Node) *scalar {
	lines := strings.SplitAfter(d.masked, "\n")
	if node.Line > len(lines) || node.Value == "" {
		return nil
	}
	from := 0
	for _, line := range lines[:node.Line-1] {
		from += len(line)
	}
	before := []rune(lines[node.Line-1])
	if node.Column-1 > len(before) {
		return nil
	}
	from += len(string(before[:node.Column-1]))
	if node.Style == yaml.DoubleQuotedStyle || node.Style == yaml.SingleQuotedStyle {
		from++
	}
	if !strings.HasPrefix(d.masked[min(from, len(d.masked)):], node.Value) {
		return nil
	}
	return &scalar{from: from, to: from + len(node.Value)}
}

// scalarAt finds a value by its keys.
func (d *document) scalarAt(keys ...string) *scalar {
	for _, one := range d.listScalars() {
		if slices.Equal(one.keys, keys) {
			return one
		}
	}
	return nil
}

// textOf is the value of a field at the top, as kube-burner fills it in for the first object.
func (d *document) textOf(key string) string {
	found := d.scalarAt(key)
	if found == nil {
		return ""
	}
	return d.fillForIndex(d.text[found.from:found.to], 0)
}

// textBeside is the value that the map of a scalar has for another key.
func (d *document) textBeside(s *scalar, key string) string {
	for i := 0; i+1 < len(s.siblings.Content); i += 2 {
		if s.siblings.Content[i].Value != key {
			continue
		}
		if found := d.locateScalar(s.siblings.Content[i+1]); found != nil {
			return d.fillForIndex(d.text[found.from:found.to], 0)
		}
	}
	return ""
}
