package loadtest

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestARemovalThatIsStuckKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*env, *v1alpha1.LoadTestRun){
		"of a run that was deleted": func(b *env, run *v1alpha1.LoadTestRun) { b.ExpectDeleted(run) },
		"of a run that is over":     func(b *env, run *v1alpha1.LoadTestRun) { b.merge(run, `{"spec":{"stopped":true}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			b.stop()
			b.timing = func(c *Controller) { c.removalTurn = time.Second }
			b.start()
			run := b.create("jam", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.WithStartTime = true }, creates(1))
			b.expectPhase(run, v1alpha1.LoadTestRunPhasePrepared)
			held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName(run, 0), Name: "held", Finalizers: []string{"example.com/held"}}}
			b.ExpectApplied(held)
			t.Cleanup(func() {
				_ = b.Client.Patch(context.Background(), held, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
			})
			end(b, run)
			next := b.create("next", configMap, nil, creates(1))
			b.Expect(b.expectEnded(next)).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted), next.Status.Message)
			b.Expect(b.status(run)()).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCleaningUp), "it is still being removed")
		})
	}
}

// Claim: A run that kills its agent is tried twice. Broken: code before: the run waits forever (not broken by hand since). Also: TestARemovalThatIsStuckKeepsNobodyWaiting, TestARunThatTheHubRefusesToChangeKeepsNobodyWaiting.
func TestARunThatEndsItsAgentIsNotBegunForEver(t *testing.T) {
	b := newEnv(t)
	run := b.create("bomb", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.WithStartTime = true }, creates(1))
	for attempt := range 2 {
		b.Eventually(b.status(run)).Should(And(HaveField("Phase", v1alpha1.LoadTestRunPhasePrepared), HaveField("Attempts", BeEquivalentTo(attempt+1))))
		b.stop()
		b.brokenOff(run)
		b.start()
	}
	b.Expect(b.expectEnded(run)).To(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseFailed), HaveField("Failure", ContainSubstring("has ended 2 times"))))
	b.Expect(b.namespaces(run)).To(BeEmpty())
	b.Expect(b.expectEnded(b.create("next", configMap, nil, creates(1)))).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted))
}

// brokenOff lets a run be as an agent leaves it that has ended while it prepared the run.
func (b *env) brokenOff(run *v1alpha1.LoadTestRun) {
	b.T.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Preparing"}}`))
	b.Expect(b.Client.Status().Patch(b.T.Context(), run.DeepCopy(), patch)).To(Succeed())
}

// No request was made, so nothing was broken off, however often the agent is restarted meanwhile.
// Claim: A killed agent's run fails and is cleaned up. Broken: a run that was in progress is started again. Also: test/integration/lifecycle "A LoadTestRun".
// Claim: Restarts while prepared do not count. Broken: each restart counts as an attempt.
func TestARunThatIsPreparedOutlivesRestarts(t *testing.T) {
	b := newEnv(t)
	run := b.create("waits", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.WithStartTime = true }, creates(3))
	prepared := And(HaveField("Phase", v1alpha1.LoadTestRunPhasePrepared), HaveField("Attempts", BeEquivalentTo(1)))
	b.Eventually(b.status(run)).Should(prepared)
	for range mostAttempts + 1 {
		b.stop()
		_, err := b.status(run)()
		b.Expect(err).NotTo(HaveOccurred())
		before := run.ResourceVersion
		b.start()
		b.Eventually(func() (v1alpha1.LoadTestRunStatus, error) {
			status, err := b.status(run)()
			if run.ResourceVersion == before {
				err = errors.New("the agent that was started has not written to the run")
			}
			return status, err
		}).Should(prepared)
	}
	b.merge(run, `{"spec":{"startTime":"2026-01-01T00:00:00Z"}}`)
	b.Expect(b.expectEnded(run)).To(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted), HaveField("Failure", BeEmpty())), run.Status.Message)
	b.Expect(measuredIn(run.Status, v1alpha1.LoadAPIRequest, "POST")).To(BeEquivalentTo(3))
}

// A schema that has become stricter refuses every change of a run that an earlier one let in.
func TestARunThatTheHubRefusesToChangeKeepsNobodyWaiting(t *testing.T) {
	b := newEnv(t)
	b.stop()
	bad := b.create("a-bad", configMap, nil, creates(1))
	rules := []admissionregistrationv1.NamedRuleWithOperations{{
		ResourceNames: []string{bad.Name},
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"loadtestruns", "loadtestruns/status"}},
		},
	}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "strict-" + b.namespace}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: rules}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "object.metadata.namespace != '" + b.namespace + "'"}}
	policy.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	b.ExpectApplied(policy)
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = policy.Name, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	b.ExpectApplied(binding)
	t.Cleanup(func() {
		_ = b.Client.Delete(context.Background(), binding)
		_ = b.Client.Delete(context.Background(), policy)
	})
	b.Eventually(func() error {
		return b.Client.Patch(context.Background(), bad.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("denied")))
	next := b.create("next", configMap, nil, creates(1))
	b.start()
	b.Expect(b.expectEnded(next)).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted), next.Status.Message)
	b.Expect(b.status(bad)()).To(HaveField("Phase", v1alpha1.LoadTestRunPhasePending))
	b.Expect(b.namespaces(bad)).To(BeEmpty(), "nothing is made for a run that cannot be written")
}
