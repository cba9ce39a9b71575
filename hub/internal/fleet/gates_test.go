package fleet

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// withProduction adds a group that needs an approval. Its clusters have the label group=production.
func withProduction(fleet *v1alpha1.MachineFleet) {
	fleet.Spec.Groups = append(fleet.Spec.Groups, group("production", v1alpha1.GroupApprovalRequired))
}

func group(name string, approval v1alpha1.GroupApproval) v1alpha1.MachineFleetGroup {
	return v1alpha1.MachineFleetGroup{Name: name, Approval: approval, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": name}}}
}

// waitForApproval makes a fleet that has gone through its canary and waits for the approval of production.
func waitForApproval(t *testing.T) *env {
	t.Helper()
	f := newEnv(t, 3, both(inSteps(2, 0), withProduction))
	f.label(1, "group", "production")
	f.label(2, "group", "production")
	f.approve("production")
	f.settle()
	f.upgrade("v1.37.0")
	f.approve()
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	return f
}

// Each edit takes the approval away that production needed when the rollout was started. A hub that is started again knows no more than
// the one before it.
func TestAnEditNeedsTheApprovalThatWasPromised(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.MachineFleetSpec){
		"the group has another name": func(s *v1alpha1.MachineFleetSpec) { s.Groups[1].Name = "prod" },
		"and needs none": func(s *v1alpha1.MachineFleetSpec) {
			s.Groups[1].Name, s.Groups[1].Approval = "prod", v1alpha1.GroupApprovalNotRequired
		},
		"it needs none":         func(s *v1alpha1.MachineFleetSpec) { s.Groups[1].Approval = v1alpha1.GroupApprovalNotRequired },
		"it is gone":            func(s *v1alpha1.MachineFleetSpec) { s.Groups = s.Groups[:1] },
		"it chooses no cluster": func(s *v1alpha1.MachineFleetSpec) { s.Groups[1].ClusterSelector.MatchLabels["group"] = "prodution" },
		"another takes them all": func(s *v1alpha1.MachineFleetSpec) {
			s.Groups = append(s.Groups[:1:1], v1alpha1.MachineFleetGroup{Name: "all", ClusterSelector: &metav1.LabelSelector{}}, s.Groups[1])
		},
		"all at once": func(s *v1alpha1.MachineFleetSpec) {
			s.Groups, s.RolloutStrategy = nil, clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := waitForApproval(t)
			f.update(func(fleet *v1alpha1.MachineFleet) { edit(&fleet.Spec) })
			f.ExpectReconciled(f.fleet)
			f.restart()
			f.after(time.Hour)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.status()
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingApproval), f.fleet.Status.Message)
		})
	}
}

func TestARenamedGroupIsApprovedByItsNewName(t *testing.T) {
	f := waitForApproval(t)
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Groups[1].Name = "prod" })
	f.approve("prod")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}

func TestARetryStartsByThePresentSpec(t *testing.T) {
	f := waitForApproval(t)
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Groups = fleet.Spec.Groups[:1] })
	f.status()
	f.Expect(f.fleet.Status.Message).To(And(ContainSubstring("waiting for approval: production"), ContainSubstring("no longer in spec.groups"), ContainSubstring("set spec.retriedAt")))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RetriedAt = &metav1.Time{Time: f.Clock.Now().Truncate(time.Second)}
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
	f.Expect(f.members()).To(Equal(map[int]string{0: "canary", 1: "", 2: ""}))
}

// The canary is not through, whatever it is called, and whoever takes its place.
func TestAnEditLeavesTheCanaryAhead(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.MachineFleetSpec){
		"it has another name": func(s *v1alpha1.MachineFleetSpec) {
			s.Groups[0].Name = "pilot"
			s.RolloutStrategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups[0].GroupName = "pilot"
		},
		"it is not mandatory": func(s *v1alpha1.MachineFleetSpec) {
			s.RolloutStrategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups = nil
		},
		"there is none": func(s *v1alpha1.MachineFleetSpec) {
			s.Groups, s.RolloutStrategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups = nil, nil
		},
		"it has no cluster": func(s *v1alpha1.MachineFleetSpec) { s.Groups[0].ClusterSelector.MatchLabels["group"] = "cannary" },
		"all at once": func(s *v1alpha1.MachineFleetSpec) {
			s.RolloutStrategy = clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All}
		},
		"group by group": func(s *v1alpha1.MachineFleetSpec) {
			s.Groups, s.RolloutStrategy = nil, clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 3, inSteps(2, 0))
			f.settle()
			f.upgrade("v1.37.0")
			f.ExpectReconciled(f.fleet)
			f.update(func(fleet *v1alpha1.MachineFleet) { edit(&fleet.Spec) })
			f.ExpectReconciled(f.fleet)
			f.restart()
			f.after(time.Hour)
			f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
		})
	}
}

// What the spec asks for now is asked for at once.
func TestAnAddedGateHolds(t *testing.T) {
	f := newEnv(t, 4, inSteps(2, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.label(3, "group", "production")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		withProduction(fleet)
		mandatory := &fleet.Spec.RolloutStrategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
		*mandatory = append(*mandatory, clusterv1alpha1.MandatoryDecisionGroup{GroupName: "production"})
	})
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"), "the new group needs an approval, and comes first")
	f.approve("production")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2, Progressing v1.37.0"))
	f.says(false, 3)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0, Succeeded v1.37.0"))
}

func TestBoundsAreNotRaisedInTheMiddle(t *testing.T) {
	f := newEnv(t, 4, inSteps(1, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RolloutStrategy.Progressive.MaxConcurrency, fleet.Spec.RolloutStrategy.Progressive.MaxFailures = intstr.FromInt(4), intstr.FromInt(4)
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.says(true, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Failed v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("raise maxFailures and set spec.retriedAt"))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RetriedAt = &metav1.Time{Time: f.Clock.Now().Truncate(time.Second)}
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}

// A revision that was rolled back, and left for the one before it, is started with the clusters and groups that there are then.
// Claim: A revision returned to gets a new snapshot and number. Broken: the newest snapshot is always taken.
func TestARevisionThatIsBegunAgainTakesANewSnapshot(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			f := newEnv(t, 3, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.RollbackPolicy, fleet.Spec.AllowDowngrade = v1alpha1.RollbackAll, true
			}))
			f.settle()
			f.upgrade("v1.37.0")
			f.ExpectReconciled(f.fleet)
			revision := f.refresh().Status.Revision
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision = revision })
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(HavePrefix("RolledBack v1.36.2"))
			f.upgrade("v1.36.2")
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.label(0, "group", "")
			f.label(1, "group", "canary")
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision = "" })
			f.upgrade("v1.37.0")
			if restarted {
				f.restart()
			}
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.37.0, Succeeded v1.36.2"), "the canary of now")
			f.Expect(f.members()).To(Equal(map[int]string{0: "", 1: "canary", 2: ""}))
			f.Expect(f.templates()).To(Equal([]string{"1 v1.36.2", "3 v1.37.0"}), "it counts as started last")
		})
	}
}
