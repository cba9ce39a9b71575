package tenancy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// as acts as an identity that the hub never gives, as an administrator may make it by a mistake.
func as(user string, groups ...string) func() client.WithWatch {
	return func() client.WithWatch {
		config := rest.CopyConfig(hub.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
		return clientFor(config)
	}
}

// withRole gives the agent of cluster a role, as an administrator may do by a mistake, and waits until it counts.
func withRole(role string, probe client.ObjectList, act do) do {
	return func(ctx context.Context, c client.WithWatch) error {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: named("mistake-" + role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: v1alpha1.AgentUserPrefix + clusterA}},
		}
		hub.create(ctx, binding)
		Eventually(ctx, func(ctx context.Context) error { return c.List(ctx, probe) }).Should(Succeed(), "the role counts")
		err := act(ctx, c)
		Expect(hub.Client.Delete(ctx, binding)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error { return c.List(ctx, probe) }).Should(refusedBy(rbac), "the role counts no longer")
		return err
	}
}

// mistakes are what only the policy stops, should an administrator give too much.
func mistakes() []chapter {
	two := as("two", v1alpha1.AgentGroupPrefix+clusterA, v1alpha1.AgentGroupPrefix+clusterB)
	both := as("both", v1alpha1.AgentGroupPrefix+clusterA, v1alpha1.JoinGroupPrefix+clusterA)
	admin := func(act do) do { return withRole("cluster-admin", &corev1.SecretList{}, act) }
	return []chapter{
		tenantChapter(),
		{"An identity of two clusters", "The hub gives no such identity. Should an administrator make one, it writes nothing.", two, []attempt{
			{"write the status of a Machine of `a`", policy, "exactly one cluster", mergeStatus(machine(clusterA, machineName), `{"status":{"phase":"Failed"}}`)},
			{"create the Lease of `b`", policy, "exactly one cluster", create(lease(clusterB, v1alpha1.AgentLeaseName))},
			{"ask for the certificate of `a`", policy, "exactly one cluster", create(signingRequest(clusterA, nil))},
		}},
		{"An agent that is a join token too", "The hub gives no such identity either.", both, []attempt{
			{"write the status of a Machine of `a`", policy, "exactly one cluster", mergeStatus(machine(clusterA, machineName), `{"status":{"phase":"Failed"}}`)},
		}},
		{"A role too many", "The agent of cluster `a`, to which an administrator has given `cluster-admin`.", agentOf(clusterA), []attempt{
			{"create a Secret in its namespace", policy, "may not create secrets", admin(create(&corev1.Secret{ObjectMeta: in(clusterA, "x")}))},
			{"delete a Machine of its namespace", policy, "may not delete hollowfleet.io machines", admin(remove(machine(clusterA, machineName)))},
			{"write the status of a Machine of `b`", policy, "metadata.namespace", admin(mergeStatus(machine(clusterB, machineName), `{"status":{"phase":"Failed"}}`))},
			{"write the status of Cluster `b`", policy, "metadata.name", admin(mergeStatus(cluster(clusterB, v1alpha1.ClusterSpec{}), `{"status":{"agentVersion":"x"}}`))},
			{"accept Cluster `b`", policy, "may not update hollowfleet.io clusters", admin(merge(cluster(clusterB, v1alpha1.ClusterSpec{}), `{"spec":{"acceptance":"Denied"}}`))},
			{"create a namespace", policy, "may not create namespaces", admin(create(&corev1.Namespace{ObjectMeta: named("x")}))},
			{"bind itself to more", policy, "may not create", admin(create(&rbacv1.ClusterRoleBinding{
				ObjectMeta: named("more"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			}))},
		}},
	}
}
