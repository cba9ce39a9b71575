package joining

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// reserved are names and prefixes of namespaces that a hub may have anyway, which may be a workload cluster too, with an
// agent. The CRD refuses them as well.
var (
	reservedNames    = []string{"default", "hollowfleet", "hollowfleet-system", "cert-manager"}
	reservedPrefixes = []string{"kube-", "openshift-", "open-cluster-management"}
)

// CheckName says what is wrong with a name for a cluster.
func CheckName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("cluster name %q: %s", name, problems[0])
	}
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	if slices.Contains(reservedNames, name) || slices.ContainsFunc(reservedPrefixes, hasPrefix) {
		return fmt.Errorf("cluster name %q: reserved for a namespace of the hub itself or of an agent; choose another name", name)
	}
	return nil
}
