package clientcert

import (
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// everything is the group that an API server refuses nothing to.
const everything = "system:masters"

// IdentityError says that an identity on the hub is not that of the cluster's agent.
type IdentityError struct{ Message string }

func (e *IdentityError) Error() string { return e.Message }

// CheckIdentity fails with *IdentityError for an identity on the hub that is not that of a cluster's agent: the one of its certificate, or its
// ServiceAccount's.
func CheckIdentity(cluster string, is authenticationv1.UserInfo) error {
	own := v1alpha1.AgentUserPrefix + cluster
	if is.Username != own && is.Username != accountUser(cluster) {
		return &IdentityError{fmt.Sprintf("the hub knows its user as %q, want %q or %q: let the cluster join with 'kubectl hollow cluster join %s' and --bootstrap-kubeconfig",
			is.Username, own, accountUser(cluster), cluster)}
	}
	if slices.Contains(is.Groups, everything) {
		return &IdentityError{fmt.Sprintf("its user %q is in group %q, which nothing on the hub is refused to", is.Username, everything)}
	}
	return nil
}
