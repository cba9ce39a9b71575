package csrapprover

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// Edge case: An undecodable Machine's join waits, its renewal does not.
func TestRequestsForAMachineThatCannotBeDecoded(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	machine := &v1alpha1.Machine{}
	g.Expect(b.admin.Get(t.Context(), client.ObjectKey{Namespace: b.ClusterName, Name: "m1"}, machine)).To(Succeed())
	drain := func(timeout string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeouts":{"drain":"`+timeout+`"}}}`))
		g.Expect(agenttest.Environment(t).Loosely(t.Context(), func(ctx context.Context) error {
			return b.admin.Patch(ctx, machine.DeepCopy(), patch)
		}, "machines.hollowfleet.io")).To(Succeed())
	}
	drain("1 week")
	g.Expect(certrequest.Open(b.reconcile(g, b.submit(g, renewing(t))))).To(BeFalse(), "its Node runs, and must not lose its identity")
	joins := b.submit(g, joining(t))
	g.Expect(b.reconcile(g, joins).Status.Conditions).To(BeEmpty(), "nothing is made for it")
	g.Expect(b.count(MachineUndecodable)).To(Equal(1.0))

	drain("2h")
	g.Expect(certrequest.Open(b.reconcile(g, joins))).To(BeFalse(), "repaired, it joins")

	drain("1 week")
	g.Expect(agenttest.Environment(t).Remove(t.Context(), machine)).To(Succeed())
	g.Expect(b.reconcile(g, b.submit(g, renewing(t))).Status.Conditions).To(BeEmpty(), "it is being deleted")
	g.Expect(b.count(NoMachine)).To(Equal(1.0))
}
