package hollownode

import (
	"errors"
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
