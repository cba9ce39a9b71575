package tenancy

import (
	"context"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const tenantName = "tenant"

// asTenant gives a user all rights on the kinds of Hollowfleet in namespace a, and waits until they count.
func asTenant(act do) do {
	return func(ctx context.Context, c client.WithWatch) error {
		hub.create(ctx, &rbacv1.Role{ObjectMeta: in(clusterA, tenantName), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		}})
		hub.create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: in(clusterA, tenantName), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: tenantName},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenantName}},
		})
		Eventually(ctx, func(ctx context.Context) error {
			return c.List(ctx, &v1alpha1.MachineList{}, client.InNamespace(clusterA))
		}).Should(Succeed(), "the role counts")
		return act(ctx, c)
	}
}

// tenantChapter is what a user of a namespace may not write on a Machine: the provider ID that the agent alone sets.
func tenantChapter() chapter {
	const only = "spec.providerID: only the agent of cluster a sets it"
	withID := func(name, id string) *v1alpha1.Machine {
		made := machine(clusterA, name)
		made.Spec.ProviderID = new(id)
		return made
	}
	bare, makeBare := spare(clusterA, "of-tenant", nil)
	restored := func(m *v1alpha1.Machine) do {
		return func(ctx context.Context, _ client.WithWatch) error { return create(m)(ctx, clientFor(hub.Config)) }
	}
	return chapter{
		"A user of a namespace", "A user with all rights on the kinds of Hollowfleet in namespace `a`; and an administrator, who restores a backup.",
		as(tenantName), []attempt{
			{"create a Machine", allowed, "", asTenant(create(machine(clusterA, "by-tenant")))},
			{"create a Machine with the `spec.providerID` of a Node", policy, only, asTenant(create(withID("preset", "aws:///eu-1a/i-0abc")))},
			{"create a Machine with the `spec.providerID` that its agent would give it", policy, only, asTenant(create(withID("preset", "hollowfleet://a/preset")))},
			{"set `spec.providerID` of a Machine", policy, only, asTenant(prepared(makeBare, merge(bare, `{"spec":{"providerID":"aws:///eu-1a/i-0abc"}}`)))},
			{"set `spec.providerID` of a Machine, as an administrator", policy, only, func(ctx context.Context, _ client.WithWatch) error {
				makeBare(ctx)
				return merge(bare, `{"spec":{"providerID":"hollowfleet://a/of-tenant"}}`)(ctx, clientFor(hub.Config))
			}},
			{"create a Machine with the `spec.providerID` of its backup, as an administrator", allowed, "", restored(withID("restored", "hollowfleet://a/restored"))},
			{"create a Machine with the `spec.providerID` of another one, as an administrator", kind, "which no agent writes", restored(withID("stolen", "hollowfleet://a/other"))},
			{"create a Machine with a `spec.providerID` that is none, as an administrator", kind, "which no agent writes", restored(withID("typed", "x"))},
		},
	}
}
