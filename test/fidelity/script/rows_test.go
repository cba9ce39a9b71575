package script_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/test/fidelity/script"
)

// verdicts are what the third column of a row may say.
var verdicts = regexp.MustCompile(`^(same|adjustable|absent, because .+)$`)

// rows reads the first table of docs/fidelity.md: verdicts by behaviour.
func rows(g Gomega, page string) map[string]string {
	_, table, found := strings.Cut(page, "| behaviour | a hollow node | verdict |\n|---|---|---|\n")
	g.Expect(found).To(BeTrue(), "docs/fidelity.md has its table")
	all := map[string]string{}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		g.Expect(cells).To(HaveLen(3), line)
		all[strings.TrimSpace(cells[0])] = strings.TrimSpace(cells[2])
	}
	g.Expect(len(all)).To(BeNumerically(">", 20), "the rows of docs/fidelity.md")
	return all
}

// Claim: Each behaviour in docs/fidelity.md has a verdict and a step that holds it against a real node. Broken: a row without a step; a step without a row; a row whose verdict is empty; a row whose verdict is not its step's.
func TestEachRowHasAVerdictAndAStep(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/fidelity.md")
	g.Expect(err).NotTo(HaveOccurred())
	table, steps := rows(g, string(page)), script.Steps()
	for row, verdict := range table {
		g.Expect(verdict).To(MatchRegexp(verdicts.String()), "the verdict of row %q", row)
		g.Expect(slices.ContainsFunc(steps, func(s *script.Step) bool { return s.Row == row })).To(BeTrue(), "row %q has no step in test/fidelity/script", row)
	}
	for _, step := range steps {
		g.Expect(table).To(HaveKey(step.Row), "step %s has no row in docs/fidelity.md", step.Name)
		said, _, _ := strings.Cut(table[step.Row], ",")
		g.Expect(said).To(Equal(string(step.Verdict)), "the verdict of row %q, and of step %s", step.Row, step.Name)
	}
}

// Claim: A step says what is not the same and why, or why it cannot run. Broken: a difference without a reason; an absent behaviour whose step shows no difference; one that is the same and declares a difference of the hollow node; two steps with one name.
func TestSteps(t *testing.T) {
	g := NewWithT(t)
	names := map[string]bool{}
	for _, step := range script.Steps() {
		g.Expect(names).NotTo(HaveKey(step.Name))
		names[step.Name] = true
		g.Expect(step.Run == nil).To(Equal(step.NotRun != ""), "step %s is run, or says why not", step.Name)
		ofNode := 0
		for _, declared := range step.Declared {
			g.Expect(declared.Figure).NotTo(BeEmpty(), step.Name)
			g.Expect(declared.Because).NotTo(BeEmpty(), "%s: %s", step.Name, declared.Figure)
			if !declared.NotOfNode {
				ofNode++
			}
		}
		if step.Verdict == script.Same {
			g.Expect(ofNode).To(BeZero(), "step %s declares a difference, and its row says same", step.Name)
		}
		if step.Verdict == script.Absent && step.Run != nil {
			g.Expect(ofNode).NotTo(BeZero(), "step %s declares no difference, and its row says absent", step.Name)
		}
	}
}
