package cluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type env struct {
	*testenv.Env
	cluster *v1alpha1.Cluster
	agents  *freeze.Agents
	logic   *Controller
}

func newEnv(t *testing.T, acceptance v1alpha1.Acceptance) *env {
	t.Helper()
	f := &env{Env: testenv.NewEnv(t), agents: &freeze.Agents{}}
	f.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: acceptance}}
	f.ExpectApplied(f.cluster)
	cached := f.Writes.Count(f.Client)
	var err error
	f.logic, err = New(Deps{Client: cached, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(cached, cached, f.logic)
	return f
}

func (f *env) accept(acceptance v1alpha1.Acceptance) {
	f.T.Helper()
	f.refresh()
	f.cluster.Spec.Acceptance = acceptance
	f.ExpectApplied(f.cluster)
}

func (f *env) refresh() *v1alpha1.Cluster {
	f.T.Helper()
	f.ExpectExists(f.cluster)
	return f.cluster
}

func (f *env) get(object client.Object, namespace, name string) error {
	return f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// agent is a client with the identity of a cluster's agent.
func (f *env) agent(cluster string) client.Client {
	f.T.Helper()
	config := rest.CopyConfig(f.Server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "agent", Groups: []string{v1alpha1.AgentGroupPrefix + cluster, "system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	return c
}

// agentRole makes the role that agents have in their namespaces, for those tests that try it.
func (f *env) agentRole() {
	f.T.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: AgentRole}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"machines"}, Verbs: []string{"get", "list", "watch"}},
	}}
	if err := f.Client.Create(f.T.Context(), role); !apierrors.IsAlreadyExists(err) {
		f.Expect(err).NotTo(HaveOccurred())
	}
}

func TestPendingClusterMayAskAndNoMore(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptancePending)
	f.ExpectReconciled(f.cluster)
	binding := &rbacv1.ClusterRoleBinding{}
	f.Expect(f.get(binding, "", JoinRoleName(f.cluster.Name))).To(Succeed())
	f.Expect(binding.Subjects).To(ConsistOf(HaveField("Name", v1alpha1.JoinGroupPrefix+f.cluster.Name)))
	f.Expect(binding.RoleRef.Name).To(Equal(JoinRoleName(f.cluster.Name)))
	f.Expect(apierrors.IsNotFound(f.get(&corev1.Namespace{}, "", f.cluster.Name))).To(BeTrue())
	f.Expect(apierrors.IsNotFound(f.get(&rbacv1.ClusterRoleBinding{}, "", RoleName(f.cluster.Name)))).To(BeTrue())
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingAcceptance))
	f.Expect(f.cluster.Status.Namespace).To(BeEmpty())
	f.Expect(f.Events()).To(BeEmpty())
}

func TestAcceptedClusterGetsNamespaceAndAccess(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.agentRole()
	f.ExpectReconciled(f.cluster)
	namespace := &corev1.Namespace{}
	f.Expect(f.get(namespace, "", f.cluster.Name)).To(Succeed())
	f.Expect(namespace.Labels).To(HaveKeyWithValue(v1alpha1.ClusterNameLabel, f.cluster.Name))
	f.Expect(namespace.Labels).To(HaveKeyWithValue(v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub))
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.cluster.Status.Namespace).To(Equal(f.cluster.Name))
	f.Expect(f.cluster.Status.ObservedGeneration).To(Equal(f.cluster.Generation))
	f.Expect(f.cluster.Finalizers).To(ContainElement(v1alpha1.ClusterFinalizer))
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("Created namespace")))

	other := newEnv(t, v1alpha1.AcceptanceAccepted)
	other.ExpectReconciled(other.cluster)
	agent := f.agent(f.cluster.Name)
	f.Eventually(func() error {
		return agent.Get(t.Context(), client.ObjectKeyFromObject(f.cluster), &v1alpha1.Cluster{})
	}).
		Should(Succeed(), "the API server's authorizer sees new bindings a moment later")
	f.Eventually(func() error {
		return agent.List(t.Context(), &v1alpha1.MachineList{}, client.InNamespace(f.cluster.Name))
	}).Should(Succeed())
	f.Expect(agent.List(t.Context(), &v1alpha1.ClusterList{}, client.MatchingFields{"metadata.name": f.cluster.Name})).To(Succeed(), "a watch of its own Cluster lists it by name")
	reported := f.refresh().DeepCopy()
	reported.Status.AgentVersion = "v1"
	f.Expect(agent.Status().Patch(t.Context(), reported, client.MergeFrom(f.cluster))).To(Succeed())

	accepted := f.refresh().DeepCopy()
	accepted.Spec.Acceptance = v1alpha1.AcceptanceDenied
	for what, err := range map[string]error{
		"changing its own spec":       agent.Patch(t.Context(), accepted, client.MergeFrom(f.cluster)),
		"deleting its own Cluster":    agent.Delete(t.Context(), f.cluster.DeepCopy()),
		"listing all Clusters":        agent.List(t.Context(), &v1alpha1.ClusterList{}),
		"reading another Cluster":     agent.Get(t.Context(), client.ObjectKeyFromObject(other.cluster), &v1alpha1.Cluster{}),
		"reading another's Machines":  agent.List(t.Context(), &v1alpha1.MachineList{}, client.InNamespace(other.cluster.Name)),
		"reading the whole's fleet's": agent.List(t.Context(), &v1alpha1.MachineList{}),
	} {
		f.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
	}
}

func TestClusterAtRestIsNotWritten(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.ExpectReconciled(f.cluster)
	f.Writes.Counts()
	for range 3 {
		f.Clock.Step(time.Minute)
		f.Expect(f.ExpectReconciled(f.cluster).RequeueAfter).To(BeZero())
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty())
}

func TestNamespaceOfSomebodyElseIsNotTakenOver(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}})
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition).Reason).To(Equal(v1alpha1.ReasonNamespaceConflict))
	f.Expect(f.cluster.Status.Namespace).To(BeEmpty())
	namespace := &corev1.Namespace{}
	f.Expect(f.get(namespace, "", f.cluster.Name)).To(Succeed())
	f.Expect(namespace.Labels).NotTo(HaveKey(v1alpha1.ManagedByLabel))
	f.Expect(apierrors.IsNotFound(f.get(&rbacv1.RoleBinding{}, f.cluster.Name, AgentRole))).To(BeTrue())
	f.Expect(f.Events()).To(ContainElement(HavePrefix("Warning " + v1alpha1.ReasonNamespaceConflict)))
}

func TestRemovedClusterLeavesNamespaceAndMachines(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	machine := f.machine("m")
	f.ExpectDeleted(f.cluster)
	f.ExpectReconciled(f.cluster)
	f.Expect(apierrors.IsNotFound(f.get(&v1alpha1.Cluster{}, "", f.cluster.Name))).To(BeTrue())
	f.expectNoAccess()
	f.untouched(machine)
	f.ExpectReconciled(f.cluster) // It is gone; that is not an error.

	again := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	f.ExpectApplied(again)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition).Status).To(Equal(metav1.ConditionTrue), "the hub knows its own namespace again")
}

func (f *env) machine(name string) *v1alpha1.Machine {
	f.T.Helper()
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: name, Finalizers: []string{v1alpha1.MachineFinalizer}},
		Spec:       v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: testenv.Template(nil).Spec},
	}
	f.ExpectApplied(machine)
	return machine
}

func (f *env) untouched(machine *v1alpha1.Machine) {
	f.T.Helper()
	namespace := &corev1.Namespace{}
	f.Expect(f.get(namespace, "", machine.Namespace)).To(Succeed())
	f.Expect(namespace.DeletionTimestamp).To(BeNil())
	f.Expect(namespace.Labels).To(HaveKeyWithValue(v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub))
	now := &v1alpha1.Machine{}
	f.Expect(f.get(now, machine.Namespace, machine.Name)).To(Succeed())
	f.Expect(now.ResourceVersion).To(Equal(machine.ResourceVersion), "the Machine was written")
}

func TestAgentThatFallsSilentFreezesItsCluster(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	renew := func() {
		f.logic.heartbeats.observeLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: &metav1.MicroTime{Time: f.Clock.Now()}},
		}, false, f.Clock.Now())
	}
	renew()
	f.Expect(f.ExpectReconciled(f.cluster).RequeueAfter).To(BeZero(), "the heartbeats wake it, at expiry")
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterJoinedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
	f.Writes.Counts()
	for range 10 {
		f.Clock.Step(10 * time.Second)
		renew()
		f.ExpectReconciled(f.cluster)
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty(), "renewals cause no write")

	f.Clock.Step(40 * time.Second)
	silent, _ := f.logic.heartbeats.expiredClusters(f.Clock.Now())
	f.Expect(silent).To(ConsistOf(f.cluster.Name))
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionUnknown))
	frozen := f.ReadCondition(f.cluster, v1alpha1.FrozenCondition)
	f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonAgentSilent))
	f.Expect(f.Events()).To(ContainElement(HavePrefix("Warning " + v1alpha1.ReasonAgentSilent)))
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeFalse(), "it has to be heard again")

	// It is back, and says what it has come to know of the world.
	renew()
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionTrue), "that may have been on its way since before")
	behind := f.refresh().DeepCopy()
	f.agentSays(metav1.ConditionTrue, v1alpha1.ReasonRelisting)
	f.Clock.Step(time.Second)
	renew()
	_, err := f.logic.Reconcile(t.Context(), behind)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(meta.IsStatusConditionTrue(behind.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)).To(BeFalse(), "the cache lags behind")
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.FrozenCondition)).To(And(
		HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonRelisting)), "not thawed in between")
	f.agentSays(metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
	f.ExpectReconciled(f.cluster)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeTrue())
	f.Expect(f.cluster.Status.Freezes).To(HaveLen(1), "what was frozen counts for no deadline")
	f.Expect(f.cluster.Status.Freezes[0].Since.Time).To(BeTemporally("~", frozen.LastTransitionTime.Time, time.Second))
}

func TestGraceIsTheClusters(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.refresh()
	f.cluster.Spec.Heartbeat = v1alpha1.Heartbeat{PeriodSeconds: 2, GraceSeconds: 6}
	f.ExpectApplied(f.cluster)
	f.ExpectReconciled(f.cluster)
	f.logic.heartbeats.observeLease(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, UID: "x"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("agent")}}, false, f.Clock.Now())
	f.ExpectReconciled(f.cluster)
	_, next := f.logic.heartbeats.expiredClusters(f.Clock.Now())
	f.Expect(next).To(Equal(6 * time.Second))
}

func TestMachinesAreCountedNowAndThen(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	ready, failed := f.machine("ready"), f.machine("failed")
	f.MarkReady(ready, true, f.Clock.Now())
	failed.Status.Phase = v1alpha1.MachineFailed
	f.ExpectStatusApplied(failed)
	f.Writes.Counts()
	f.Expect(f.ExpectReconciled(f.cluster).RequeueAfter).To(Equal(countsInterval.First))
	f.Expect(f.Writes.Counts()).To(BeEmpty(), "counts wait")
	f.Clock.Step(countsInterval.First)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.refresh().Status.Machines).To(Equal(&v1alpha1.MachineCounts{Total: 2, Ready: 1, Failed: 1}))
}

func TestWhatTheAgentReportsStays(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.refresh().Status.KubernetesVersion = "v1.37.1"
	f.ExpectConditionApplied(f.cluster, v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	f.logic.heartbeats.observeLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, UID: "x"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("agent")}}, false, f.Clock.Now())
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterTargetReachableCondition).Message).To(Equal("said by the test"))
	f.Expect(f.cluster.Status.KubernetesVersion).To(Equal("v1.37.1"))
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue))
}

func TestClockSkewIsWrittenOnceAndTold(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	renew := func(ahead time.Duration) bool {
		f.Clock.Step(10 * time.Second)
		return f.logic.heartbeats.observeLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: &metav1.MicroTime{Time: f.Clock.Now().Add(ahead)}},
		}, false, f.Clock.Now())
	}
	renew(time.Minute)
	f.ExpectReconciled(f.cluster)
	f.Events()
	f.Writes.Counts()
	f.Expect(renew(time.Minute)).To(BeFalse(), "too few to know")
	f.Expect(renew(time.Minute)).To(BeTrue())
	f.ExpectReconciled(f.cluster)
	f.Expect(f.refresh().Status.ClockSkew).To(Equal(&metav1.Duration{Duration: time.Minute}))
	f.Expect(f.Events()).To(ConsistOf(And(HavePrefix("Warning ClockSkew"), ContainSubstring("1m0s ahead of"))))
	f.Expect(f.Writes.Total()).To(Equal(1))
	for range 10 {
		f.Expect(renew(time.Minute+time.Second)).To(BeFalse(), "it has not moved enough")
		f.ExpectReconciled(f.cluster)
	}
	f.Expect(f.Writes.Total()).To(BeZero())
	f.Expect(f.Events()).To(BeEmpty())
	for range 3 {
		renew(0)
	}
	f.ExpectReconciled(f.cluster)
	f.Expect(f.refresh().Status.ClockSkew).To(BeNil())
	f.Expect(f.Events()).To(BeEmpty())
}
