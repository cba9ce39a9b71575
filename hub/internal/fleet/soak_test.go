package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// What is only not heard stops a rollout, and rolls nothing back.
// Claim: What stopped a rollout stays in its record. Broken: the turn is not noted, or without the clusters that had failed; it is not written.
func TestSilenceStopsAndRollsNothingBack(t *testing.T) {
	f := newEnv(t, 4, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.UnreachablePolicy, fleet.Spec.RollbackPolicy = v1alpha1.UnreachableFail, v1alpha1.RollbackAll
	}))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.freeze(3, true)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("more have failed than spec.rolloutStrategy allows, and nothing more starts"))
	f.Expect(f.fleet.Status.Failures).To(ConsistOf(HaveField("Reason", v1alpha1.ReasonClusterUnreachable)))
	f.freeze(3, false)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.status().Failures).To(BeEmpty(), "it is back")
	f.restart()
	all, err := rollout.Rollouts(t.Context(), f.Client, f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(all[len(all)-1].Turns).To(ContainElement(And(HaveField("Reason", v1alpha1.ReasonTooManyFailures),
		HaveField("Message", HavePrefix(f.clusters[3].Name+": "+v1alpha1.ReasonClusterUnreachable+": ")))), "what stopped the rollout is in its record")
	f.freeze(3, true)
	f.ExpectReconciled(f.fleet)
	f.says(true, 1)
	f.ExpectReconciled(f.fleet)
	f.says(false, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(ContainSubstring("RollingBack v1.36.2"), "a failure that was reported does")
}

// A soak is over when the agent is heard after it, and not for the time alone.
// Claim: A soak ends on news; silence stops and rolls nothing back. Broken: every breach rolls back. Also: TestSilenceStopsAndRollsNothingBack.
func TestASoakEndsOnNewsAndNotOnSilence(t *testing.T) {
	f := newEnv(t, 2, inSteps(1, 10*time.Second))
	for i, cluster := range f.clusters {
		f.ExpectConditionApplied(f.cluster(i), v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
		f.agents.Hear(cluster.Name)
	}
	news := f.agents.News()
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Clock.Step(time.Second)
	f.agents.NoteRenewal(f.clusters[0].Name, f.Clock.Now())
	f.after(9 * time.Second)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"))
	f.Expect(news).NotTo(Receive())
	f.agents.NoteRenewal(f.clusters[0].Name, f.Clock.Now())
	f.Expect(news).To(Receive(), "it wakes the fleet")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2"))
}
