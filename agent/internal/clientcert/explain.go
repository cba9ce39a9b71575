package clientcert

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
)

// StoreError says that the credential could not be read from its Store, or not be written there. The hub has no part in
// it, also when it wraps the answer of an API server, which is that of the workload cluster then.
type StoreError struct {
	// Store is its name in messages.
	Store string
	Err   error
}

func (e *StoreError) Error() string { return fmt.Sprintf("%s: %v", e.Store, e.Err) }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// RequestError is the error of a request to an API server. StoreError reports whether that is the workload cluster's; otherwise it
// is the hub's.
type RequestError struct {
	// Verb is get, create, update or delete.
	Verb string
	// Object is its kind and name.
	Object string
	Err    error
}

// gerunds are the verbs as errors have them.
var gerunds = map[string]string{"get": "getting", "create": "creating", "update": "updating", "delete": "deleting"}

func (e *RequestError) Error() string {
	return fmt.Sprintf("%s %s: %v", gerunds[e.Verb], e.Object, e.Err)
}

// Unwrap returns the API server's answer.
func (e *RequestError) Unwrap() error { return e.Err }

// requestError wraps the error of a request, if there is one.
func requestError(verb, object string, err error) error {
	if err == nil {
		return nil
	}
	return &RequestError{Verb: verb, Object: object, Err: err}
}

// API servers in messages.
const (
	onHub      = "on the hub"
	inWorkload = "in the workload cluster"
)

// describePermission names what an API server refused.
func describePermission(err error, server string) string {
	var request *RequestError
	if !errors.As(err, &request) {
		return "permission " + server
	}
	return fmt.Sprintf("permission to %s %s %s", request.Verb, request.Object, server)
}

// isRoleMissing reports whether a Forbidden comes from the authorizer: no role of the user allows the request. Otherwise it comes
// from admission, whose message says what to do.
func isRoleMissing(err error) bool {
	var request *RequestError
	return errors.As(err, &request) && strings.Contains(request.Err.Error(), fmt.Sprintf(`" cannot %s resource "`, request.Verb))
}

// explainError says what a person can do about an error on the way to a credential, which was asked for as that identity.
func (m *Manager) explainError(as hubIdentity, err error) error {
	if stored := (*StoreError)(nil); errors.As(err, &stored) {
		return explainStoreError(err)
	}
	remedy := fmt.Sprintf("create a new one with 'kubectl hollow cluster join %s --again' and put it at %s", m.Cluster, m.Bootstrap)
	switch {
	case as == noIdentity && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoToken)):
		return fmt.Errorf("a bootstrap kubeconfig, because there is no stored credential that the hub accepts: %s: %w", remedy, err)
	case as == joiningIdentity && apierrors.IsUnauthorized(err):
		return fmt.Errorf("a valid join token: the hub rejects the one at %s; it has expired, was removed, or is for another hub: %s: %w", m.Bootstrap, remedy, err)
	case as == ownIdentity && apierrors.IsUnauthorized(err):
		return fmt.Errorf("a new credential: the hub does not accept the current one: %w", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %s: %w", describePermission(err, onHub), m.hubRemedy(as, err, remedy), err)
	case m.credentialKind() == serviceAccountToken && apierrors.IsNotFound(err):
		return fmt.Errorf("the hub to create the agent's ServiceAccount, which it does once Cluster %s is accepted: %w", m.Cluster, err)
	}
	return fmt.Errorf("the hub: %w", clients.Diagnose(err))
}

// hubRemedy says what to do when the hub's API server refuses a request.
func (m *Manager) hubRemedy(as hubIdentity, err error, newToken string) string {
	var request *RequestError
	switch {
	case !isRoleMissing(err):
		return "an admission policy of the hub refuses it; its message says why"
	case as == joiningIdentity && m.credentialKind() == certificate && errors.As(err, &request) && request.Object == clusterObject(m.Cluster):
		return fmt.Sprintf("the token at %s is not for Cluster %s, or that Cluster is denied or does not exist: check with 'kubectl hollow cluster list %s'; if the cluster exists, accept it, or %s",
			m.Bootstrap, m.Cluster, m.Cluster, newToken)
	case m.credentialKind() == serviceAccountToken:
		return fmt.Sprintf("ClusterRole hollowfleet-agent and RoleBinding %s/hollowfleet-agent on the hub grant it: accept the cluster with 'kubectl hollow cluster accept %s' if it is denied; 'hub install' and a running hub restore them",
			m.Cluster, m.Cluster)
	case as == joiningIdentity:
		return fmt.Sprintf("ClusterRole hollowfleet:join:%s on the hub grants it to join tokens: a running hub restores it", m.Cluster)
	}
	return fmt.Sprintf("ClusterRole hollowfleet:cluster:%s on the hub grants it: accept the cluster with 'kubectl hollow cluster accept %s' if it is denied; a running hub restores it",
		m.Cluster, m.Cluster)
}

// podhostPolicy is the ValidatingAdmissionPolicy of simulated clusters that lets only agents of a group write in the podhost's namespace.
const podhostPolicy = "ValidatingAdmissionPolicy 'hollowfleet-podhost'"

// explainStoreError says what a person can do about a store that fails. Other errors are returned unchanged.
func explainStoreError(err error) error {
	var (
		stored  *StoreError
		request *RequestError
	)
	switch {
	case !errors.As(err, &stored):
		return err
	case !errors.As(stored.Err, &request):
		return fmt.Errorf("the store of its credential, which --credential-dir names: %w", err)
	}
	const elsewhere = "or name another one (--credential-secret; chart value target.namespace)"
	switch cause := request.Err; {
	case apierrors.IsUnauthorized(cause):
		return fmt.Errorf("access to the workload cluster, which rejects the agent's user: renew the credential of its --target-kubeconfig (chart value target.kubeconfigSecret): %w", err)
	case apierrors.IsNotFound(cause):
		return fmt.Errorf("the namespace of %s in the workload cluster: apply config/rbac/agent-workload there, %s: %w", request.Object, elsewhere, err)
	case apierrors.HasStatusCause(cause, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("%s: its namespace is being deleted: create it again once it is gone, %s: %w", describePermission(err, inWorkload), elsewhere, err)
	case apierrors.IsForbidden(cause):
		return fmt.Errorf("%s: %s: %w", describePermission(err, inWorkload), workloadRemedy(err), err)
	}
	return fmt.Errorf("the store of its credential in the workload cluster: %w", clients.Diagnose(err))
}

// workloadRemedy says what to do when the workload cluster's API server refuses a request.
func workloadRemedy(err error) string {
	switch {
	case strings.Contains(err.Error(), podhostPolicy):
		return "it is a simulated one, and the Secret is in the namespace of its podhost, where only users of group hollowfleet:agents write Secrets and pods, and no ServiceAccount: " +
			"start the agent with the kubeconfig of 'simcluster kubeconfig --user hollowfleet-agent --group hollowfleet:agents' as --target-kubeconfig " +
			"(chart value target.kubeconfigSecret; the chart simcluster does this automatically)"
	case isRoleMissing(err):
		return "Role hollowfleet-agent there allows it in the agent's namespace: apply config/rbac/agent-workload, or name a Secret of the namespace that has this Role " +
			"(--credential-secret; chart values target.namespace and hub.credentialSecret)"
	}
	return "an admission policy or webhook there refuses it; the message says why"
}
