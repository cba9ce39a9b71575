// The decision on a request is pure.
//
// It approves only what it knows to be right: the one request of a cluster that is accepted, made with a join token
// of that very cluster or by its agent's current identity, for exactly the identity of that agent; and the one request
// that the agent of a host makes for a simulated cluster that it hosts, as policy_hosted.go says. Names are
// compared whole, never by what they start with: agent a must not become agent ab.

package csrapprover

import (
	"fmt"
	"regexp"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// Verdict is what happens to a request.
type Verdict string

// The verdicts.
const (
	// Approve: it is right.
	Approve Verdict = "Approved"
	// Deny: it can never be right; the message says what is wrong.
	Deny Verdict = "Denied"
	// Wait: it is right but for its Cluster, which may still be accepted.
	Wait Verdict = "Waiting"
	// Leave: it is none of the hub's business.
	Leave Verdict = "Left"
)

// The reasons. They stand in the request's condition, in events and in a metric.
const (
	ReasonJoined             = "JoinApproved"
	ReasonRenewed            = "RenewalApproved"
	ReasonHosted             = "HostedJoinApproved"
	ReasonNotAnAgent         = "NotAnAgent"
	ReasonWrongName          = "WrongName"
	ReasonWrongRequest       = "WrongRequest"
	ReasonWrongSubject       = "WrongSubject"
	ReasonExtensions         = "ExtensionsNotAllowed"
	ReasonWeakKey            = "WeakKey"
	ReasonWrongUsages        = "WrongUsages"
	ReasonWrongExpiration    = "WrongExpiration"
	ReasonWrongRequester     = "WrongRequester"
	ReasonClusterNotFound    = v1alpha1.ReasonClusterNotFound
	ReasonClusterDeleting    = "ClusterDeleting"
	ReasonClusterDenied      = "ClusterDenied"
	ReasonAwaitingAcceptance = v1alpha1.ReasonAwaitingAcceptance
	ReasonNotHosted          = "NotHosted"
	ReasonHostSimulated      = v1alpha1.ReasonHostSimulated
	ReasonSimulatedNotFound  = "SimulatedClusterNotFound"
)

// Decision is a verdict with its reason.
type Decision struct {
	Verdict Verdict
	Reason  string
	Message string
	// Cluster is the name of the Cluster that the request is for, if its name tells one.
	Cluster string
}

// clusterName is what the name of a Cluster looks like.
var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Objects are what the name of a request tells of; nil is what does not exist.
type Objects struct {
	// Cluster is that whose agent is to get the certificate.
	Cluster *v1alpha1.Cluster
	// Host is that whose agent asks for it, and Hosted the SimulatedCluster of Cluster's name in its namespace. Both are of
	// requests for simulated clusters only.
	Host   *v1alpha1.Cluster
	Hosted *v1alpha1.SimulatedCluster
}

// Decide decides on a request.
func Decide(csr *certificatesv1.CertificateSigningRequest, objects Objects) Decision {
	host, name, ours := certrequest.ParseName(csr.Name)
	if !ours || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		// The hub may neither approve nor deny requests to another signer.
		return Decision{Verdict: Leave, Reason: ReasonNotAnAgent, Message: fmt.Sprintf(
			"metadata.name is %q and spec.signerName %q: a request of an agent is named %s<cluster> and goes to %s",
			csr.Name, csr.Spec.SignerName, v1alpha1.AgentRequestPrefix, certificatesv1.KubeAPIServerClientSignerName)}
	}
	var decision Decision
	if csr.Name == certrequest.NameOfAgent(name) {
		decision = decide(csr, name, objects.Cluster)
	} else {
		decision = decideHosted(csr, host, name, objects)
	}
	decision.Cluster = name
	return decision
}

func decide(csr *certificatesv1.CertificateSigningRequest, name string, cluster *v1alpha1.Cluster) Decision {
	if !clusterName.MatchString(name) {
		return denyDecision(ReasonWrongName, "metadata.name: %q is not a name of a Cluster: name the request %s<cluster>", name, v1alpha1.AgentRequestPrefix)
	}
	if wrong := checkContents(csr, name); wrong != nil {
		return *wrong
	}
	right, wrong := judgeRequester(csr.Spec.Username, csr.Spec.Groups, name)
	if wrong != nil {
		return *wrong
	}
	return decideByCluster(name, cluster, right)
}

// checkContents says what is wrong with what a request asks for; nil if it is the identity of cluster's agent.
func checkContents(csr *certificatesv1.CertificateSigningRequest, cluster string) *Decision {
	if wrong := checkCertificate(csr.Spec.Request, cluster); wrong != nil {
		return wrong
	}
	if err := certrequest.CheckUsages(csr.Spec.Usages); err != nil {
		return deniedDecision(ReasonWrongUsages, "%v", err)
	}
	return checkExpiration(csr.Spec.ExpirationSeconds)
}

// decideByCluster is what the Cluster means for a request that is right.
func decideByCluster(name string, cluster *v1alpha1.Cluster, right Decision) Decision {
	switch {
	case cluster == nil || cluster.Name != name:
		return Decision{Verdict: Wait, Reason: ReasonClusterNotFound, Message: fmt.Sprintf("there is no Cluster %q", name)}
	case cluster.DeletionTimestamp != nil:
		return denyDecision(ReasonClusterDeleting, "Cluster %s is being removed", name)
	case cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied:
		return denyDecision(ReasonClusterDenied, "Cluster %s is denied: set its spec.acceptance to Accepted to let it join", name)
	case !cluster.Accepted():
		return Decision{Verdict: Wait, Reason: ReasonAwaitingAcceptance, Message: fmt.Sprintf(
			"%s, but Cluster %s is not accepted yet: set its spec.acceptance to Accepted to let it join", right.Message, name)}
	}
	return right
}

func denyDecision(reason, format string, args ...any) Decision {
	return Decision{Verdict: Deny, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func deniedDecision(reason, format string, args ...any) *Decision {
	decision := denyDecision(reason, format, args...)
	return &decision
}

// tokenUser is the user name of a bootstrap token, which ends in the token's ID.
var tokenUser = regexp.MustCompile(`^system:bootstrap:([a-z0-9]{6})$`)

// judgeRequester judges who asks for the identity of cluster's agent: a client with a join token of that cluster and of
// no other, or the agent itself. right is the decision if nothing else is wrong.
func judgeRequester(user string, groups []string, cluster string) (right Decision, wrong *Decision) {
	joins, agents := groupsOf(groups, v1alpha1.JoinGroupPrefix), groupsOf(groups, v1alpha1.AgentGroupPrefix)
	switch {
	case tokenUser.MatchString(user):
		if len(agents) > 0 {
			return right, deniedDecision(ReasonWrongRequester, "spec.groups: a join token that is also an agent's (%s) may not request anything: remove %s* from its auth-extra-groups",
				strings.Join(agents, ", "), v1alpha1.AgentGroupPrefix)
		}
		if len(joins) != 1 || joins[0] != cluster {
			return right, deniedDecision(ReasonWrongRequester, "spec.groups: the token of %s is for %s, not for Cluster %s only: create a token with the one group %s%s",
				user, listClusters(joins), cluster, v1alpha1.JoinGroupPrefix, cluster)
		}
		return Decision{Verdict: Approve, Reason: ReasonJoined, Message: "requested by " + user + " with a join token of this cluster"}, nil
	case user == v1alpha1.AgentUserPrefix+cluster:
		if wrong := checkAgentGroups(user, joins, agents, cluster); wrong != nil {
			return right, wrong
		}
		return Decision{Verdict: Approve, Reason: ReasonRenewed, Message: "requested by the cluster's agent to renew its certificate"}, nil
	}
	return right, deniedDecision(ReasonWrongRequester, "spec.username: %q is neither a join token nor the agent of Cluster %s", user, cluster)
}

// checkAgentGroups says what is wrong with the clusters of an agent's groups; nil if it is an agent of cluster only.
func checkAgentGroups(user string, joins, agents []string, cluster string) *Decision {
	if len(joins) > 0 || len(agents) != 1 || agents[0] != cluster {
		return deniedDecision(ReasonWrongRequester, "spec.groups: %s is an agent of %s, not of Cluster %s only", user, listClusters(append(agents, joins...)), cluster)
	}
	return nil
}

// groupsOf returns the clusters of the groups with that prefix, each once.
func groupsOf(groups []string, prefix string) []string {
	var clusters []string
	seen := map[string]bool{}
	for _, group := range groups {
		if cluster, found := strings.CutPrefix(group, prefix); found && !seen[cluster] {
			seen[cluster] = true
			clusters = append(clusters, cluster)
		}
	}
	return clusters
}

func listClusters(clusters []string) string {
	if len(clusters) == 0 {
		return "no cluster"
	}
	return strings.Join(clusters, ", ")
}

// SpentToken returns the ID of the join token with which a request was made, once an agent of the Cluster has been heard of
// since the certificate was issued: it has taken its certificate, for which it needed the token, and needs it no more.
func SpentToken(csr *certificatesv1.CertificateSigningRequest, cluster *v1alpha1.Cluster) (id string, spent bool) {
	approved := approvedAt(csr)
	if cluster == nil || csr.Name != certrequest.NameOfAgent(cluster.Name) || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName ||
		approved == nil || len(csr.Status.Certificate) == 0 {
		return "", false
	}
	right, wrong := judgeRequester(csr.Spec.Username, csr.Spec.Groups, cluster.Name)
	if wrong != nil || right.Reason != ReasonJoined {
		return "", false
	}
	connected := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	if connected == nil || connected.Status != metav1.ConditionTrue || connected.LastTransitionTime.Before(approved) {
		return "", false
	}
	return tokenUser.FindStringSubmatch(csr.Spec.Username)[1], true
}

// JoinsAgain reports whether a request lets an agent in, with a join token or by its host's agent, although the Cluster has had one before: it has joined, or a
// certificate for another key was approved, with which nobody has connected yet. key is the digest of the request's key.
func JoinsAgain(decision Decision, cluster *v1alpha1.Cluster, key string) bool {
	return approvesJoin(decision) && cluster != nil &&
		(meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition) || cluster.Status.JoinKey != "" && cluster.Status.JoinKey != key)
}

func approvesJoin(decision Decision) bool {
	return decision.Verdict == Approve && (decision.Reason == ReasonJoined || decision.Reason == ReasonHosted)
}

// approvedAt is when a request was approved, nil if it was not.
func approvedAt(csr *certificatesv1.CertificateSigningRequest) *metav1.Time {
	for i := range csr.Status.Conditions {
		if condition := &csr.Status.Conditions[i]; condition.Type == certificatesv1.CertificateApproved {
			return &condition.LastUpdateTime
		}
	}
	return nil
}
