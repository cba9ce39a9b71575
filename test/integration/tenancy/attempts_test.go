package tenancy

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attempt is one row of the table that drives the specs and makes docs/tenancy.md.
type attempt struct {
	// what is tried, in the words of the page.
	what string
	want answer
	// names is what a refusal must name.
	names string
	do    func(ctx context.Context, c client.WithWatch) error
}

// chapter are the attempts of one identity at one thing.
type chapter struct {
	title, about string
	// as returns the client of the identity.
	as       func() client.WithWatch
	attempts []attempt
}

func agentOf(cluster string) func() client.WithWatch {
	return func() client.WithWatch { return clientFor(hub.agents[cluster]) }
}

func tokenOf(cluster string) func() client.WithWatch {
	return func() client.WithWatch { return clientFor(hub.tokens[cluster]) }
}

// chapters is the table.
func chapters() []chapter {
	return slices.Concat([]chapter{
		{"Its own work", "What the agent of cluster `a` does all day, in every form that a client may write it.", agentOf(clusterA), ownWork()},
		{"Another cluster", "The agent of cluster `a` at the objects of cluster `b`.", agentOf(clusterA), foreign(clusterB)},
		{"A cluster whose name starts with its own", "The agent of cluster `a` at the objects of cluster `ab`.", agentOf(clusterA), foreign(clusterAB)},
		{"A cluster whose name its own starts with", "The agent of cluster `ab` at the objects of cluster `a`.", agentOf(clusterAB), foreign(clusterA)},
		{"Its own Machines", "What the agent of cluster `a` may not do to the Machines of its own cluster: the hub says what is wanted.", agentOf(clusterA), ownMachines()},
		{"Its own Cluster", "What the agent of cluster `a` may not do to its own Cluster object.", agentOf(clusterA), ownCluster()},
		{"Its own namespace", "What the agent of cluster `a` may not do elsewhere in its own namespace.", agentOf(clusterA), ownNamespace()},
		{"More rights", "How the agent of cluster `a` may not come to more rights.", agentOf(clusterA), escalation()},
		{"Another certificate", "What the agent of cluster `a` may not ask a certificate for. The hub denies what RBAC and the policy cannot see.", agentOf(clusterA), certificates()},
		{"The join token", "A client with the join token of cluster `a`.", tokenOf(clusterA), joinToken()},
		{"The agent with a ServiceAccount", "The agent of cluster `s`, whose credential is a token of its ServiceAccount.", agentOf(clusterS), account()},
	}, workChapters(), simulationChapters(), logChapters(), approvalChapters(), mistakes())
}

var _ = Describe("A workload cluster's identity", func() {
	for _, chapter := range chapters() {
		Describe(chapter.title, func() {
			for _, tried := range chapter.attempts {
				It(fmt.Sprintf("should be %s: %s", tried.want, tried.what), func(ctx SpecContext) {
					err := tried.do(ctx, chapter.as())
					Expect(err).To(refusedBy(tried.want))
					if tried.names != "" {
						Expect(err).To(MatchError(ContainSubstring(tried.names)))
					}
				}, NodeTimeout(attemptTimeout))
			}
		})
	}
})
