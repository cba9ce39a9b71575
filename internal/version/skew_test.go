package version

import (
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: Version skew freezes and names the remedy. Broken: two minor versions let through; major versions not compared; `v0.0.0` taken for a release; the hub does not tell its version; the agent does not freeze for it; one minor version refused; its last log line without the cause; it is no reason to be Stalled. Also: agent TestVersionSkew; hub/internal/cluster TestTheClusterTellsTheHubsVersion, TestAnAgentOfAnotherVersionFreezesItsCluster, TestKStatus.
func TestSkew(t *testing.T) {
	for name, test := range map[string]struct{ agent, hub, want string }{
		"the same":                      {"v0.2.0", "v0.2.0", ""},
		"another patch":                 {"v0.2.7", "v0.2.0", ""},
		"one older":                     {"v0.2.9", "v0.3.0", ""},
		"one newer":                     {"v0.3.0", "v0.2.9", ""},
		"two older":                     {"v0.1.9", "v0.3.0", "agent v0.1.9 does not work for hub v0.3.0: it is more than one minor version older; upgrade the agent to v0.2 or v0.3.0"},
		"two newer":                     {"v0.4.0", "v0.2.9", "agent v0.4.0 does not work for hub v0.2.9: it is more than one minor version newer; upgrade the hub to v0.3 or v0.4.0"},
		"ten and nine":                  {"v0.9.0", "v0.10.0", ""},
		"two and ten":                   {"v0.2.0", "v0.10.0", "upgrade the agent to v0.9 or v0.10.0"},
		"another major version":         {"v1.0.0", "v0.9.0", "they are of different major versions; bring both to the same release"},
		"a pre-release":                 {"v0.4.0-rc.1", "v0.2.0", "more than one minor version newer"},
		"a release, changed since":      {"v0.4.0+dirty", "v0.2.0", "more than one minor version newer"},
		"a commit":                      {"d7ebb50c0ffe", "v0.9.0", ""},
		"a commit of digits":            {"123456789012", "v0.9.0", ""},
		"a hub of a commit":             {"v0.9.0", "d7ebb50c0ffe+dirty", ""},
		"a commit before any release":   {"v0.0.0-20261122013000-d7ebb50c0ffe", "v0.9.0", ""},
		"a program without a version":   {"dev", "v0.9.0", ""},
		"a hub that has said nothing":   {"v0.9.0", "", ""},
		"a hub that says what is none":  {"v0.9.0", "latest", ""},
		"a test's own version":          {"v0-test", "v0.9.0", ""},
		"a hub before its first commit": {"v0.9.0", "v0.0.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := UnsupportedSkew(test.agent, test.hub)
			if test.want == "" {
				NewWithT(t).Expect(got).To(BeEmpty())
				return
			}
			NewWithT(t).Expect(got).To(ContainSubstring(test.want))
		})
	}
}
