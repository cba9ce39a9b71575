package layout_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
