package disruption

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// env has clusters with a label of their own, and a disruption that chooses them.
type env struct {
	*testenv.Env
	clusters   []*v1alpha1.Cluster
	disruption *v1alpha1.NodeDisruption
	// refuse are the clusters whose runs the API server does not create.
	refuse map[string]bool
}

func newEnv(t *testing.T, clusters int, change func(*v1alpha1.NodeDisruptionSpec)) *env {
	t.Helper()
	f := &env{Env: testenv.NewCachedEnv(t), refuse: map[string]bool{}}
	name := testenv.Name()
	for range clusters {
		cluster := f.AcceptedCluster()
		f.ExpectConditionApplied(cluster, v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
		f.ExpectConditionApplied(cluster, v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
		f.ExpectConditionApplied(cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
		f.Expect(f.Client.Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"test":"`+name+`"}}}`)))).To(Succeed())
		f.clusters = append(f.clusters, cluster)
	}
	f.disruption = &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: name}}
	f.disruption.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"test": name}}
	f.disruption.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	f.disruption.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	if change != nil {
		change(&f.disruption.Spec)
	}
	f.ExpectApplied(f.disruption)
	f.Clock.SetTime(f.disruption.CreationTimestamp.Time)
	intercepted := testenv.Refuse(f.Client, f.refuse)
	logic, err := New(Deps{Client: intercepted, Live: f.Client, Placements: &presence.Kinds{}, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(intercepted, intercepted, logic)
	return f
}

func (f *env) status() v1alpha1.NodeDisruptionStatus {
	f.T.Helper()
	f.ExpectExists(f.disruption)
	return f.disruption.Status
}

func (f *env) runs() []v1alpha1.NodeDisruptionRun {
	f.T.Helper()
	list := &v1alpha1.NodeDisruptionRunList{}
	f.Expect(f.Client.List(f.T.Context(), list, client.MatchingLabels{v1alpha1.NodeDisruptionNameLabel: f.disruption.Name})).To(Succeed())
	return list.Items
}

// say writes the status of a run, as its agent does.
func (f *env) say(run *v1alpha1.NodeDisruptionRun, change func(*v1alpha1.NodeDisruptionRunStatus)) {
	f.T.Helper()
	before := run.DeepCopy()
	change(&run.Status)
	f.Expect(f.Client.Status().Patch(f.T.Context(), run, client.MergeFrom(before))).To(Succeed())
}

func TestRunsAreMadeAndSummedUp(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.disruption)
	runs := f.runs()
	f.Expect(runs).To(HaveLen(2))
	for i := range runs {
		f.say(&runs[i], func(status *v1alpha1.NodeDisruptionRunStatus) {
			status.Phase, status.Selected, status.Injected = v1alpha1.NodeDisruptionCompleted, 3, 2
			status.Nodes = []v1alpha1.DisruptedNode{{Name: "n"}}
		})
	}
	f.ExpectReconciled(f.disruption)
	f.Expect(f.status()).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Clusters", BeEquivalentTo(2)), HaveField("Selected", BeEquivalentTo(6)), HaveField("Injected", BeEquivalentTo(4))))
	version := f.disruption.ResourceVersion
	f.ExpectReconciled(f.disruption)
	f.status()
	f.Expect(f.disruption.ResourceVersion).To(Equal(version), "what changes nothing writes nothing")
}

// A hub that is interrupted makes the runs that are missing, and no second one.
// Claim: A refused run stops no other. Broken: the time counts as done at once.
func TestAClusterWhoseRunIsRefusedStopsNoOther(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.refuse[f.clusters[1].Name] = true
	f.Expect(f.Reconcile(f.disruption)).Error().To(MatchError(ContainSubstring("refused")))
	f.Expect(f.runs()).To(HaveLen(2))
	f.Expect(f.status().LastScheduleTime).To(BeNil(), "it is not done")
	delete(f.refuse, f.clusters[1].Name)
	f.ExpectReconciled(f.disruption)
	f.Expect(f.runs()).To(HaveLen(3))
	f.Expect(f.status().LastScheduleTime).NotTo(BeNil())
}

func TestAnothersRunIsLeftAlone(t *testing.T) {
	f := newEnv(t, 1, nil)
	own := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: f.clusters[0].Name, Name: f.disruption.Name}}
	own.Spec.Disruption, own.Spec.Seed = f.disruption.Spec.Disruption, new(int64(7))
	f.ExpectApplied(own)
	f.ExpectReconciled(f.disruption)
	f.Expect(f.status().Failures).To(ConsistOf(HaveField("Message", ContainSubstring("another NodeDisruptionRun"))))
	f.Expect(f.runs()).To(BeEmpty())
	f.disruption.Spec.Paused = true
	f.ExpectApplied(f.disruption)
	f.ExpectReconciled(f.disruption)
	f.ExpectExists(own)
	f.Expect(own.Spec.Paused).To(BeFalse())
}

func TestDryRunPauseAndSchedule(t *testing.T) {
	f := newEnv(t, 1, func(spec *v1alpha1.NodeDisruptionSpec) { spec.DryRun, spec.Schedule = true, "*/5 * * * *" })
	change := func(patch string) {
		f.Expect(f.Client.Patch(t.Context(), f.disruption, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		f.ExpectReconciled(f.disruption)
	}
	f.ExpectReconciled(f.disruption)
	preview := f.runs()
	f.Expect(preview).To(ConsistOf(HaveField("Spec.Paused", true)))
	f.say(&preview[0], func(status *v1alpha1.NodeDisruptionRunStatus) {
		status.Preview = &v1alpha1.NodePreview{Selected: 1, Nodes: []string{"n"}}
	})
	f.ExpectReconciled(f.disruption)
	f.Expect(f.status().Preview).To(ConsistOf(HaveField("Selected", BeEquivalentTo(1))))
	change(`{"spec":{"dryRun":false}}`)
	f.Expect(f.runs()).To(BeEmpty())
	at := f.status().NextScheduleTime
	f.Expect(at.Time).To(BeTemporally(">", f.Clock.Now()))
	f.Clock.SetTime(at.Add(time.Second))
	f.ExpectReconciled(f.disruption)
	f.Expect(f.runs()).To(ConsistOf(HaveField("Spec.Paused", false)))
	change(`{"spec":{"paused":true}}`)
	f.Expect(f.runs()).To(ConsistOf(HaveField("Spec.Paused", true)))
	f.Clock.SetTime(at.Add(6 * time.Minute))
	change(`{"spec":{"paused":false}}`)
	f.Expect(f.runs()).To(ConsistOf(HaveField("Spec.Paused", false)))
}

// The clusters of a NodeDisruption are chosen once.
// Edge case: A NodeDisruption missed a cluster that was labelled a moment before.
func TestAClusterThatWasLabelledAMomentBeforeIsChosen(t *testing.T) {
	f := newEnv(t, 1, nil)
	logic, err := New(Deps{Client: testenv.Outdated(f.Client), Live: f.Client, Placements: &presence.Kinds{}, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(f.Client, f.Client, logic)
	f.ExpectReconciled(f.disruption)
	f.Expect(f.status().Phase).To(Equal(v1alpha1.NodeDisruptionPending), f.status().Message)
}
