package clientcert

import (
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// Claim: An agent takes no identity but its own. Broken: members of `system:masters` pass; the hub is not asked; its first refusal is believed. Also: agent TestRunRefusesAnotherIdentityThanTheAgentsOwn, TestRunAsksAgainWhoItIsOfAHubThatRefuses.
func TestOnlyTheClustersOwnAgentIsItsIdentity(t *testing.T) {
	authenticated := []string{"system:authenticated"}
	for name, test := range map[string]struct {
		user   string
		groups []string
		want   string
	}{
		"certificate":            {"hollowfleet.io:agent:a", append([]string{"hollowfleet.io:cluster:a"}, authenticated...), ""},
		"service account":        {"system:serviceaccount:a:hollowfleet-agent", authenticated, ""},
		"administrator":          {"kubernetes-admin", []string{"system:masters"}, `identifies its user as "kubernetes-admin"`},
		"anonymous":              {"system:anonymous", []string{"system:unauthenticated"}, `"system:anonymous"`},
		"another cluster":        {"hollowfleet.io:agent:ab", []string{"hollowfleet.io:cluster:ab"}, `want "hollowfleet.io:agent:a"`},
		"another's account":      {"system:serviceaccount:b:hollowfleet-agent", authenticated, "kubectl hollow cluster join a"},
		"another account":        {"system:serviceaccount:a:default", authenticated, "kubectl hollow cluster join a"},
		"agent and master":       {"hollowfleet.io:agent:a", []string{"system:masters"}, `in group "system:masters"`},
		"the token it joins by":  {"system:bootstrap:abcdef", []string{"system:bootstrappers:hollowfleet:a"}, `"system:bootstrap:abcdef"`},
		"account and privileged": {"system:serviceaccount:a:hollowfleet-agent", []string{"system:masters"}, `in group "system:masters"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := CheckIdentity("a", authenticationv1.UserInfo{Username: test.user, Groups: test.groups})
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			}
		})
	}
}
