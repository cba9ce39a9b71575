package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
)

// withProduction adds a group that needs an approval. Its clusters have the label group=production.
func withProduction(fleet *v1alpha1.MachineFleet) {
	fleet.Spec.Groups = append(fleet.Spec.Groups, group("production", v1alpha1.GroupApprovalRequired))
}

func group(name string, approval v1alpha1.GroupApproval) v1alpha1.MachineFleetGroup {
	return v1alpha1.MachineFleetGroup{Name: name, Approval: approval, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": name}}}
}

// waitForApproval makes a fleet that has gone through its canary and waits for the approval of production.
func waitForApproval(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, 3, both(inSteps(2, 0), withProduction))
	f.label(1, "group", "production")
	f.label(2, "group", "production")
	f.approve("production")
	f.settle()
	f.upgrade("v1.37.0")
	f.approve()
	f.reconcile()
	f.says(false, 0)
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	return f
}

// Each edit takes the approval away that production needed when the rollout was begun. A hub that is started again knows no more than
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
			f.reconcile()
			f.restart()
			f.after(time.Hour)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.status()
			f.Expect(f.condition(v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingApproval), f.fleet.Status.Message)
		})
	}
}

func TestARenamedGroupIsApprovedByItsNewName(t *testing.T) {
	f := waitForApproval(t)
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Groups[1].Name = "prod" })
	f.approve("prod")
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}

func TestARetryStartsByThePresentSpec(t *testing.T) {
	f := waitForApproval(t)
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Groups = fleet.Spec.Groups[:1] })
	f.status()
	f.Expect(f.fleet.Status.Message).To(And(ContainSubstring("waiting for approval: production"), ContainSubstring("not in spec.groups any more"), ContainSubstring("set spec.retriedAt")))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RetriedAt = &metav1.Time{Time: f.clock.Now().Truncate(time.Second)}
	})
	f.reconcile()
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
			f := newFixture(t, 3, inSteps(2, 0))
			f.settle()
			f.upgrade("v1.37.0")
			f.reconcile()
			f.update(func(fleet *v1alpha1.MachineFleet) { edit(&fleet.Spec) })
			f.reconcile()
			f.restart()
			f.after(time.Hour)
			f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
		})
	}
}

// What the spec asks for now is asked for at once.
func TestAnAddedGateHolds(t *testing.T) {
	f := newFixture(t, 4, inSteps(2, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.reconcile()
	f.label(3, "group", "production")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		withProduction(fleet)
		mandatory := &fleet.Spec.RolloutStrategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
		*mandatory = append(*mandatory, clusterv1alpha1.MandatoryDecisionGroup{GroupName: "production"})
	})
	f.says(false, 0)
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"), "the new group needs an approval, and comes first")
	f.approve("production")
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2, Progressing v1.37.0"))
	f.says(false, 3)
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0, Succeeded v1.37.0"))
}

func TestBoundsAreNotRaisedInTheMiddle(t *testing.T) {
	f := newFixture(t, 4, inSteps(1, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.reconcile()
	f.says(false, 0)
	f.reconcile()
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RolloutStrategy.Progressive.MaxConcurrency, fleet.Spec.RolloutStrategy.Progressive.MaxFailures = intstr.FromInt(4), intstr.FromInt(4)
	})
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.says(true, 1)
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Failed v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("raise maxFailures and set spec.retriedAt"))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RetriedAt = &metav1.Time{Time: f.clock.Now().Truncate(time.Second)}
	})
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}

// A revision that was rolled back, and left for the one before it, is begun with the clusters and groups that there are then.
func TestARevisionThatIsBegunAgainTakesANewSnapshot(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			f := newFixture(t, 3, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.RollbackPolicy, fleet.Spec.AllowDowngrade = v1alpha1.RollbackAll, true
			}))
			f.settle()
			f.upgrade("v1.37.0")
			f.reconcile()
			revision := f.refresh().Status.Revision
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision = revision })
			f.reconcile()
			f.says(false, 0)
			f.reconcile()
			f.Expect(f.phases()).To(HavePrefix("RolledBack v1.36.2"))
			f.upgrade("v1.36.2")
			f.reconcile()
			f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.label(0, "group", "")
			f.label(1, "group", "canary")
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision = "" })
			f.upgrade("v1.37.0")
			if restarted {
				f.restart()
			}
			f.reconcile()
			f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.37.0, Succeeded v1.36.2"), "the canary of now")
			f.Expect(f.members()).To(Equal(map[int]string{0: "", 1: "canary", 2: ""}))
			f.Expect(f.templates()).To(Equal([]string{"1 v1.36.2", "3 v1.37.0"}), "it counts as begun last")
		})
	}
}

// A cluster that dies in the middle of a wave, and is taken out of the fleet or denied, holds no other.
func TestAClusterThatLeftHoldsNoOther(t *testing.T) {
	for name, leave := range map[string]func(*fixture){
		"it has no label any more": func(f *fixture) { f.label(1, testLabel, "") },
		"it is denied": func(f *fixture) {
			f.cluster(1).Spec.Acceptance = v1alpha1.AcceptanceDenied
			f.Expect(f.direct.Update(f.t.Context(), f.clusters[1])).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 4, both(inSteps(1, 0), withProduction))
			f.label(3, "group", "production")
			f.approve("production")
			f.settle()
			f.upgrade("v1.37.0")
			f.reconcile()
			f.says(false, 0)
			f.reconcile()
			f.Expect(f.phases()).To(HavePrefix("Succeeded v1.37.0, Progressing v1.37.0, "))
			f.freeze(1, true)
			leave(f)
			f.approve("production")
			f.reconcile()
			f.Expect(f.phases()).To(HavePrefix("Succeeded v1.37.0, Progressing held v1.37.0, Progressing v1.37.0"))
			f.says(false, 2)
			f.reconcile()
			f.says(false, 3)
			f.reconcile()
			status := f.status()
			f.Expect(f.condition(v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonRolloutComplete), status.Message)
			f.Expect(f.condition(v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue), status.Message)
			f.Expect([]int32{status.Clusters.Selected, status.Clusters.Updated, status.Clusters.Held}).To(Equal([]int32{3, 3, 0}))
		})
	}
}

// Nothing has proven the revision when the canary leaves in the middle of it.
func TestACanaryThatLeavesProvesNothing(t *testing.T) {
	f := newFixture(t, 3, inSteps(2, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.reconcile()
	f.label(0, testLabel, "")
	f.freeze(0, true)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Progressing held v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("no cluster with Machines has proven the revision: canary: put a cluster into the group"))
	f.Expect(f.condition(v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonGroupUnproven))
	f.label(2, "group", "canary")
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Progressing held v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "it was promised to come after the canary")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RetriedAt = &metav1.Time{Time: f.clock.Now().Truncate(time.Second)}
	})
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Progressing held v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"))
}

func TestACanaryWithoutMachinesProvesNothing(t *testing.T) {
	f := newFixture(t, 3, both(inSteps(2, time.Minute), func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Replicas = nil }))
	f.settle()
	f.edit(0, func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	f.upgrade("v1.37.0")
	f.reconcile()
	f.says(false, 0)
	f.reconcile()
	f.after(time.Minute)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("no cluster with Machines has proven the revision: canary"))
	f.edit(0, func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(2)) })
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "its Machines are to prove it")
	f.says(false, 0)
	f.reconcile()
	f.after(time.Minute)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
	f.edit(0, func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	f.says(false, 0, 1, 2)
	f.reconcile()
	f.after(time.Minute)
	f.status()
	f.Expect(f.condition(v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue), "what was proven stays so: "+f.fleet.Status.Message)
}

func TestAMandatoryGroupWithoutAClusterHolds(t *testing.T) {
	f := newFixture(t, 3, inSteps(2, 0))
	f.settle()
	f.label(0, "group", "")
	f.status()
	f.Expect(f.condition(v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue), "nothing is to be begun")
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("without a cluster, correct or remove: spec.groups[canary]"), "at rest it is said, too")
	f.upgrade("v1.37.0")
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.status()
	f.Expect(f.condition(v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonGroupUnproven))
	f.label(2, "group", "canary")
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Progressing v1.37.0"))
}

// A label, or a group of a Placement, that has another name takes clusters out of the group that needs an approval.
func TestClustersThatLoseTheirGroupWaitForItsApproval(t *testing.T) {
	for name, lost := range map[string][]int{"all of them": {1, 2}, "one of them": {2}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 3, both(inSteps(2, 0), withProduction))
			f.label(1, "group", "production")
			f.label(2, "group", "production")
			f.approve("production")
			f.settle()
			for _, i := range lost {
				f.label(i, "group", "prod")
			}
			f.status()
			if len(lost) == 2 {
				f.Expect(f.fleet.Status.Message).To(ContainSubstring("without a cluster, correct or remove: spec.groups[production]"), "at rest")
			}
			f.upgrade("v1.37.0")
			f.reconcile()
			f.says(false, 0)
			f.after(time.Hour)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.status()
			f.Expect(f.condition(v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingApproval), f.fleet.Status.Message)
			f.approve("production")
			f.reconcile()
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
		})
	}
}

// What is only not heard stops a rollout, and rolls nothing back.
func TestSilenceStopsAndRollsNothingBack(t *testing.T) {
	f := newFixture(t, 4, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.UnreachablePolicy, fleet.Spec.RollbackPolicy = v1alpha1.UnreachableFail, v1alpha1.RollbackAll
	}))
	f.settle()
	f.upgrade("v1.37.0")
	f.reconcile()
	f.says(false, 0)
	f.reconcile()
	f.freeze(3, true)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("more have failed than spec.rolloutStrategy allows, and nothing more is begun"))
	f.Expect(f.fleet.Status.Failures).To(ConsistOf(HaveField("Reason", v1alpha1.ReasonClusterUnreachable)))
	f.says(true, 1)
	f.reconcile()
	f.says(false, 2)
	f.reconcile()
	f.Expect(f.phases()).To(ContainSubstring("RollingBack v1.36.2"), "a failure that was reported does")
}

// Whatever a user does while a plan is carried out is obeyed by the next write.
func TestTheNextWriteObeys(t *testing.T) {
	for name, stop := range map[string]func(*fixture){
		"a pause": func(f *fixture) { f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = true }) },
		"a freeze": func(f *fixture) {
			f.update(func(fleet *v1alpha1.MachineFleet) {
				metav1.SetMetaDataAnnotation(&fleet.ObjectMeta, v1alpha1.FreezeAnnotation, "x")
			})
		},
		"an abort": func(f *fixture) {
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision, _ = revisionOf(fleet) })
		},
		"an approval that is needed": func(f *fixture) {
			f.update(func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{{Name: "all", Approval: v1alpha1.GroupApprovalRequired, ClusterSelector: &metav1.LabelSelector{}}}
			})
		},
		"a window that ends": func(f *fixture) { f.clock.SetTime(f.clock.Now().Add(2 * time.Hour)) },
		"its deletion":       func(f *fixture) { f.Expect(f.direct.Delete(f.t.Context(), f.refresh())).To(Succeed()) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 5, func(fleet *v1alpha1.MachineFleet) {
				fleet.Finalizers = []string{"example.com/test"}
				fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{Name: "night", Schedule: "0 0 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
			})
			for range 3 {
				f.reconcile()
			}
			f.says(false, 0, 1, 2, 3, 4)
			f.reconcile()
			f.upgrade("v1.37.0")
			begun := 0
			f.faults.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				err := c.Patch(ctx, object, patch, options...)
				if _, is := object.(*v1alpha1.MachineDeployment); is && err == nil {
					if begun++; begun == 2 {
						stop(f)
					}
				}
				return err
			}
			f.restart()
			for range 5 {
				_ = f.try() // The status is written to another version than was read.
			}
			f.Expect(begun).To(Equal(2))
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Finalizers = nil })
		})
	}
}

// A cluster that is frozen, denied or relabelled between two writes is left alone by the second.
func TestTheNextWriteLooksAtItsCluster(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"frozen": func(f *fixture) { f.freeze(1, true) },
		"denied": func(f *fixture) {
			f.cluster(1).Spec.Acceptance = v1alpha1.AcceptanceDenied
			f.Expect(f.direct.Update(f.t.Context(), f.clusters[1])).To(Succeed())
		},
		"relabelled": func(f *fixture) { f.label(1, testLabel, "") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 3, nil)
			f.settle()
			f.upgrade("v1.37.0")
			begun := 0
			f.faults.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, is := object.(*v1alpha1.MachineDeployment); is {
					if begun++; begun == 1 {
						change(f)
					}
				}
				return c.Patch(ctx, object, patch, options...)
			}
			f.restart()
			for range 4 {
				f.reconcile()
			}
			f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"))
		})
	}
}

// A long plan is carried out in batches, and the status is written in between.
func TestALongPlanIsDecidedAgain(t *testing.T) {
	f := newFixture(t, 4, nil)
	f.faults.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		f.clock.SetTime(f.clock.Now().Add(3 * time.Second)) // A slow API server.
		return c.Create(ctx, object, options...)
	}
	f.restart()
	for i := range 4 {
		result := f.result()
		f.Expect(f.refresh().Status.Clusters.Progressing).To(BeNumerically(">=", min(i, 1)), "the status is written meanwhile")
		if i < 3 {
			f.Expect(result.RequeueAfter).To(Equal(restAfter))
		}
	}
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, Progressing v1.36.2, Progressing v1.36.2, Progressing v1.36.2"))
}

// A template that cannot be kept yet makes no new number each time that it is tried.
func TestTheNumberOfARolloutStaysWhileItsFirstWriteIsRefused(t *testing.T) {
	f := newFixture(t, 1, nil)
	f.faults.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if _, is := object.(*v1alpha1.MachineDeployment); is {
			return fmt.Errorf("refused by the test")
		}
		return c.Create(ctx, object, options...)
	}
	f.restart()
	for range 3 {
		_ = f.try()
		f.clock.SetTime(f.clock.Now().Add(lastRetry))
	}
	f.Expect(f.templates()).To(Equal([]string{"1 v1.36.2"}))
}

// A soak is over when the agent is heard after it, and not for the time alone.
func TestASoakEndsOnNewsAndNotOnSilence(t *testing.T) {
	f := newFixture(t, 2, inSteps(1, 10*time.Second))
	for i, cluster := range f.clusters {
		hubtest.SetCondition(t, f.direct, f.cluster(i), &cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
		f.agents.Hear(cluster.Name)
	}
	news := f.agents.News()
	f.reconcile()
	f.says(false, 0)
	f.reconcile()
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.agents.NoteRenewal(f.clusters[0].Name, f.clock.Now())
	f.after(9 * time.Second)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"))
	f.Expect(news).NotTo(Receive())
	f.agents.NoteRenewal(f.clusters[0].Name, f.clock.Now())
	f.Expect(news).To(Receive(), "it wakes the fleet")
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2"))
}

func TestAnOverrideWithABadDirectiveIsNamed(t *testing.T) {
	for patch, want := range map[string]string{
		`{"spec":{"$retainKeys":[1,{}]}}`:  "spec.overrides[a].template.spec.$retainKeys: want a list of keys",
		`{"spec":{"$retainKeys":{"a":1}}}`: "spec.overrides[a].template.spec.$retainKeys: want a list of keys",
		`{"spec":{"$patch":["replace"]}}`:  "spec.overrides[a].template.spec.$patch: want merge, replace or delete",
		`{"$setElementOrder/x":[{}]}`:      "spec.overrides[a].template.$setElementOrder/x: there is no such directive",
		`{"spec":{"template":{"spec":{"providerConfig":{"value":{"x":[{"$deleteFromPrimitiveList/y":5}]}}}}}}`: "$deleteFromPrimitiveList/y: there is no such directive",
		`{"metadata":{"annotations":{"hollowfleet.io/freeze":"x"}}}`:                                           "spec.overrides[a].template.metadata.annotations[hollowfleet.io/freeze]: it is written by programs",
	} {
		fleet := &v1alpha1.MachineFleet{}
		fleet.Spec.Overrides = []v1alpha1.MachineFleetOverride{{Name: "a", Template: &runtime.RawExtension{Raw: []byte(patch)}}}
		_, invalid := mergedTemplates(fleet)
		NewWithT(t).Expect(invalid).NotTo(BeNil(), patch)
		NewWithT(t).Expect(invalid.message).To(ContainSubstring(want), patch)
	}
}

func TestATemplateSetsNothingThatTheHubWrites(t *testing.T) {
	f := newFixture(t, 1, func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Metadata.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	})
	f.reconcile()
	f.Expect(f.phases()).To(Equal("-"))
	f.Expect(f.status().Message).To(ContainSubstring("spec.template.metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Metadata.Annotations = map[string]string{v1alpha1.AutoscalerMaxSizeAnnotation: "3"}
	})
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2"))
}
