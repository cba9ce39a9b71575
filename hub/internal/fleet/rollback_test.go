package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// rollsBack sets a rollback policy.
func rollsBack(policy v1alpha1.RollbackPolicy) func(*v1alpha1.MachineFleet) {
	return func(fleet *v1alpha1.MachineFleet) { fleet.Spec.RollbackPolicy = policy }
}

// abort aborts the current revision.
func (f *env) abort() {
	f.T.Helper()
	f.update(func(fleet *v1alpha1.MachineFleet) {
		revision, err := rollout.Revision(fleet)
		f.Expect(err).NotTo(HaveOccurred())
		fleet.Spec.AbortedRevision = revision
	})
	f.ExpectReconciled(f.fleet)
}

// retry has the current revision started again, and ends an abort.
func (f *env) retry() {
	f.T.Helper()
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.AbortedRevision, fleet.Spec.RetriedAt = "", &metav1.Time{Time: f.Clock.Now().Truncate(time.Second)}
	})
	f.ExpectReconciled(f.fleet)
}

func (f *env) progress() string {
	f.T.Helper()
	f.status()
	condition := f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition)
	return string(condition.Status) + " " + condition.Reason
}

func TestAFailedCanaryIsRolledBack(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(2, 0), rollsBack(v1alpha1.RollbackFailed)))
	f.settle()
	before := f.deployment(0)
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Metadata.Labels = map[string]string{"extra": "x"}
		fleet.Spec.Template.Spec.MinReadySeconds, fleet.Spec.Replicas = 7, new(int32(5))
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	})
	f.ExpectReconciled(f.fleet)
	f.says(true, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("RollingBack v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	after := f.deployment(0)
	f.Expect(after.Labels).To(Equal(before.Labels))
	f.Expect(*after.Spec.Replicas).To(BeEquivalentTo(5), "how many there are is no matter of the template")
	after.Spec.Replicas = before.Spec.Replicas
	f.Expect(after.Spec).To(Equal(before.Spec))
	f.Expect(f.progress()).To(Equal("True RollingBack"))
	f.Expect(f.fleet.Status.Clusters.RollingBack).To(BeEquivalentTo(1))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("rolling back: " + f.clusters[0].Name))

	f.restart()
	f.after(time.Hour)
	f.Expect(f.phases()).To(HavePrefix("RollingBack"), "it is not healthy yet")
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("RolledBack v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.progress()).To(Equal("False RolledBack"))
	status := f.fleet.Status
	f.Expect([]int32{status.Clusters.RolledBack, status.Clusters.RollingBack, status.Clusters.Failed, status.Clusters.Waiting}).To(Equal([]int32{1, 0, 0, 2}))
	f.Expect(status.Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[0].Name), HaveField("Reason", v1alpha1.ReasonRolledBack),
		HaveField("Message", ContainSubstring("0 of 3 machines")))), "why it failed is known still")
	f.Expect(status.Message).To(And(ContainSubstring("rolled back: "+f.clusters[0].Name), ContainSubstring("spec.retriedAt")))

	f.edit(0, func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.Versions.Kubelet = "v1.36.9" })
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(HavePrefix("RolledBack v1.36.2"), "a hand edit is taken back")
	f.restart()
	f.Writes.Counts()
	f.after(time.Hour)
	f.after(time.Hour)
	f.Expect(f.Writes.Counts()).To(BeEmpty())

	f.cluster(0).Status.KubernetesVersion = "v1.36.0"
	f.ExpectStatusApplied(f.clusters[0])
	f.retry()
	f.Expect(f.phases()).To(HavePrefix("RolledBack v1.36.2"), "what keeps a template from being started also keeps it from being started again")
	f.Expect(f.status().Clusters.Blocked).To(BeEquivalentTo(1))
}

func TestARolloutIsAbortedInMidWave(t *testing.T) {
	f := newEnv(t, 4, both(inSteps(1, 0), rollsBack(v1alpha1.RollbackAll)))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision = "another" })
	f.says(false, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"), "that was about another template")
	f.abort()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, RollingBack v1.36.2, Succeeded v1.36.2"), "one at a time")
	f.Expect(f.progress()).To(Equal("True RollingBack"))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("to be rolled back: " + f.clusters[0].Name + ", " + f.clusters[1].Name))
	for _, next := range []int{2, 0, 1} {
		f.restart()
		f.says(false, next)
		f.ExpectReconciled(f.fleet)
	}
	f.Expect(f.phases()).To(Equal("RolledBack v1.36.2, RolledBack v1.36.2, RolledBack v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.progress()).To(Equal("False RolledBack"))
	f.Expect(f.fleet.Status.Failures).To(BeEmpty(), "none of them has failed")
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("spec.abortedRevision is this revision"))

	f.retry()
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, RolledBack v1.36.2, RolledBack v1.36.2, Succeeded v1.36.2"))
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, RolledBack v1.36.2, Succeeded v1.36.2"))
}

func TestAnAbortWithoutARollback(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.abort()
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "what has started is followed, and nothing else started")
	f.Expect(f.progress()).To(Equal("False Aborted"))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("spec.abortedRevision is this revision, and nothing more starts: unset it"))
	f.upgrade("v1.37.1")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(HavePrefix("Progressing v1.37.1"), "another template is not aborted")
}

// The condition by which the MachineDeployment failed is there still when the template is started again.
func TestARetryHasItsTime(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(true, 0)
	f.after(time.Minute)
	f.Expect(f.phases()).To(HavePrefix("Failed v1.37.0"))
	f.retry()
	f.Expect(f.phases()).To(HavePrefix("Progressing v1.37.0"))
	f.restart()
	f.after(30*time.Minute - 1)
	f.Expect(f.phases()).To(HavePrefix("Progressing v1.37.0"), "that is an old failure")
	f.after(1)
	f.Expect(f.phases()).To(HavePrefix("Failed v1.37.0"), "after progressDeadlineSeconds it counts")
	f.after(time.Hour)
	f.Expect(f.phases()).To(HavePrefix("Failed v1.37.0"), "it is not tried again and again")
	f.retry()
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"))
}

// A MachineDeployment that has more unhealthy Machines than it may replace is not well, however many are available.
func TestTooManyUnhealthyMachinesAreAFailure(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, time.Hour))
	f.settle()
	unhealthy := func(status metav1.ConditionStatus) {
		d := f.deployment(0)
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
			Type: v1alpha1.RemediationAllowedCondition, Status: status, Reason: v1alpha1.ReasonTooManyUnhealthy, Message: "2 of 3 machines unhealthy",
			LastTransitionTime: metav1.NewTime(f.Clock.Now()),
		})
		f.ExpectStatusApplied(d)
	}
	unhealthy(metav1.ConditionFalse)
	f.after(time.Minute)
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.after(29 * time.Minute)
	f.Expect(f.phases()).To(HavePrefix("Progressing v1.37.0"), "that was so before, and may be over with the new template")
	unhealthy(metav1.ConditionTrue)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(HavePrefix("Soaking v1.37.0"))
	f.after(time.Minute)
	unhealthy(metav1.ConditionFalse)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Failed v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "in the soak it counts at once")
	f.Expect(f.status().Failures[0].Message).To(ContainSubstring("2 of 3 machines unhealthy"))
	f.retry()
	f.after(30*time.Minute - 1)
	f.Expect(f.phases()).To(HavePrefix("Progressing v1.37.0"))
	f.after(1)
	f.Expect(f.phases()).To(HavePrefix("Failed v1.37.0"), "after progressDeadlineSeconds it counts also where it was so before")
}

// A fleet that goes back to the template that clusters were rolled back to starts it in none of them.
func TestAnUndoAfterARollback(t *testing.T) {
	f := newEnv(t, 2, both(inSteps(1, 0), rollsBack(v1alpha1.RollbackFailed)))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(true, 0)
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.abort()
	f.Expect(f.phases()).To(Equal("RolledBack v1.36.2, Succeeded v1.36.2"))
	before := f.deployment(0)
	f.upgrade("v1.36.2")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.deployment(0).Generation).To(Equal(before.Generation))
	f.Expect(f.progress()).To(Equal("True RolloutComplete"), "neither the downgrade nor the abort is about this template")
	f.Expect(f.templates()).To(HaveLen(2))
}

func TestWhatCannotBeRolledBackKeepsNoOtherFromIt(t *testing.T) {
	f := newEnv(t, 4, rollsBack(v1alpha1.RollbackFailed))
	f.label(3, testLabel, "")
	f.settle()
	f.upgrade("v1.37.0")
	f.label(3, testLabel, f.fleet.Name)
	f.ExpectReconciled(f.fleet)
	f.edit(0, func(d *v1alpha1.MachineDeployment) {
		kept := d.Annotations[v1alpha1.FleetPreviousAnnotation]
		d.Annotations[v1alpha1.FleetPreviousAnnotation] = strings.Replace(kept, `"revision":"`, `"revision":"x`, 1)
	})
	f.says(true, 0, 1, 2, 3)
	f.ExpectReconciled(f.fleet)
	refused := f.clusters[1].Name
	f.faults.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if object.GetNamespace() == refused {
			return errors.New("refused by the test")
		}
		return c.Patch(ctx, object, patch, options...)
	}
	f.restart()
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision, _ = rollout.Revision(fleet) })
	f.Expect(f.Reconcile(f.fleet)).Error().To(MatchError(ContainSubstring("refused by the test")))
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Failed v1.37.0, Failed v1.37.0, RollingBack v1.36.2, Failed v1.37.0"))
	f.freeze(1, true)
	refused = ""
	f.after(time.Hour)
	f.Expect(f.phases()).To(ContainSubstring(", Failed held v1.37.0, "), "nothing is done where it is frozen")
	f.freeze(1, false)
	f.says(false, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Failed v1.37.0, RollingBack v1.36.2, RolledBack v1.36.2, Failed v1.37.0"))
	f.says(false, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.progress()).To(Equal("False RolledBack"))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("without an earlier template to roll back to: " + f.clusters[0].Name + ", " + f.clusters[3].Name))
	reasons := map[string]string{}
	for _, failure := range f.fleet.Status.Failures {
		reasons[failure.Cluster] = failure.Message
	}
	f.Expect(reasons[f.clusters[0].Name]).To(ContainSubstring(v1alpha1.FleetPreviousAnnotation), "what is wrong can be found")
	f.Expect(reasons[f.clusters[3].Name]).To(ContainSubstring("has no earlier template that succeeded"))
}

func TestATemplateThatIsTooLargeIsNotKeptToGoBackTo(t *testing.T) {
	f := newEnv(t, 1, both(rollsBack(v1alpha1.RollbackAll), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Metadata.Annotations = map[string]string{"example.com/large": strings.Repeat("x", rollout.LargestPrevious)}
	}))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0"), "the rollout continues")
	f.abort()
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0"))
	f.Expect(f.progress()).To(Equal("False Aborted"))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("without an earlier template to roll back to: " + f.clusters[0].Name))
}
