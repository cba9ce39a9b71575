package version

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// maxSkew is how many minor versions agent and hub may be apart, so that the one can be upgraded after the other.
const maxSkew = 1

// UnsupportedSkew says why an agent of one version does not work for a hub of another, and what to do. It is empty if they work
// together, and if that is unknown because one of them is no release: a commit, a program without a version, or v0.0.0.
func UnsupportedSkew(agent, hub string) string {
	ours, ok := parseRelease(agent)
	if !ok {
		return ""
	}
	theirs, ok := parseRelease(hub)
	if !ok {
		return ""
	}
	const problem = "agent %s does not work for hub %s: "
	switch {
	case ours.Major() != theirs.Major():
		return fmt.Sprintf(problem+"they are of different major versions; bring both to the same release", agent, hub)
	case theirs.Minor() > ours.Minor()+maxSkew:
		return fmt.Sprintf(problem+"it is more than one minor version older; upgrade the agent to v%d.%d or %s",
			agent, hub, theirs.Major(), theirs.Minor()-maxSkew, hub)
	case ours.Minor() > theirs.Minor()+maxSkew:
		return fmt.Sprintf(problem+"it is more than one minor version newer; upgrade the hub to v%d.%d or %s",
			agent, hub, ours.Major(), ours.Minor()-maxSkew, agent)
	}
	return ""
}

// parseRelease reads a version, if it is that of a release.
func parseRelease(of string) (*version.Version, bool) {
	parsed, err := version.ParseSemantic(of)
	if err != nil || parsed.Major() == 0 && parsed.Minor() == 0 && parsed.Patch() == 0 {
		return nil, false
	}
	return parsed, true
}
