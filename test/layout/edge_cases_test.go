package layout_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var (
	packagePattern = regexp.MustCompile("^`([^`]+)` ")
	numberPattern  = regexp.MustCompile(`#(\d+)`)
)

// named is a test that a page names: a function, or a subtest or spec in quotes.
type named struct{ dir, name string }

// namedTests reads "`dir` TestA, "a subtest"; `other` TestB".
func namedTests(cell string) []named {
	var tests []named
	for _, group := range strings.Split(cell, "; `") {
		group = "`" + strings.TrimPrefix(strings.TrimSpace(group), "`")
		place := packagePattern.FindStringSubmatch(group)
		if place == nil {
			return nil
		}
		rest := strings.TrimPrefix(group, place[0])
		for rest != "" {
			var name string
			if strings.HasPrefix(rest, `"`) {
				end := strings.Index(rest[1:], `"`) + 2
				name, rest = rest[:end], rest[end:]
			} else {
				name, rest, _ = strings.Cut(rest+",", ",")
			}
			tests = append(tests, named{place[1], strings.TrimSpace(name)})
			rest = strings.TrimLeft(rest, ", ")
		}
	}
	return tests
}

// Every row of the page has tests that there are, and where the row has an issue's number, one that is named after it.
func TestEveryEdgeCaseHasItsTest(t *testing.T) {
	g := NewWithT(t)
	rows, sources := 0, map[string]string{}
	for _, line := range strings.Split(read(t, "docs/edge-cases.md"), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 || !strings.HasPrefix(line, "| ") || !strings.Contains(line, "`") {
			continue
		}
		rows++
		row := strings.TrimPrefix(cells[0], "| ")
		tests := namedTests(strings.TrimSuffix(cells[1], " |"))
		g.Expect(tests).NotTo(BeEmpty(), row)
		var all []string
		for _, test := range tests {
			if _, known := sources[test.dir]; !known {
				sources[test.dir] = testSource(t, test.dir)
			}
			want := test.name
			if !strings.HasPrefix(want, `"`) {
				want = "func " + want + "("
			}
			g.Expect(strings.Contains(sources[test.dir], want)).To(BeTrue(), "%s: %s has no test %s", row, test.dir, test.name)
			all = append(all, test.name)
		}
		if numbers := numberPattern.FindAllString(row, -1); numbers != nil {
			after := func(name string) bool {
				return slices.ContainsFunc(numberPattern.FindAllString(name, -1), func(n string) bool { return slices.Contains(numbers, n) })
			}
			g.Expect(slices.ContainsFunc(all, after)).To(BeTrue(), "%s: no test is named after it", row)
		}
	}
	g.Expect(rows).To(BeNumerically(">=", 30), "the page has lost rows")
}

// testSource is the text of all tests of a package.
func testSource(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	return all.String()
}

// A row that stands twice is changed in one place only.
func TestNoRowStandsTwice(t *testing.T) {
	g := NewWithT(t)
	for _, page := range []string{"docs/edge-cases.md", "docs/claims.md"} {
		rows := map[string]bool{}
		for _, line := range strings.Split(read(t, page), "\n") {
			row, _, table := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
			if !table || !strings.HasPrefix(line, "| ") || !strings.Contains(line, "`") {
				continue // The head of a table names no test.
			}
			g.Expect(rows).NotTo(HaveKey(row), "%s has this row twice", page)
			rows[row] = true
		}
		g.Expect(rows).NotTo(BeEmpty(), page)
	}
}
