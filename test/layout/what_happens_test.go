package layout_test

import (
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// drawnSpec is how a spec is called that is made from a fault, such as "should stand it: [kill the hub]".
var drawnSpec = regexp.MustCompile(`^"(.*: )\[(.*)\]"$`)

// isDrawn tells whether the name of a spec is put together in source, from a way and a part that faults has.
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

// Every row of the page names tests that there are.
func TestWhatHappensWhenNamesItsTests(t *testing.T) {
	g := NewWithT(t)
	faults := regexp.MustCompile(` +`).ReplaceAllString(read(t, "test/integration/fleettest/faults.go"), " ")
	rows, sources := 0, map[string]string{}
	for line := range strings.Lines(read(t, "docs/what-happens-when.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[4], "---") || strings.TrimSpace(cells[0]) == "fault" {
			continue
		}
		rows++
		tests := namedTests(cells[4])
		g.Expect(tests).NotTo(BeEmpty(), "no test stands behind %q", cells[0])
		for _, test := range tests {
			if _, known := sources[test.dir]; !known {
				sources[test.dir] = testSource(t, test.dir)
			}
			source, want := sources[test.dir], test.name
			if !strings.HasPrefix(want, `"`) {
				want = "func " + want + "("
			}
			g.Expect(strings.Contains(source, want) || isDrawn(source, faults, want)).To(BeTrue(),
				"%q: %s has no test %s", cells[0], test.dir, test.name)
		}
	}
	g.Expect(rows).To(BeNumerically(">=", 25), "the page has lost rows")
}
