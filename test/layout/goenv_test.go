package layout_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: The Makefile and scripts that are called without it compile with the same settings, and a user's GOFLAGS stay. Broken: another GOWORK in the Makefile; GOFLAGS replaced; -trimpath added again.
func TestMakeAndScriptsHaveTheSameSettings(t *testing.T) {
	for given, want := range map[string]string{"-p=4": "-p=4 -trimpath", "-trimpath -p=4": "-trimpath -p=4"} {
		g := NewWithT(t)
		environment := []string{"CGO_ENABLED=1", "GOWORK=", "GOFLAGS=" + given}
		const showSettings = "go env CGO_ENABLED GOWORK GOFLAGS"
		script, err := command(t, environment, "bash", "-euo", "pipefail", "-c", ". hack/goenv.sh; "+showSettings)
		g.Expect(err).NotTo(HaveOccurred(), script)
		g.Expect(script).To(Equal("0\noff\n" + want + "\n"))
		recipe, err := command(t, environment, "make", "--no-print-directory", "--eval=settings: ; @"+showSettings, "settings")
		g.Expect(err).NotTo(HaveOccurred(), recipe)
		g.Expect(recipe).To(Equal(script))
	}
}

var (
	compilesGo  = regexp.MustCompile(`(?m)^([^#\n]*[\s(])?go (build|install|list|run|test|vet)\b`)
	ownSettings = regexp.MustCompile(`(?m)^[^#\n]*(\bCGO_ENABLED=|\bGOWORK=|\bGOFLAGS=|-trimpath)`)
)

// Claim: A script that calls go has the Makefile's settings, also without make. Broken: goenv.sh not read; settings of its own beside it.
func TestScriptsThatCallGoReadTheSettings(t *testing.T) {
	g, found := NewWithT(t), 0
	for _, directory := range []string{"hack", "test", ".ci"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			name, relErr := filepath.Rel(root, path)
			if err != nil || relErr != nil || entry.IsDir() || name == filepath.Join("hack", "goenv.sh") {
				return err
			}
			text := read(t, name)
			if !strings.HasPrefix(text, "#!/usr/bin/env bash\n") || !compilesGo.MatchString(text) {
				return nil
			}
			found++
			g.Expect(text).To(MatchRegexp(`(?m)^\. .*goenv\.sh"?$`), "%s calls go: read hack/goenv.sh before", name)
			g.Expect(ownSettings.FindAllString(text, -1)).To(BeEmpty(), "%s: settings are in hack/goenv.sh", name)
			return nil
		})).To(Succeed())
	}
	g.Expect(found).To(BeNumerically(">=", 13))
}
