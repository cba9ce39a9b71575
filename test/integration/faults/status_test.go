package faults

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("The statuses of Machines", fleettest.Long, func() {
	It("should lead to nothing that is made twice when they cannot be written, fifty times in a row", func(ctx SpecContext) {
		const machines = 8
		deployment := fleet.NewDeployment(ctx, broken, "mute", 1)
		fleet.ExpectReady(ctx, broken, "mute", 1)
		seen := fleet.Watch(ctx, broken, "mute")
		allow := refuseStatuses(ctx)
		before := refusedStatuses(ctx)
		fleet.Scale(ctx, deployment, machines)
		Eventually(ctx, func(ctx context.Context) float64 { return refusedStatuses(ctx) - before }).Should(BeNumerically(">=", 50))
		Expect(len(seen.Pods.Made())).To(BeNumerically("<=", machines))

		allow(ctx)
		fleet.ExpectReady(ctx, broken, "mute", machines)
		seen.Expect(ctx, machines, 0)
	}, SpecTimeout(4*fleettest.Patience))
})

// refuseStatuses lets the hub's API server take no status of a Machine in the broken cluster.
func refuseStatuses(ctx context.Context) (allow func(context.Context)) {
	GinkgoHelper()
	name := metav1.ObjectMeta{Name: "no-statuses"}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"machines/status"},
				},
			},
		}}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "broken", Expression: `request.namespace == "` + broken.Name + `"`}},
		Validations:     []admissionregistrationv1.Validation{{Expression: "false", Message: "no status is taken"}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	allow = func(ctx context.Context) {
		GinkgoHelper()
		for _, object := range []client.Object{binding, policy} {
			Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, object))).To(Succeed())
		}
	}
	DeferCleanup(allow)
	for _, object := range []client.Object{policy, binding} {
		Expect(fleet.HubClient.Create(ctx, object)).To(Succeed())
	}
	machine := fleet.MachinesOf(ctx, NewWithT(GinkgoT()), broken, residents)[0]
	Eventually(ctx, func(ctx context.Context) bool {
		before := machine.DeepCopy()
		machine.Status.Phase = v1alpha1.MachineUnknown
		err := fleet.HubClient.Status().Patch(ctx, machine.DeepCopy(), client.MergeFrom(before), client.DryRunAll)
		machine = *before
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	}).Should(BeTrue(), "the policy is in force")
	return allow
}

// refusedStatuses counts the statuses of Machines that the hub's API server has not taken.
func refusedStatuses(ctx context.Context) float64 {
	GinkgoHelper()
	g := NewWithT(GinkgoT())
	return fleettest.Sum(g, fleettest.ServerMetrics(ctx, g, fleet.HubConfig), "apiserver_request_total", func(labels map[string]string) bool {
		return labels["resource"] == "machines" && labels["subresource"] == "status" && (labels["code"] == "422" || labels["code"] == "403")
	})
}
