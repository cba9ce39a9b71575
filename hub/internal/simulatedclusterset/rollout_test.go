package simulatedclusterset

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// newRollout has a set whose members, all on one host, are Ready in v1.36.
func newRollout(t *testing.T, replicas int, rollout string) *env {
	t.Helper()
	f := newEnv(t, 1, int32(replicas))
	if rollout != "" {
		f.patch(f.set, `{"spec":{"rollout":`+rollout+`}}`)
	}
	f.ExpectReconciled(f.set)
	f.answer()
	f.ExpectReconciled(f.set)
	return f
}

// answer lets the host say of every member that it runs what was asked for.
func (f *env) answer() {
	f.T.Helper()
	for _, one := range f.all() {
		one.Status.ObservedGeneration = one.Generation
		one.Status.Versions = &v1alpha1.ObservedControlPlaneVersions{ControlPlane: one.Spec.Versions.ControlPlane}
		for _, kind := range []string{v1alpha1.ControlPlaneReadyCondition, v1alpha1.ReadyCondition} {
			meta.SetStatusCondition(&one.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: one.Generation})
		}
		f.ExpectStatusApplied(&one)
	}
}

func (f *env) all() []v1alpha1.SimulatedCluster {
	f.T.Helper()
	list := &v1alpha1.SimulatedClusterList{}
	f.Expect(f.Client.List(f.T.Context(), list, client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: f.set.Name})).To(Succeed())
	return list.Items
}

// expectVersions reconciles, twice because gates are kept first, and compares how many members have a version.
func (f *env) expectVersions(version string, count int) {
	f.T.Helper()
	f.ExpectReconciled(f.set)
	f.ExpectReconciled(f.set)
	has := 0
	for _, one := range f.all() {
		if one.Spec.Versions.ControlPlane == version {
			has++
		}
	}
	f.Expect(has).To(Equal(count), f.ReadCondition(f.set, v1alpha1.ProgressingCondition).Message)
}

func (f *env) raise(version string) {
	f.T.Helper()
	f.patch(f.set, `{"spec":{"template":{"spec":{"versions":{"controlPlane":"`+version+`"}}}}}`)
}

// Claim: A set rolls a version out to what there is, by the planner of fleets, and no more at once than maxConcurrency. Broken: the version written to all; the gates not kept before the first.
func TestASetRollsAVersionOut(t *testing.T) {
	f := newRollout(t, 3, "")
	f.expectSaid(v1alpha1.ReadyCondition, v1alpha1.ReasonReady, "")
	f.raise("v1.37")
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<", time.Second)))
	f.Expect(f.all()).To(HaveEach(HaveField("Spec.Versions.ControlPlane", "v1.36")), "the gates are kept before anything starts")
	f.ExpectExists(f.set)
	f.Expect(f.set.Status.Rollout.Started).NotTo(BeNil())
	for updated := range 3 {
		f.expectVersions("v1.37", updated+1)
		f.expectVersions("v1.37", updated+1)
		f.expectSaid(v1alpha1.ReconcilingCondition, v1alpha1.ReasonRollingOut, fmt.Sprintf("%d of 3 clusters have v1.37, 1 in progress", updated))
		f.answer()
	}
	f.expectVersions("v1.37", 3)
	f.expectSaid(v1alpha1.ReadyCondition, v1alpha1.ReasonReady, "")
	f.ExpectExists(f.set)
	f.Expect(f.set.Status.Rollout.History).To(ConsistOf(And(HaveField("Result", v1alpha1.ReasonRolloutComplete), HaveField("Updated", int32(3)))))
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("Upgrading the control plane of SimulatedCluster " + f.set.Name + "-0 to v1.37")))
	f.Writes.Total()
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Total()).To(BeZero(), "what changes nothing writes nothing")
}

// An aborted version starts in no further cluster, and what has it keeps it.
func TestAnAbortedVersionStartsNowhereElse(t *testing.T) {
	f := newRollout(t, 3, "")
	f.raise("v1.37")
	f.expectVersions("v1.37", 1)
	f.patch(f.set, `{"spec":{"rollout":{"abortedRevision":"v1.37"}}}`)
	f.answer()
	f.expectVersions("v1.37", 1)
	f.answer()
	f.expectVersions("v1.37", 1)
	f.expectSaid(v1alpha1.ProgressingCondition, v1alpha1.ReasonAborted, "1 of 3 clusters have v1.37")
	f.patch(f.set, `{"spec":{"rollout":{"abortedRevision":null}}}`)
	f.expectVersions("v1.37", 2)
}

// Claim: A host that is frozen or silent gets no version and passes none. Broken: holds of hosts not asked for.
func TestAHeldHostStartsNoUpgradeAndPassesNone(t *testing.T) {
	f := newRollout(t, 2, "")
	f.raise("v1.37")
	f.agents.Forget(f.hosts[0].Name)
	f.expectVersions("v1.37", 0)
	f.agents.Hear(f.hosts[0].Name)
	f.expectVersions("v1.37", 1)
	f.patch(f.hosts[0], `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"x"}}}`)
	f.answer()
	f.expectVersions("v1.37", 1)
	f.expectSaid(v1alpha1.ProgressingCondition, v1alpha1.ReasonClustersHeld, "frozen, silent or not Ready")
	f.patch(f.hosts[0], `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":null}}}`)
	f.expectVersions("v1.37", 2)
}

const gated = `{"rolloutStrategy":{"type":"ProgressivePerGroup","progressive":null},"groups":[{"name":"all","approval":"Required","clusterSelector":{}}]}`

func (f *env) approve(kind v1alpha1.ApprovedKind) *v1alpha1.FleetApproval {
	f.T.Helper()
	f.ExpectExists(f.set)
	status := &f.set.Status.Rollout
	approval := &v1alpha1.FleetApproval{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}
	approval.Spec = v1alpha1.FleetApprovalSpec{
		Kind: kind, Fleet: f.set.Name, FleetUID: string(f.set.UID), Revision: status.Revision, Rollout: status.Rollout, Group: "all", Approver: "jo",
	}
	f.ExpectApplied(approval)
	return approval
}

// Claim: A version waits for the approval of its group. Broken: an approval of another kind counts; one that was taken back counts.
func TestAVersionWaitsForItsApproval(t *testing.T) {
	f := newRollout(t, 2, gated)
	f.raise("v1.37")
	f.expectVersions("v1.37", 0)
	f.expectSaid(v1alpha1.ProgressingCondition, v1alpha1.ReasonAwaitingApproval, "rollout approve simulatedclusterset "+f.set.Name+" --group all")
	f.Expect(f.set.Status.Rollout.AwaitingApproval).To(ConsistOf("all"))
	f.approve(v1alpha1.ApprovedFleet)
	f.expectVersions("v1.37", 0)
	f.ExpectDeleted(f.approve(v1alpha1.ApprovedSet))
	f.expectVersions("v1.37", 0)
	f.approve(v1alpha1.ApprovedSet)
	f.expectVersions("v1.37", 2)
}

// Claim: What rests on an old look is not written. Broken: the set not read again before a write.
func TestAPauseInTheLastMomentIsObeyed(t *testing.T) {
	for name, change := range map[string]func(f *env){
		"pause":           func(f *env) { f.patch(f.set, `{"spec":{"rollout":{"paused":true}}}`) },
		"another version": func(f *env) { f.raise("v1.38") },
		"frozen host": func(f *env) {
			f.patch(f.hosts[0], `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"x"}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRollout(t, 1, "")
			f.raise("v1.37")
			f.ExpectReconciled(f.set)
			late := &lastMoment{Reader: f.Client, act: func() { change(f) }}
			logic, err := New(Deps{Client: f.Client, Live: late, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
			f.Expect(err).NotTo(HaveOccurred())
			_, _ = reconciler.New(f.Client, f.Client, logic).Reconcile(t.Context(), reconciler.Request("", f.set.Name))
			f.Expect(late.act).To(BeNil(), "the moment has come")
			f.Expect(f.all()).To(HaveEach(HaveField("Spec.Versions.ControlPlane", "v1.36")))
		})
	}
}

// lastMoment lets something happen after the SimulatedClusters were listed for a decision, or before the first write that follows from it.
type lastMoment struct {
	client.Reader
	act     func()
	writing bool
}

func (l *lastMoment) happen(now bool) {
	if act := l.act; now && act != nil {
		l.act = nil
		act()
	}
}

func (l *lastMoment) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Reader.List(ctx, list, options...)
	_, is := list.(*v1alpha1.SimulatedClusterList)
	l.happen(is && !l.writing)
	return err
}

func (l *lastMoment) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	_, is := object.(*v1alpha1.SimulatedClusterSet)
	l.happen(is && l.writing)
	return l.Reader.Get(ctx, key, object, options...)
}

// Claim: An approval that is taken back between decision and write counts no more. Broken: it is not asked for again.
func TestAnApprovalThatIsTakenBackInTheLastMomentDoesNotCount(t *testing.T) {
	f := newRollout(t, 1, gated)
	f.raise("v1.37")
	f.expectVersions("v1.37", 0)
	given := f.approve(v1alpha1.ApprovedSet)
	f.ExpectReconciled(f.set) // The gates are kept.
	late := &lastMoment{Reader: f.Client, act: func() { f.ExpectDeleted(given) }, writing: true}
	logic, err := New(Deps{Client: f.Client, Live: late, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = reconciler.New(f.Client, f.Client, logic).Reconcile(t.Context(), reconciler.Request("", f.set.Name))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(late.act).To(BeNil(), "the moment has come")
	f.Expect(f.all()).To(HaveEach(HaveField("Spec.Versions.ControlPlane", "v1.36")))
}

func TestAHubThatMayNotLeadAnyMoreStartsNothing(t *testing.T) {
	f := newRollout(t, 1, "")
	f.raise("v1.37")
	f.ExpectReconciled(f.set)
	logic, err := New(Deps{
		Client: f.Client, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock,
		Leads: func(context.Context) (time.Time, error) { return f.Clock.Now().Add(time.Second), nil },
	})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = reconciler.New(f.Client, f.Client, logic).Reconcile(t.Context(), reconciler.Request("", f.set.Name))
	f.Expect(err).To(MatchError(errNotLeading))
	f.Expect(f.all()).To(HaveEach(HaveField("Spec.Versions.ControlPlane", "v1.36")))
}

// Claim: A control plane is not upgraded past what its kubelets allow. Broken: the Machines not looked at.
func TestAnUpgradeWaitsForKubeletsThatAreTooOld(t *testing.T) {
	f := newRollout(t, 1, "")
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.set.Name + "-0"}})
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Name + "-0", Name: "old"}}
	machine.Spec.ClusterName, machine.Spec.Versions.Kubelet = f.set.Name+"-0", "v1.33.0"
	machine.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}}
	f.ExpectApplied(machine)
	f.raise("v1.37")
	f.expectVersions("v1.37", 0)
	f.expectSaid(v1alpha1.StalledCondition, v1alpha1.ReasonClustersBlocked, "does not support the kubelet v1.33.0 of Machine old")
	f.ExpectDeleted(machine)
	f.expectVersions("v1.37", 1)
}
