package version

import (
	"runtime/debug"
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: Programs report the release or commit they were built from. Broken: files changed since go unmentioned.
func TestVersions(t *testing.T) {
	const commit = "d7ebb50c0ffee0123456789abcdef0123456789a"
	for name, test := range map[string]struct {
		main, revision, modified, want string
	}{
		"a commit":                 {"v0.0.0-20261122013000-d7ebb50c0ffe", commit, "false", "d7ebb50c0ffe"},
		"a commit after a release": {"v0.2.1-0.20261122013000-d7ebb50c0ffe", commit, "false", "d7ebb50c0ffe"},
		"changed since":            {"v0.0.0-20261122013000-d7ebb50c0ffe+dirty", commit, "true", "d7ebb50c0ffe+dirty"},
		"a release":                {"v0.2.0", commit, "false", "v0.2.0"},
		"a release, changed":       {"v0.2.0+dirty", commit, "true", "v0.2.0+dirty"},
		"a pre-release":            {"v0.2.0-rc.1", commit, "false", "v0.2.0-rc.1"},
		"an older go":              {"(devel)", commit, "true", "d7ebb50c0ffe+dirty"},
		"go install":               {"v0.2.0", "", "", "v0.2.0"},
		"no repository":            {"(devel)", "", "", "dev"},
		"a test":                   {"", "", "", "dev"},
	} {
		t.Run(name, func(t *testing.T) {
			info := &debug.BuildInfo{Main: debug.Module{Version: test.main}}
			if test.revision != "" {
				info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: test.revision}, {Key: "vcs.modified", Value: test.modified}}
			}
			NewWithT(t).Expect(versionOf(info)).To(Equal(test.want))
		})
	}
}
