package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// generated has one schema for each rule, as controller-gen writes it, and what must stay as it is.
const generated = `---
a:
  lastTransitionTime: {format: date-time, type: string}
  message: {maxLength: 32768, type: string}
  largest: {maximum: 9007199254740993, type: integer}
  format: {type: object, properties: {format: {type: string}}}
  capacity:
    pattern: ^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$
    x-kubernetes-int-or-string: true
  minSuccessTime: {type: string}
  progressDeadline: {pattern: '^(([0-9])+[h|m|s])|None$', type: string}
  maxFailures: {pattern: '^((100|[0-9]{1,2})%|[0-9]+)$', x-kubernetes-int-or-string: true}
  mandatoryDecisionGroups:
    items: {properties: {groupName: {type: string}}}
    type: array
  matchExpressions: {items: {properties: {values: {type: array}}}, type: array}
`

const bounded = `---
a:
  capacity:
    maxLength: 48
    pattern: ^[-+]?([0-9]{1,20}(\.[0-9]{0,18})?|\.[0-9]{1,18})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$
    x-kubernetes-int-or-string: true
  format:
    properties:
      format:
        type: string
    type: object
  largest:
    maximum: 9007199254740993
    type: integer
  lastTransitionTime:
    maxLength: 35
    pattern: ^([12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|([12][0-9](0[48]|[2468][048]|[13579][26])|2000)-02-29)T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$
    type: string
  mandatoryDecisionGroups:
    items:
      properties:
        groupName:
          maxLength: 63
          type: string
    maxItems: 64
    type: array
  matchExpressions:
    items:
      properties:
        values:
          maxItems: 256
          type: array
    type: array
  maxFailures:
    maxLength: 16
    maximum: 1000000
    minimum: 0
    pattern: ^((100|[0-9]{1,2})%|[0-9]+)$
    x-kubernetes-int-or-string: true
  message:
    maxLength: 4096
    type: string
  minSuccessTime:
    maxLength: 32
    pattern: ^(0|([0-9]{1,5}h|[0-9]{1,7}m|[0-9]{1,9}s)+)$
    type: string
  progressDeadline:
    maxLength: 32
    pattern: ^(None|([0-9]{1,5}h|[0-9]{1,7}m|[0-9]{1,9}s)+)$
    type: string
`

func TestTypesOfOthersAreBounded(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "crd.yaml")
	g.Expect(os.WriteFile(file, []byte(generated), 0o600)).To(Succeed())
	g.Expect(run([]string{file})).To(Succeed())
	content, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(bounded))
}

// A new version of a dependency may write another schema: it must not get by without its bounds.
func TestARuleThatFindsNothingIsAnError(t *testing.T) {
	g := NewWithT(t)
	first, second := filepath.Join(t.TempDir(), "first.yaml"), filepath.Join(t.TempDir(), "second.yaml")
	one := []byte("a:\n  time: {format: date-time, type: string}\n")
	g.Expect(os.WriteFile(first, one, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(second, []byte("a: {}\n"), 0o600)).To(Succeed())
	g.Expect(run([]string{first, second})).To(MatchError(ContainSubstring("no schema of quantities is left")))
	content, err := os.ReadFile(first)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(content).To(Equal(one), "no file is changed by halves")
}

// Claim: `kubectl explain` shows paragraphs, not lines of Go comments. Broken: lines are not joined.
func TestParagraphsOfDescriptionsAreOneLine(t *testing.T) {
	g := NewWithT(t)
	content, err := boundSchemas([]byte(`{"a": {"description": "One\ntwo.\n\nThree:\n- four\n  five\n- six\n\tcode\n\nend"}}`), nil, map[string]bool{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal("---\na:\n  description: \"One two.\\n\\nThree:\\n- four\\n  five\\n- six\\n\\tcode\\n\\nend\"\n"))
}
