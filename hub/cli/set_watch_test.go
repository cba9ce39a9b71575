package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// rolledSet is a set of the env's name with three clusters on one host: the first soaks, and one is of the group "rest", which comes later.
func (f *env) rolledSet() (*v1alpha1.SimulatedClusterSet, []*v1alpha1.SimulatedCluster) {
	f.T.Helper()
	f.ownCluster()
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	set.Spec.Template.Spec.Versions.ControlPlane = "v1.37"
	set.Spec.Rollout.Groups = []v1alpha1.MachineFleetGroup{
		{Name: "canary", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}}, {Name: "rest", ClusterSelector: &metav1.LabelSelector{}},
	}
	set.Spec.Rollout.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{
		RolloutConfig: ocm.RolloutConfig{MinSuccessTime: metav1.Duration{Duration: time.Hour}}, MaxConcurrency: intstr.FromInt32(1),
		MandatoryDecisionGroups: ocm.MandatoryDecisionGroups{MandatoryDecisionGroups: []ocm.MandatoryDecisionGroup{{GroupName: "canary"}}},
	}}
	f.ExpectApplied(set)
	var ones []*v1alpha1.SimulatedCluster
	for i := range 3 {
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", f.name, i)}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
		one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.name, Name: cluster.Name, Labels: map[string]string{v1alpha1.SimulatedClusterSetNameLabel: set.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SimulatedClusterSet", Name: set.Name, UID: set.UID, Controller: new(true)}},
		}}
		one.Spec.Versions.ControlPlane = "v1.36"
		if i < 2 {
			cluster.Labels = map[string]string{"stage": "canary"}
		}
		f.ExpectApplied(cluster, one)
		if i == 0 {
			one.Annotations = map[string]string{v1alpha1.FleetRecordAnnotation: rollout.NewRecord(set,
				plan.Record{Revision: "v1.37", Phase: plan.Soaking, Since: time.Now().Add(-time.Minute)}, "canary").BindTo(one).AnnotationValue()}
			one.Spec.Versions.ControlPlane = "v1.37"
			f.ExpectApplied(one)
		}
		one.Status.ObservedGeneration = one.Generation
		one.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: one.Generation, LastTransitionTime: metav1.Now()},
			{Type: v1alpha1.ControlPlaneReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: one.Generation, LastTransitionTime: metav1.Now()},
		}
		f.ExpectStatusApplied(one)
		ones = append(ones, one)
	}
	f.setRolls(set, v1alpha1.ReasonRollingOut, v1alpha1.MachineFleetClusters{Selected: 3, Soaking: 1, Waiting: 2})
	return set, ones
}

// setRolls writes how the hub says the rollout of a set is.
func (f *env) setRolls(set *v1alpha1.SimulatedClusterSet, reason string, counts v1alpha1.MachineFleetClusters) {
	f.T.Helper()
	f.ExpectExists(set)
	set.Status.ObservedGeneration = set.Generation
	set.Status.Rollout = v1alpha1.SimulatedClusterSetRolloutStatus{Revision: "v1.37", Rollout: set.Generation, CurrentWave: 1, Waves: 2, Clusters: counts}
	ready := metav1.ConditionFalse
	if reason == v1alpha1.ReasonRolloutComplete {
		ready = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&set.Status.Conditions, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: ready, Reason: reason, Message: "wave 1 of 2", ObservedGeneration: set.Generation})
	meta.SetStatusCondition(&set.Status.Conditions, metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionTrue, Reason: reason, Message: "wave 1 of 2"})
	f.ExpectStatusApplied(set)
}

// onTerminal starts a command on a terminal of that size.
func (f *env) onTerminal(columns uint16, args string) (*terminal, <-chan run) {
	f.T.Helper()
	screen := newTerminal(f.T)
	f.Expect(unix.IoctlSetWinsize(int(screen.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns})).To(Succeed())
	ctx, interrupt := context.WithCancel(f.T.Context())
	ended := make(chan run, 1)
	go func() { ended <- f.hollowOn(ctx, screen.file, args) }()
	f.T.Cleanup(interrupt)
	return screen, ended
}

// Claim: `status` shows the rollouts of MachineFleets and SimulatedClusterSets that are not complete with their waves: on the screen of -w, in lines and in JSON. Broken: those of sets left out; one that is complete stays.
func TestStatusShowsRolloutsOfSets(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	set, _ := f.rolledSet()
	wide, _ := f.onTerminal(140, "status -w")
	narrow, _ := f.onTerminal(40, "status -w")
	lines := f.follows("status -w")
	f.Eventually(wide.shows).WithTimeout(patience).Should(And(ContainSubstring("SimulatedClusterSet "+f.name+" to v1.37"),
		ContainSubstring("[------------------------------] wave 1 of 2, 0 of 3 updated, 1 soaking, 2 waiting")))
	f.Eventually(narrow.shows).WithTimeout(patience).Should(And(ContainSubstring("[--------] wave 1 of 2, 0 of 3"), ContainSubstring("1 soaking, 2 waiting")))
	for _, line := range strings.Split(narrow.shows(), "\r\n") {
		f.Expect(len([]rune(strings.Trim(line, "\r")))).To(BeNumerically("<=", 40), line)
	}
	lines.shows(`(?m)^Rollout: +SimulatedClusterSet ` + f.name + ` to v1.37: wave 1 of 2, 0 of 3 updated, 1 soaking, 2 waiting$`)
	var document struct {
		Rollouts []struct {
			Kind, Name, Revision, Reason string
			CurrentWave, Waves           int
			Clusters                     v1alpha1.MachineFleetClusters
		}
	}
	f.Expect(json.Unmarshal([]byte(f.hollow("status -o json").out), &document)).To(Succeed())
	f.Expect(document.Rollouts).To(ConsistOf(And(HaveField("Kind", "SimulatedClusterSet"), HaveField("Name", f.name), HaveField("Revision", "v1.37"),
		HaveField("Reason", "RollingOut"), HaveField("CurrentWave", 1), HaveField("Waves", 2), HaveField("Clusters.Soaking", BeEquivalentTo(1)))))

	f.setRolls(set, v1alpha1.ReasonRollingOut, v1alpha1.MachineFleetClusters{Selected: 3, Updated: 1, Failed: 1, Waiting: 1})
	lines.shows(`(?m)^Rollout: +SimulatedClusterSet ` + f.name + ` to v1.37: wave 1 of 2, 1 of 3 updated, 1 waiting, 1 failed$`)
	f.setRolls(set, v1alpha1.ReasonRolloutComplete, v1alpha1.MachineFleetClusters{Selected: 3, Updated: 3})
	f.Eventually(func() string { // What was drawn last.
		drawn := strings.Split(wide.shows(), "Status at ")
		return drawn[len(drawn)-1]
	}).WithTimeout(patience).Should(And(ContainSubstring("SimulatedCluster:    3: 3 healthy"), Not(ContainSubstring("wave 1 of 2"))))
	lines.stopsBy130()
}

// Claim: On a terminal, `rollout status simulatedclusterset` shows the clusters in their waves: how long each soaks, what it waits for, first those that a person has to look at. Broken: a cluster without its turn called updated; the frozen host not said.
func TestTheRolloutOfASetOnATerminal(t *testing.T) {
	f := newEnv(t)
	set, ones := f.rolledSet()
	screen, ended := f.onTerminal(140, "rollout status simulatedclusterset NAME")
	f.Eventually(screen.shows).WithTimeout(patience).Should(And(ContainSubstring("Wave 1 of 2 (canary)"), MatchRegexp(ones[0].Name+` Soaking, 5\dm left`),
		ContainSubstring(ones[1].Name+" waits for its turn"), ContainSubstring("Wave 2 of 2"), ContainSubstring(ones[2].Name+" waits for its turn"), ContainSubstring("0 of 2 updated"), ContainSubstring("0 of 1 updated")))
	host := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.ExpectExists(host)
	f.ExpectConditionApplied(host, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonManualFreeze)
	f.Eventually(screen.shows).WithTimeout(patience).Should(ContainSubstring(ones[1].Name + " Waiting: "))
	f.setRolls(set, v1alpha1.ReasonRolloutComplete, v1alpha1.MachineFleetClusters{Selected: 3, Updated: 3})
	var r run
	f.Eventually(ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(screen.shows()).To(ContainSubstring("has rolled out: 3 of 3 clusters have v1.37"))
}

// Claim: `fleet tree` shows a SimulatedClusterSet with its SimulatedClusters, and below each its Cluster down to the Nodes; it follows with -w. Broken: clusters of another set shown; nothing printed after a change.
func TestTheTreeOfASet(t *testing.T) {
	f := newEnv(t)
	_, ones := f.rolledSet()
	stranger := ones[0].DeepCopy()
	stranger.ObjectMeta = metav1.ObjectMeta{Namespace: f.name, Name: "stranger", Labels: map[string]string{v1alpha1.SimulatedClusterSetNameLabel: f.name}}
	f.ExpectApplied(stranger)
	shown := f.follows("fleet tree simulatedclusterset/NAME -w")
	shown.shows(`(?s)SimulatedClusterSet/` + f.name + ` +False \(RollingOut\).*├─ SimulatedCluster/` + f.name + `-0 +True.* v1.37.*│  └─ Cluster/` + f.name + `-0`)
	f.Expect(shown.out.String()).NotTo(ContainSubstring("stranger"))
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: ones[2].Name}}
	f.ExpectExists(cluster)
	f.ExpectConditionApplied(cluster, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonManualFreeze)
	shown.shows(`Cluster/` + f.name + `-2 +\S+.* True \(ManualFreeze\)`)
	shown.stopsBy130()
	f.fails(3, "see kubectl get simulatedclustersets", "fleet tree simulatedclusterset/nope")
}
