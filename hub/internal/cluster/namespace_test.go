package cluster

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// renews lets the hub see two renewals of the agent's Lease.
func (f *env) renews() {
	f.T.Helper()
	for range 2 {
		f.logic.heartbeats.observeLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: &metav1.MicroTime{Time: f.Clock.Now()}},
		}, false, f.Clock.Now())
	}
}

// Edge case: A Terminating namespace was misreported. Also: "finds its namespace going, and its agent was at work", "finds its namespace taken, and its agent was at work"; hub/internal/machines TestMachinesOfANamespaceThatIsBeingDeletedAreMarkedWithTheCause; hub/cli TestFinalizersAreRemovedOnlyInANamespaceThatIsBeingDeleted.
func TestANamespaceThatIsBeingDeletedIsNamedAsTheCauseOfAllThatFollows(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.agentRole()
	f.ExpectReconciled(f.cluster)
	f.renews()
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.machine("m")
	f.Events()

	f.ExpectDeleted(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}})
	f.ExpectReconciled(f.cluster)
	for _, kind := range []string{
		v1alpha1.ReadyCondition, v1alpha1.ClusterAcceptedCondition, v1alpha1.ClusterAgentConnectedCondition, v1alpha1.FrozenCondition,
	} {
		condition := f.ReadCondition(f.cluster, kind)
		f.Expect(condition.Reason).To(Equal(v1alpha1.ReasonNamespaceDeleting), kind)
		f.Expect(condition.Message).To(And(ContainSubstring("It is kept by the finalizers of 1 Machine"),
			ContainSubstring("kubectl hollow cluster remove-finalizers "+f.cluster.Name)), kind)
		f.Expect(condition.Message).NotTo(Or(ContainSubstring("Lease"), ContainSubstring("silent")), kind)
	}
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionUnknown))
	told := f.Events()
	f.Expect(told).To(ContainElement(And(HavePrefix("Normal AccessRevoked"), ContainSubstring("its namespace is being deleted"))))
	f.Expect(told).To(ContainElement(HavePrefix("Warning " + v1alpha1.ReasonNamespaceDeleting)))
	f.Expect(told).To(HaveLen(2), "the cause is told once")
}

// Edge case: A missing role was not named.
func TestAMissingRoleOfAgentsIsNamed(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.agentRole()
	// The hub's cache holds the ClusterRoles only that the hub made.
	f.logic.Client = interceptor.NewClient(f.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isRole := object.(*rbacv1.ClusterRole); isRole && key.Name == AgentRole {
				return apierrors.NewNotFound(rbacv1.Resource("clusterroles"), key.Name)
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAgentConnectedCondition).Message).NotTo(ContainSubstring("ClusterRole"))

	f.ExpectDeleted(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: AgentRole}})
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAgentConnectedCondition)).To(And(
		HaveField("Reason", v1alpha1.ReasonNeverSeen), HaveField("Message", ContainSubstring("ClusterRole hollowfleet-agent"))))
	f.agentRole()
}
