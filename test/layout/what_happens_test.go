package layout_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// drawnSpec is how a spec is called that is made from a fault, such as "should stand it: [kill the hub]".
var drawnSpec = regexp.MustCompile(`^"(.*: )\[(.*)\]"$`)

// isDrawn reports whether the name of a spec is put together in source, from a way and a part that faults has.
func isDrawn(source, faults, name string) bool {
	match := drawnSpec.FindStringSubmatch(name)
	if match == nil || !strings.Contains(source, `"`+match[1]+`%s"`) {
		return false
	}
	words := strings.Split(match[2], " ")
	for i := range words {
		way, part := strings.Join(words[:i], " "), strings.Join(words[i:], " ")
		if strings.Contains(faults, ` Way = "`+way+`"`) && strings.Contains(faults, ` Part = "`+part+`"`) {
			return true
		}
	}
	return false
}

// Every state of the page is a test of that name, in the package that the heading of its kind names.
func TestGitOpsNamesItsTests(t *testing.T) {
	g := NewWithT(t)
	heading := regexp.MustCompile("^### \\w+: `([^`]+)`")
	rows, source := 0, ""
	for line := range strings.Lines(read(t, "docs/gitops.md")) {
		if match := heading.FindStringSubmatch(line); match != nil {
			source = testSource(t, match[1])
			continue
		}
		_, states, found := strings.Cut(line, ": ")
		if source == "" || !found || !strings.HasPrefix(line, "- ") {
			continue
		}
		for state := range strings.SplitSeq(strings.TrimSpace(states), "; ") {
			rows++
			state, _, _ = strings.Cut(state, " (")
			g.Expect(source).To(ContainSubstring(`"`+state+`"`), state)
		}
	}
	g.Expect(rows).To(BeNumerically(">=", 24), "the page has lost rows")
}

// Every row of the page has tests that exist.
func TestWhatHappensWhenHasTests(t *testing.T) {
	g := NewWithT(t)
	faults := regexp.MustCompile(` +`).ReplaceAllString(read(t, "test/integration/fleettest/faults.go"), " ")
	rows, sources := 0, map[string]string{}
	for line := range strings.Lines(read(t, "docs/what-happens-when.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		fault := strings.TrimSpace(cells[0])
		if len(cells) != 4 || strings.HasPrefix(fault, "---") || fault == "fault" {
			continue
		}
		rows++
		expectTests(t, fault, faultTests[fault], sources, faults)
	}
	g.Expect(rows).To(Equal(len(faultTests)), "each fault with tests is on the page")
}

// Every invariant names where it is kept, and has tests that exist.
func TestInvariantsNameTheirTests(t *testing.T) {
	g := NewWithT(t)
	faults := regexp.MustCompile(` +`).ReplaceAllString(read(t, "test/integration/fleettest/faults.go"), " ")
	rows, sources := 0, map[string]string{}
	for line := range strings.Lines(read(t, "docs/invariants.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || !regexp.MustCompile(`^ \d+ $`).MatchString(cells[0]) {
			continue
		}
		rows++
		for _, place := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			g.Expect(filepath.Join(root, place[1])).To(BeADirectory(), "invariant %s", cells[0])
		}
		number := strings.TrimSpace(cells[0])
		if invariantTests[number] == "`test/integration/tenancy`, the whole suite" {
			continue
		}
		expectTests(t, "invariant "+number, invariantTests[number], sources, faults)
	}
	g.Expect(rows).To(Equal(13))
}

// expectTests fails unless text names tests and all of them are there. sources keeps what was read.
func expectTests(t *testing.T, row, text string, sources map[string]string, faults string) {
	t.Helper()
	g := NewWithT(t)
	tests := namedTests(text)
	g.Expect(tests).NotTo(BeEmpty(), "no test stands behind %q", row)
	for _, test := range tests {
		if _, known := sources[test.dir]; !known {
			sources[test.dir] = testSource(t, test.dir)
		}
		source, want := sources[test.dir], test.name
		if !strings.HasPrefix(want, `"`) {
			want = "func " + want + "("
		}
		g.Expect(strings.Contains(source, want) || isDrawn(source, faults, want)).To(BeTrue(),
			"%q: %s has no test %s", row, test.dir, test.name)
	}
}
