package csrapprover

import (
	"regexp"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// tokenUser is the user name of a bootstrap token, which ends in the token's ID.
var tokenUser = regexp.MustCompile(`^system:bootstrap:([a-z0-9]{6})$`)

// requester judges who asks for the identity of cluster's agent: a client with a join token of that cluster and of
// no other, or the agent itself. right is the decision if nothing else is wrong.
func requester(user string, groups []string, cluster string) (right Decision, wrong *Decision) {
	joins, agents := groupsOf(groups, v1alpha1.JoinGroupPrefix), groupsOf(groups, v1alpha1.AgentGroupPrefix)
	switch {
	case tokenUser.MatchString(user):
		if len(agents) > 0 {
			return right, denied(ReasonWrongRequester, "spec.groups: a join token that is also an agent's (%s) may ask for nothing: take %s* off its auth-extra-groups",
				strings.Join(agents, ", "), v1alpha1.AgentGroupPrefix)
		}
		if len(joins) != 1 || joins[0] != cluster {
			return right, denied(ReasonWrongRequester, "spec.groups: the token of %s is for %s, not for Cluster %s alone: make a token with the one group %s%s",
				user, listed(joins), cluster, v1alpha1.JoinGroupPrefix, cluster)
		}
		return Decision{Verdict: Approve, Reason: ReasonJoined, Message: "requested by " + user + " with a join token of this cluster"}, nil
	case user == v1alpha1.AgentUserPrefix+cluster:
		if len(joins) > 0 || len(agents) != 1 || agents[0] != cluster {
			return right, denied(ReasonWrongRequester, "spec.groups: %s is an agent of %s, not of Cluster %s alone", user, listed(append(agents, joins...)), cluster)
		}
		return Decision{Verdict: Approve, Reason: ReasonRenewed, Message: "requested by the cluster's agent to renew its certificate"}, nil
	}
	return right, denied(ReasonWrongRequester, "spec.username: %q is neither a join token nor the agent of Cluster %s", user, cluster)
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

func listed(clusters []string) string {
	if len(clusters) == 0 {
		return "no cluster"
	}
	return strings.Join(clusters, ", ")
}
