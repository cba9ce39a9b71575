package fleet

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// A MachineDeployment that another fleet has made, such as one that was copied with its annotations, is that fleet's, also where
// adopting is allowed.
// Claim: Another fleet's MachineDeployment, or selector, is not taken over. Broken: whose it is, and the selector, are not compared. Also: TestAMachineDeploymentWithAnotherSelectorIsNotAdopted.
func TestTheMachineDeploymentOfAnotherFleetIsLeftAlone(t *testing.T) {
	f := newEnv(t, 2, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Adopt = true }))
	f.settle()
	other := f.fleet.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Name: testenv.Name()}
	other.Spec.ClusterSelector.MatchLabels = map[string]string{"no": "cluster"}
	f.ExpectApplied(other)
	f.edit(1, func(d *v1alpha1.MachineDeployment) {
		claim := rollout.NewRecord(other, plan.Record{Revision: "r", Phase: plan.Succeeded, Since: f.Clock.Now()}, "")
		d.Annotations[v1alpha1.FleetRecordAnnotation] = claim.AnnotationValue()
	})
	f.upgrade("v1.37.0")
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2"))
	f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Reason", v1alpha1.ReasonClaimedByAnotherFleet),
		HaveField("Message", And(ContainSubstring("belongs to MachineFleet "+other.Name), ContainSubstring("spec.clusterSelector"), ContainSubstring("remove the annotation "+v1alpha1.FleetRecordAnnotation))))))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition)).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonClustersBlocked)))

	f.edit(1, func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.FleetRecordAnnotation) })
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0"), "what the message says lets the fleet adopt it")
}

// The selector of a MachineDeployment cannot be changed, so one with another is not adopted.
func TestAMachineDeploymentWithAnotherSelectorIsNotAdopted(t *testing.T) {
	f := newEnv(t, 1, func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Adopt = true })
	labels := map[string]string{"app": "other"}
	f.ExpectApplied(&v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.clusters[0].Name, Name: f.fleet.Name},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: f.clusters[0].Name, Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("foreign"))
	f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Reason", v1alpha1.ReasonSelectorDiffers),
		HaveField("Message", And(ContainSubstring("spec.template.spec.selector.matchLabels"), ContainSubstring("app=other"), ContainSubstring("remove it"))))))
}

// What keeps a fleet from beginning anywhere is said with the field and what to do.
// Claim: A spec that can start nothing names its field and remedy. Broken: no cluster is taken for a complete rollout; a message without its field.
func TestASpecThatBeginsNothingSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*v1alpha1.MachineFleetSpec)
		reason, stalls string
		parts          []string
	}{
		"a selector that matches nothing": {func(s *v1alpha1.MachineFleetSpec) { s.ClusterSelector.MatchLabels = map[string]string{"no": "cluster"} },
			v1alpha1.ReasonNoClusterSelected, "", []string{"spec.clusterSelector: ", "correct the selector"}},
		"an amount that is none": {func(s *v1alpha1.MachineFleetSpec) { s.RolloutStrategy.Progressive.MaxConcurrency = intstr.FromInt(0) },
			v1alpha1.ReasonInvalidFleet, v1alpha1.StalledCondition, []string{"spec.rolloutStrategy.progressive.maxConcurrency: ", "set how many"}},
		"a group that is not there": {func(s *v1alpha1.MachineFleetSpec) { s.Groups[0].Name = "other" },
			v1alpha1.ReasonInvalidFleet, v1alpha1.StalledCondition, []string{"spec.rolloutStrategy.progressive.mandatoryDecisionGroups[0].groupName: ", `unknown group "canary"`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 1, both(inSteps(1, 0), func(fleet *v1alpha1.MachineFleet) { c.change(&fleet.Spec) }))
			f.status()
			f.Expect(f.phases()).To(Equal("-"))
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(c.reason))
			if c.stalls != "" {
				f.Expect(f.ReadCondition(f.fleet, c.stalls).Reason).To(Equal(c.reason))
			}
			for _, part := range c.parts {
				f.Expect(f.fleet.Status.Message).To(ContainSubstring(part))
			}
		})
	}
	f := newEnv(t, 0, inSteps(1, 0))
	f.refresh().Spec.RolloutStrategy.Progressive.MaxConcurrency = intstr.FromString("101%")
	f.Expect(f.Client.Update(t.Context(), f.fleet)).To(MatchError(ContainSubstring("spec.rolloutStrategy.progressive.maxConcurrency")), "the API server refuses a bad percentage")
}
