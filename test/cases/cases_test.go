// Package cases keeps inputs of public bug reports of other projects, with what Hollowfleet answers.
package cases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// expected is what is said of a case in expected.yaml.
type expected struct {
	Answer, Package, Test string
	Loads                 bool
}

// TestEveryCaseHasItsTest lets no file be left out.
// Claim: Public cases are kept with answers. Broken: an answer left out; a test that is named is gone (those tests not broken here). Also: hub/internal/fleet/calendar TestWindowsOfPublicCasesOpenOnTheirDay; hub/internal/machinedeployment/plan TestPublicCasesOfSpellingAreTheSame.
func TestEveryCaseHasItsTest(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("expected.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	answers := map[string]expected{}
	g.Expect(yaml.UnmarshalStrict(text, &answers)).To(Succeed())
	files, err := filepath.Glob("testdata/*")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(len(answers)), "each file has an answer, and each answer a file")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			want, told := answers[filepath.Base(file)]
			g.Expect(told).To(BeTrue(), "expected.yaml says nothing of it")
			g.Expect(want.Answer).NotTo(BeEmpty())
			sources, err := filepath.Glob(filepath.Join("..", "..", want.Package, "*_test.go"))
			g.Expect(err).NotTo(HaveOccurred())
			declared, loaded := false, false
			for _, source := range sources {
				code, err := os.ReadFile(source)
				g.Expect(err).NotTo(HaveOccurred())
				if strings.Contains(string(code), "func "+want.Test+"(t *testing.T)") {
					declared = true
					loaded = strings.Contains(string(code), "test/cases/testdata")
				}
			}
			g.Expect(declared).To(BeTrue(), "%s has no %s", want.Package, want.Test)
			g.Expect(loaded).To(Equal(want.Loads), "whether the test reads the file")
			expectObjectsOfToday(t, file)
		})
	}
}

// expectObjectsOfToday fails for an object with a field that its kind does not have any more: the case would try something else.
func expectObjectsOfToday(t *testing.T, file string) {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		head := struct{ APIVersion, Kind string }{}
		g.Expect(yaml.Unmarshal([]byte(document), &head)).To(Succeed())
		if head.APIVersion != v1alpha1.GroupVersion.String() {
			continue
		}
		object, known := map[string]any{"MachineFleet": &v1alpha1.MachineFleet{}, "MachineDeployment": &v1alpha1.MachineDeployment{},
			"MachineSet": &v1alpha1.MachineSet{}, "Machine": &v1alpha1.Machine{}}[head.Kind]
		g.Expect(known).To(BeTrue(), head.Kind)
		g.Expect(yaml.UnmarshalStrict([]byte(document), object)).To(Succeed())
		problem := object.(interface{ NotDecoded() string }).NotDecoded()
		g.Expect(problem).To(BeEmpty())
	}
}
