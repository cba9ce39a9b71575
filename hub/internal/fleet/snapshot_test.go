package fleet

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// members are the groups of the clusters with which the newest template was started, by the clusters' numbers.
func (f *env) members() map[int]string {
	f.T.Helper()
	kept, err := rollout.Templates(f.T.Context(), f.Client, f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	members := map[int]string{}
	for i, cluster := range f.clusters {
		if group, known := kept[len(kept)-1].Members[cluster.Name]; known {
			members[i] = group
		}
	}
	return members
}

// A hub that is started again after every step comes to the same.
func TestAClusterThatJoinsInMidRolloutIsLate(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			f := newEnv(t, 5, inSteps(1, 0))
			step := func() {
				if restarted {
					f.restart()
				}
				f.ExpectReconciled(f.fleet)
			}
			f.label(3, testLabel, "")
			f.label(4, testLabel, "")
			f.label(4, "group", "canary")
			f.settle()
			f.upgrade("v1.37.0")
			step()
			f.Expect(f.members()).To(Equal(map[int]string{0: "canary", 1: "", 2: ""}), "they are stored before the first is started")
			f.label(3, testLabel, f.fleet.Name)
			f.label(4, testLabel, f.fleet.Name)
			f.label(2, "group", "canary")
			step()
			f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2, -, -"), "nothing before the canary has proven it")
			f.says(false, 0)
			step()
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Progressing v1.37.0, -, -"), "one that is a canary now comes before those that are none")
			f.says(false, 2)
			step()
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.37.0, -, -"), "one of a mandatory group that is late is in its turn by name")
			f.says(false, 1)
			step()
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0, Progressing v1.37.0, -"), "late ones are started, in what room there is")
			f.status()
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonRollingOut), "it is complete only with them")
			f.Expect(f.fleet.Status.Message).To(And(ContainSubstring("joined since the rollout started: "), ContainSubstring(f.clusters[3].Name), ContainSubstring(f.clusters[4].Name)))
			f.says(true, 3)
			step()
			f.Expect(f.phases()).To(HaveSuffix("Failed v1.37.0, Progressing v1.37.0"), "the failure of one that is late stops nothing")
			f.says(false, 4)
			step()
			status := f.status()
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonRolloutComplete))
			f.Expect(status.Failures).To(ConsistOf(HaveField("Cluster", f.clusters[3].Name)))
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Reason).To(Equal(v1alpha1.ReasonRolloutFailed))
			f.Expect(f.members()).To(HaveLen(3), "the snapshot stays as it was")
		})
	}
}

func TestARolloutThatGoesBackTakesANewSnapshot(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	f.label(2, testLabel, "")
	f.settle()
	f.upgrade("v1.37.0")
	f.settle()
	f.Expect(f.members()).To(Equal(map[int]string{0: "canary", 1: ""}))
	f.label(2, testLabel, f.fleet.Name)
	f.label(1, "group", "canary")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.AllowDowngrade = true
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.36.2"
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.templates()).To(Equal([]string{"2 v1.37.0", "3 v1.36.2"}))
	f.Expect(f.members()).To(Equal(map[int]string{0: "canary", 1: "canary", 2: ""}))
}

// A snapshot that is gone is recreated from the clusters that there are, by a hub that does not know it.
func TestASnapshotThatWasDeletedIsMadeAnew(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	f.label(2, testLabel, "")
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.label(2, testLabel, f.fleet.Name)
	kept, err := rollout.Templates(t.Context(), f.Client, f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	f.ExpectDeleted(kept[1].Kept)
	f.restart()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.members()).To(Equal(map[int]string{0: "canary", 1: "", 2: ""}))
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, -"))
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0"))
}

// A template that was kept before there were snapshots gets one when it is started in a further cluster.
func TestATemplateWithoutASnapshotGetsOne(t *testing.T) {
	f := newEnv(t, 2, inSteps(1, 0))
	f.ExpectReconciled(f.fleet)
	kept, err := rollout.Templates(t.Context(), f.Client, f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	older := kept[0].Kept.DeepCopy()
	delete(older.Annotations, v1alpha1.FleetMembersAnnotation)
	f.Expect(f.Client.Patch(t.Context(), older, client.MergeFrom(kept[0].Kept))).To(Succeed())
	f.restart()
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2"))
	f.Expect(f.members()).To(HaveLen(2))
	f.Expect(f.templates()).To(Equal([]string{"1 v1.36.2"}))
}
