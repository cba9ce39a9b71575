package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
)

const (
	// programVersion is the Kubernetes version of the program simcluster of this release.
	programVersion = "v1.37.1"
	// emulatedMinors is how many minors before its own it emulates.
	emulatedMinors = 3
)

// supportedVersions are those that control planes can have, in their order. The last two are that of the program.
func supportedVersions() []string {
	own := version.MustParseSemantic(programVersion)
	var all []string
	for minor := int(own.Minor()) - emulatedMinors; minor <= int(own.Minor()); minor++ {
		all = append(all, fmt.Sprintf("v%d.%d", own.Major(), minor))
	}
	return append(all, programVersion)
}

// emulatedMinor is what --emulated-version gets for a version that is asked for; empty for the program's own.
func emulatedMinor(wanted string) (string, error) {
	supported := supportedVersions()
	if wanted != "" && !slices.Contains(supported, wanted) {
		return "", &clusterdriver.RefusedError{
			Refusal: clusterdriver.VersionNotSupported, Versions: supported,
			Problem: fmt.Sprintf("spec.versions.controlPlane: %s cannot be run: choose one of %s", wanted, strings.Join(supported, ", ")),
		}
	}
	if wanted == "" || slices.Contains(supported[len(supported)-2:], wanted) {
		return "", nil
	}
	return strings.TrimPrefix(wanted, "v"), nil
}

// checkUpgrade refuses a version of an earlier minor than what the control plane has had. Empty is the program's own.
func checkUpgrade(before, wanted string) error {
	before, wanted = cmp.Or(before, programVersion), cmp.Or(wanted, programVersion)
	from, err := version.ParseGeneric(before)
	if err != nil {
		return refuseCluster(clusterdriver.Invalid, "its StatefulSet has version %q, which cannot be read: %v", before, err)
	}
	to, err := version.ParseGeneric(wanted)
	if err != nil {
		return refuseCluster(clusterdriver.Invalid, "spec.versions.controlPlane: %v", err)
	}
	if to.Major() < from.Major() || to.Major() == from.Major() && to.Minor() < from.Minor() {
		return refuseCluster(clusterdriver.VersionNotSupported, "spec.versions.controlPlane: a control plane cannot go back from %s to %s: create another SimulatedCluster", before, wanted)
	}
	return nil
}
