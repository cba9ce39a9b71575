package cluster

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// agentSays plays the agent: it writes what it makes of the hub, then renews its Lease.
func (f *env) agentSays(status metav1.ConditionStatus, reason string) {
	f.T.Helper()
	meta.SetStatusCondition(&f.refresh().Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterAgentFrozenCondition, Status: status, Reason: reason,
	})
	f.ExpectStatusApplied(f.cluster)
}

func (f *env) renew() bool {
	f.T.Helper()
	return f.logic.heartbeats.observeLease(lease(f.cluster.Name, f.Clock.Now()), false, f.Clock.Now())
}

func TestAnAgentIsHeardWhenItsWordHasArrived(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeFalse(), "it has not renewed")

	// The cache lags behind: it has the renewal, and not what was written before.
	behind := f.refresh().DeepCopy()
	f.agentSays(metav1.ConditionTrue, v1alpha1.ReasonHubRestored)
	f.Expect(f.renew()).To(BeTrue())
	live := f.logic.Client
	f.logic.Client = interceptor.NewClient(f.Client, interceptor.Funcs{})
	_, err := f.logic.Reconcile(t.Context(), behind)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeFalse())
	f.logic.Client = live

	// The cache has it, and the condition that the others go by is not written yet.
	before := f.refresh().ResourceVersion
	f.ExpectReconciled(f.cluster)
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeFalse())
	f.Expect(f.refresh().ResourceVersion).NotTo(Equal(before))
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.FrozenCondition)).To(And(
		HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonHubRestored)))
	f.ExpectReconciled(f.cluster)
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeTrue())
}

func TestAnAgentIsNotHeardWithoutTheAPIServer(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.ExpectReconciled(f.cluster)
	f.renew()
	f.ExpectReconciled(f.cluster)
	f.logic.Live = interceptor.NewClient(f.Client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("injected")
		},
	})
	_, err := f.Runner.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.cluster)})
	f.Expect(err).To(MatchError(ContainSubstring("reading what the agent has written: injected")))
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeFalse())
}

// The API server has gone back to an older state, and this process continues.
func TestALeaseThatGoesBackIsNoRenewal(t *testing.T) {
	g, h := NewWithT(t), newHeartbeats()
	seen := func(version string, n int) bool {
		lease := renewal(n)
		lease.ResourceVersion = version
		return h.observeLease(lease, false, start)
	}
	g.Expect(seen("100", 1)).To(BeTrue(), "the first renewal is news")
	g.Expect(h.isRenewed("c")).To(BeTrue())
	g.Expect(seen("20", 0)).To(BeTrue(), "so is that")
	g.Expect(h.isRenewed("c")).To(BeFalse())
	g.Expect(seen("30", 2)).To(BeFalse())
	g.Expect(h.isRenewed("c")).To(BeFalse(), "the next one may have been on its way since before")
	g.Expect(seen("40", 3)).To(BeTrue())
	g.Expect(h.isRenewed("c")).To(BeTrue())
}
