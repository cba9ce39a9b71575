package machineset

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func (f *env) bound(maxUnhealthy, maxInFlight string) {
	f.T.Helper()
	f.update(func(set *v1alpha1.MachineSet) {
		unhealthy, inFlight := intstr.Parse(maxUnhealthy), intstr.Parse(maxInFlight)
		set.Spec.Remediation = v1alpha1.Remediation{MaxUnhealthy: &unhealthy, MaxInFlight: &inFlight}
	})
}

func failedMachinesAreReplacedOneByOneWithinTheBound(t *testing.T) {
	f := newEnv(t, 5, nil)
	f.connect()
	f.ExpectReconciled(f.set)
	f.ready()
	names := active(f.Machines(f.set.Namespace))
	f.fail(names[0], v1alpha1.ErrorHealthTimeout)
	f.fail(names[1], v1alpha1.ErrorCreationTimeout)
	f.Events()
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(4), "maxInFlight is 1 by default")
	going := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(active(f.Machines(f.set.Namespace)), name) })[0]
	f.Expect(f.machine(going).Annotations).To(HaveKey(v1alpha1.RemediationAnnotation))
	f.Expect(f.Events()).To(ConsistOf(
		And(HavePrefix("Normal MachinesReplaced Replacing 1 machine that failed: "+going), ContainSubstring("Timeout")),
		And(HavePrefix("Warning Remediated MachineSet workers replaces this machine"), ContainSubstring("Timeout")),
	))
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(4), "one is being replaced, and nothing is made before it is gone")

	f.FinishDeletions(f.set.Namespace)
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(5))
	replacement := slices.DeleteFunc(f.Machines(f.set.Namespace), func(m v1alpha1.Machine) bool { return slices.Contains(names, m.Name) })[0]
	f.Expect(replacement.Annotations).To(HaveKeyWithValue(v1alpha1.ReplacesAnnotation, going))
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(5), "its replacement is not up yet")
	f.ready()
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(4), "now it is the other one's turn")
	f.FinishDeletions(f.set.Namespace)
	f.ExpectReconciled(f.set)
	f.ready()
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(5))
	f.Expect(f.ReadCondition(f.set, v1alpha1.RemediationAllowedCondition).Reason).To(Equal(v1alpha1.ReasonWithinMaxUnhealthy))
}

func tooManyUnhealthyMachinesStopRemediation(t *testing.T) {
	f := newEnv(t, 5, nil)
	f.connect()
	f.bound("40%", "5")
	f.ExpectReconciled(f.set)
	f.ready()
	f.ExpectReconciled(f.set)
	f.Expect(f.ReadCondition(f.set, v1alpha1.RemediationAllowedCondition).Status).To(Equal(metav1.ConditionTrue))
	names := active(f.Machines(f.set.Namespace))
	for _, name := range names[:2] {
		f.fail(name, v1alpha1.ErrorHealthTimeout)
	}
	f.status(names[2], func(status *v1alpha1.MachineStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: v1alpha1.MachineHealthyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnhealthyNodeCondition})
	})
	f.Events()
	for range 2 {
		f.ExpectReconciled(f.set)
	}
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(5))
	allowed := f.ReadCondition(f.set, v1alpha1.RemediationAllowedCondition)
	f.Expect(allowed.Status).To(Equal(metav1.ConditionFalse))
	f.Expect(allowed.Reason).To(Equal(v1alpha1.ReasonTooManyUnhealthy))
	f.Expect(allowed.Message).To(ContainSubstring("3 of 5 machines unhealthy, spec.remediation.maxUnhealthy allows 2"))
	for _, name := range names[:3] {
		f.Expect(allowed.Message).To(ContainSubstring(name))
	}
	f.Expect(f.Events()).To(ConsistOf(HavePrefix("Warning TooManyUnhealthy 3 of 5")), "told once")

	f.status(names[2], func(status *v1alpha1.MachineStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: v1alpha1.MachineHealthyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy})
	})
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3))
}

// Whatever is not known to be bad, and whatever a user has to repair, is left alone.
func TestOnlyWhatIsKnownToHaveTimedOutIsReplaced(t *testing.T) {
	unknown := func(f *env, name string) {
		f.status(name, func(status *v1alpha1.MachineStatus) {
			status.Phase = v1alpha1.MachineUnknown
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: v1alpha1.MachineHealthyCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUnknown})
		})
	}
	tests := map[string]func(f *env, name string){
		"unknown":             unknown,
		"invalid":             func(f *env, name string) { f.fail(name, v1alpha1.ErrorInvalidConfiguration) },
		"the agent is silent": func(f *env, name string) { f.fail(name, v1alpha1.ErrorHealthTimeout); f.silence() },
		"the agent is not known to be connected": func(f *env, name string) {
			f.fail(name, v1alpha1.ErrorHealthTimeout)
			f.ExpectConditionApplied(f.cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonLeaseExpired)
		},
		"frozen": func(f *env, name string) {
			f.fail(name, v1alpha1.ErrorHealthTimeout)
			f.update(func(set *v1alpha1.MachineSet) { set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "x"} })
		},
	}
	for name, befall := range tests {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 3, nil)
			f.connect()
			f.ExpectReconciled(f.set)
			f.ready()
			f.ExpectReconciled(f.set)
			befall(f, active(f.Machines(f.set.Namespace))[0])
			f.Writes.Counts()
			for range 3 {
				f.ExpectReconciled(f.set)
				f.pass(time.Hour)
			}
			f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3))
			f.Expect(f.Writes.Counts()).NotTo(Or(HaveKey("delete Machine"), HaveKey("patch Machine"), HaveKey("create Machine")))
		})
	}
}

func TestWhileFrozenNothingNewIsSaidAboutHealth(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.connect()
	f.ExpectReconciled(f.set)
	f.ready()
	f.ExpectReconciled(f.set)
	f.bound("0", "1")
	f.silence()
	f.fail(active(f.Machines(f.set.Namespace))[0], v1alpha1.ErrorHealthTimeout)
	f.ExpectReconciled(f.set)
	f.Expect(f.ReadCondition(f.set, v1alpha1.RemediationAllowedCondition).Status).To(Equal(metav1.ConditionTrue))
}
