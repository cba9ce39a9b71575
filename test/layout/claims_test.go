package layout_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var updateClaims = flag.Bool("update", false, "write docs/contributing/claims.md from the lines above tests")

// A line above a test, or above a spec or a row of a table by its name, says what the test keeps. What was broken to see it fail,
// and further tests, stand behind it and are left out of the page. So are edge cases, which are found where their tests are.
var (
	claimPattern = regexp.MustCompile(`^\s*// (Claim|Edge case): (.+?)(?:\. Broken: (.+?))?(?:\. Also: (.+))?\.$`)
	alsoPattern  = regexp.MustCompile(`"[^"]+"|\b(?:Test|Fuzz)\w+|[\w\-]+(?:/[\w\-]+)*`)
)

const claimsPath = "docs/contributing/claims.md"

const claimsIntroduction = `<!-- Made from the lines "// Claim:" above tests by "go test ./test/layout -run TestClaimPages -update". -->
# Claims

What Hollowfleet promises, by package. Search a line in its package: the test is below it. Without a test are whether Grafana
takes the dashboards, the memory of Realistic, and all times (` + "`make bench`" + ` prints them).`

// ofRepository are packages whose claims are about the repository, not the product: the pages leave them out.
var ofRepository = regexp.MustCompile(`^(test/(fidelity|layout)|hack/(tools|crdbounds)|internal/dev)(/|$)`)

// claim is one line above a test.
type claim struct{ kind, dir, text string }

// claimsIn reads the claims of a file, and reports those that stand above no test or name tests that do not exist.
func claimsIn(t *testing.T, path string) []claim {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.ToSlash(filepath.Dir(path))
	var claims []claim
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		match := claimPattern.FindStringSubmatch(line)
		if match == nil {
			if comment := strings.TrimSpace(line); strings.HasPrefix(comment, "// Claim:") || strings.HasPrefix(comment, "// Edge case:") {
				t.Errorf("%s:%d: a claim is one line and ends with a full stop", path, i+1)
			}
			continue
		}
		below := i + 1
		for strings.HasPrefix(strings.TrimSpace(lines[below]), "//") {
			below++
		}
		if !strings.Contains(lines[below], `"`) && !strings.HasPrefix(lines[below], "func ") {
			t.Errorf("%s:%d: no test below %q", path, i+1, match[2])
		}
		expectAlso(t, dir, match[2], match[4])
		if numbers := numberPattern.FindAllString(match[2], -1); numbers != nil {
			named := func(number string) bool { return strings.Contains(lines[below]+match[4], number) }
			NewWithT(t).Expect(slices.ContainsFunc(numbers, named)).To(BeTrue(), "%s: no test is named after %q", path, match[2])
		}
		claims = append(claims, claim{match[1], dir, match[2]})
	}
	return claims
}

// expectAlso fails unless the further tests of a claim exist. A word that is no test is the package of those behind it.
func expectAlso(t *testing.T, dir, claimed, also string) {
	t.Helper()
	for _, word := range alsoPattern.FindAllString(also, -1) {
		want := "func " + word + "("
		switch {
		case strings.HasPrefix(word, `"`):
			want, _, _ = strings.Cut(word, "[") // What follows is drawn from the faults.
		case !strings.HasPrefix(word, "Test") && !strings.HasPrefix(word, "Fuzz"):
			dir = word
			continue
		}
		if !strings.Contains(testSource(t, dir), want) {
			t.Errorf("%s has no test %s, which %q names", dir, word, claimed)
		}
	}
}

// claimPage lists claims under their packages.
func claimPage(claims []claim) string {
	var page strings.Builder
	page.WriteString(claimsIntroduction)
	dir := ""
	for _, each := range claims {
		if each.dir != dir {
			dir = each.dir
			fmt.Fprintf(&page, "\n\n**`%s`**", dir)
		}
		fmt.Fprintf(&page, "\\\n%s", each.text)
	}
	return page.String() + "\n"
}

func TestClaimPages(t *testing.T) {
	g := NewWithT(t)
	of := map[string][]claim{}
	seen := map[claim]bool{}
	g.Expect(filepath.WalkDir(filepath.FromSlash(root), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, entry.Name()) {
			return errOr(err, filepath.SkipDir)
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(root, path)
		for _, each := range claimsIn(t, relative) {
			g.Expect(seen[each]).To(BeFalse(), "%v stands twice", each)
			seen[each] = true
			if !ofRepository.MatchString(each.dir) {
				of[each.kind] = append(of[each.kind], each)
			}
		}
		return err
	})).To(Succeed())
	for kind := range of {
		g.Expect(len(of[kind])).To(BeNumerically(">=", 150), "lines of the kind %s were lost", kind)
	}
	slices.SortStableFunc(of["Claim"], func(a, b claim) int { return strings.Compare(a.dir, b.dir) })
	want := claimPage(of["Claim"])
	if *updateClaims {
		g.Expect(os.WriteFile(filepath.Join(root, claimsPath), []byte(want), 0o644)).To(Succeed())
	}
	g.Expect(read(t, claimsPath)).To(Equal(want), "run go test ./test/layout -run TestClaimPages -update")
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
