package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
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

// emulatedMinor is the minor that the components get for a version that is asked for, such as 1.36. Empty is the program's own.
func emulatedMinor(wanted string) (string, error) {
	supported := supportedVersions()
	if wanted != "" && !slices.Contains(supported, wanted) {
		return "", &clusterdriver.RefusedError{
			Refusal: clusterdriver.VersionNotSupported, Versions: supported,
			Problem: fmt.Sprintf("spec.versions.controlPlane: %s cannot be run: choose one of %s", wanted, strings.Join(supported, ", ")),
		}
	}
	parsed := version.MustParseGeneric(cmp.Or(wanted, programVersion))
	return fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor()), nil
}

// checkUpgrade refuses a version of an earlier minor than what the control plane was asked for before, and one that skips a minor. Empty is
// the program's own.
func checkUpgrade(before, wanted string) error {
	before, wanted = cmp.Or(before, programVersion), cmp.Or(wanted, programVersion)
	from, err := version.ParseGeneric(before)
	if err != nil {
		return refuseCluster(clusterdriver.Invalid, "ConfigMap %s in its namespace has version %q, which cannot be read: %v: correct it", rendering.VersionMap, before, err)
	}
	to, err := version.ParseGeneric(wanted)
	if err != nil {
		return refuseCluster(clusterdriver.Invalid, "spec.versions.controlPlane: %v", err)
	}
	switch {
	case v1alpha1.IsEarlierMinor(wanted, before):
		return refuseCluster(clusterdriver.Downgrade, "spec.versions.controlPlane: a control plane cannot go back from %s to %s: create another SimulatedCluster", before, wanted)
	case to.Major() != from.Major() || to.Minor() > from.Minor()+1:
		return refuseCluster(clusterdriver.Changing, "spec.versions.controlPlane: an upgrade skips no minor: from %s ask for v%d.%d first", before, from.Major(), from.Minor()+1)
	}
	return nil
}

// isEarlier reports whether a version is of an earlier minor than another. One that cannot be read is.
func isEarlier(a, b string) bool {
	first, errFirst := version.ParseGeneric(a)
	second, errSecond := version.ParseGeneric(cmp.Or(b, programVersion))
	return errFirst != nil || errSecond != nil || first.Minor() < second.Minor()
}
