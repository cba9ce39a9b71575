package hollownode

import (
	"errors"
	"fmt"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// CheckKubeletVersion reports whether a hollow-node can report v as the version of its kubelet. A hollow-node does not
// start with any other.
func CheckKubeletVersion(v string) error {
	if _, err := utilversion.ParseSemantic(v); err != nil {
		return err
	}
	if !strings.HasPrefix(v, "v") {
		return errors.New("no leading v")
	}
	return nil
}

// CheckContainerRuntimeVersion reports whether a hollow-node can report v as the version of its container runtime. A
// kubelet does not start with any other.
func CheckContainerRuntimeVersion(v string) error {
	_, err := utilversion.ParseGeneric(v)
	return err
}

// BuiltInMinor is the Kubernetes minor whose kubelet code the program hollow-node has. Programs with other minors may be built beside it.
const BuiltInMinor = "1.37"

// MinorOf returns the Kubernetes minor of a version, such as "1.36" for "v1.36.2", and nothing for what is not a version.
func MinorOf(v string) string {
	parsed, err := utilversion.ParseGeneric(v)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor())
}
