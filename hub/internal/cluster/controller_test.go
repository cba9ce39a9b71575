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
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

var environment *testenv.Environment

func TestMain(m *testing.M) { testenv.Main(m, &environment) }

type env struct {
	*WithT
	t       *testing.T
	direct  client.WithWatch
	cluster *v1alpha1.Cluster
	clock   *testclock.FakeClock
	agents  *freeze.Agents
	events  *events.FakeRecorder
	writes  hubtest.Writes
	logic   *Controller
	runner  reconcile.Reconciler
}

func newEnv(t *testing.T, acceptance v1alpha1.Acceptance) *env {
	t.Helper()
	f := &env{WithT: NewWithT(t), t: t, direct: hubtest.Client(t, environment), events: events.NewFakeRecorder(1000), agents: &freeze.Agents{}}
	f.clock = testclock.NewFakeClock(time.Now())
	f.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: hubtest.Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: acceptance}}
	hubtest.Create(t, f.direct, f.cluster)
	cached := f.writes.Count(f.direct)
	var err error
	f.logic, err = New(Deps{Client: cached, Live: f.direct, Recorder: f.events, Agents: f.agents, Clock: f.clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.runner = reconciler.New(cached, cached, f.logic)
	return f
}

func (f *env) reconcile() reconcile.Result {
	f.t.Helper()
	result, err := f.runner.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.cluster)})
	f.Expect(err).NotTo(HaveOccurred())
	return result
}

func (f *env) accept(acceptance v1alpha1.Acceptance) {
	f.t.Helper()
	f.refresh()
	f.cluster.Spec.Acceptance = acceptance
	f.Expect(f.direct.Update(f.t.Context(), f.cluster)).To(Succeed())
}

func (f *env) refresh() *v1alpha1.Cluster {
	f.t.Helper()
	f.Expect(f.direct.Get(f.t.Context(), client.ObjectKeyFromObject(f.cluster), f.cluster)).To(Succeed())
	return f.cluster
}

func (f *env) condition(kind string) metav1.Condition {
	f.t.Helper()
	condition := meta.FindStatusCondition(f.refresh().Status.Conditions, kind)
	f.Expect(condition).NotTo(BeNil(), kind)
	return *condition
}

func (f *env) get(object client.Object, namespace, name string) error {
	return f.direct.Get(f.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// agent is a client with the identity of a cluster's agent.
func (f *env) agent(cluster string) client.Client {
	f.t.Helper()
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "agent", Groups: []string{v1alpha1.AgentGroupPrefix + cluster, "system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	return c
}

// agentRole makes the role that agents have in their namespaces, for those tests that try it.
func (f *env) agentRole() {
	f.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: AgentRole}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"machines"}, Verbs: []string{"get", "list", "watch"}},
	}}
	if err := f.direct.Create(f.t.Context(), role); !apierrors.IsAlreadyExists(err) {
		f.Expect(err).NotTo(HaveOccurred())
	}
}

func (f *env) told() []string {
	var notes []string
	for {
		select {
		case note := <-f.events.Events:
			notes = append(notes, note)
		default:
			return notes
		}
	}
}

func TestPendingClusterMayAskAndNoMore(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptancePending)
	f.reconcile()
	binding := &rbacv1.ClusterRoleBinding{}
	f.Expect(f.get(binding, "", JoinRoleName(f.cluster.Name))).To(Succeed())
	f.Expect(binding.Subjects).To(ConsistOf(HaveField("Name", v1alpha1.JoinGroupPrefix+f.cluster.Name)))
	f.Expect(binding.RoleRef.Name).To(Equal(JoinRoleName(f.cluster.Name)))
	f.Expect(apierrors.IsNotFound(f.get(&corev1.Namespace{}, "", f.cluster.Name))).To(BeTrue())
	f.Expect(apierrors.IsNotFound(f.get(&rbacv1.ClusterRoleBinding{}, "", RoleName(f.cluster.Name)))).To(BeTrue())
	f.Expect(f.condition(v1alpha1.ClusterAcceptedCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingAcceptance))
	f.Expect(f.cluster.Status.Namespace).To(BeEmpty())
	f.Expect(f.told()).To(BeEmpty())
}

func TestAcceptedClusterGetsNamespaceAndAccess(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.agentRole()
	f.reconcile()
	namespace := &corev1.Namespace{}
	f.Expect(f.get(namespace, "", f.cluster.Name)).To(Succeed())
	f.Expect(namespace.Labels).To(HaveKeyWithValue(v1alpha1.ClusterNameLabel, f.cluster.Name))
	f.Expect(namespace.Labels).To(HaveKeyWithValue(v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub))
	f.Expect(f.condition(v1alpha1.ClusterAcceptedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.cluster.Status.Namespace).To(Equal(f.cluster.Name))
	f.Expect(f.cluster.Status.ObservedGeneration).To(Equal(f.cluster.Generation))
	f.Expect(f.cluster.Finalizers).To(ContainElement(v1alpha1.ClusterFinalizer))
	f.Expect(f.told()).To(ContainElement(ContainSubstring("Created namespace")))

	other := newEnv(t, v1alpha1.AcceptanceAccepted)
	other.reconcile()
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
	f.reconcile()
	f.reconcile()
	f.writes.Counts()
	for range 3 {
		f.clock.SetTime(f.clock.Now().Add(time.Minute))
		f.Expect(f.reconcile().RequeueAfter).To(BeZero())
	}
	f.Expect(f.writes.Counts()).To(BeEmpty())
}

func TestNamespaceOfSomebodyElseIsNotTakenOver(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	hubtest.Create(t, f.direct, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}})
	f.reconcile()
	f.Expect(f.condition(v1alpha1.ClusterAcceptedCondition).Reason).To(Equal(v1alpha1.ReasonNamespaceConflict))
	f.Expect(f.cluster.Status.Namespace).To(BeEmpty())
	namespace := &corev1.Namespace{}
	f.Expect(f.get(namespace, "", f.cluster.Name)).To(Succeed())
	f.Expect(namespace.Labels).NotTo(HaveKey(v1alpha1.ManagedByLabel))
	f.Expect(apierrors.IsNotFound(f.get(&rbacv1.RoleBinding{}, f.cluster.Name, AgentRole))).To(BeTrue())
	f.Expect(f.told()).To(ContainElement(HavePrefix("Warning " + v1alpha1.ReasonNamespaceConflict)))
}

func TestRemovedClusterLeavesNamespaceAndMachines(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.reconcile()
	machine := f.machine("m")
	f.Expect(f.direct.Delete(t.Context(), f.cluster)).To(Succeed())
	f.reconcile()
	f.Expect(apierrors.IsNotFound(f.get(&v1alpha1.Cluster{}, "", f.cluster.Name))).To(BeTrue())
	f.expectNoAccess()
	f.untouched(machine)
	f.reconcile() // It is gone; that is not an error.

	again := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	hubtest.Create(t, f.direct, again)
	f.reconcile()
	f.Expect(f.condition(v1alpha1.ClusterAcceptedCondition).Status).To(Equal(metav1.ConditionTrue), "the hub knows its own namespace again")
}

func (f *env) machine(name string) *v1alpha1.Machine {
	f.t.Helper()
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: name, Finalizers: []string{v1alpha1.MachineFinalizer}},
		Spec:       v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: hubtest.Template(nil).Spec},
	}
	hubtest.Create(f.t, f.direct, machine)
	return machine
}

func (f *env) untouched(machine *v1alpha1.Machine) {
	f.t.Helper()
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
	f.reconcile()
	renew := func() {
		f.logic.heartbeats.observeLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: &metav1.MicroTime{Time: f.clock.Now()}},
		}, false, f.clock.Now())
	}
	renew()
	f.Expect(f.reconcile().RequeueAfter).To(BeZero(), "the heartbeats wake it, at expiry")
	f.Expect(f.condition(v1alpha1.ClusterJoinedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.condition(v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.condition(v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
	f.writes.Counts()
	for range 10 {
		f.clock.SetTime(f.clock.Now().Add(10 * time.Second))
		renew()
		f.reconcile()
	}
	f.Expect(f.writes.Counts()).To(BeEmpty(), "renewals cause no write")

	f.clock.SetTime(f.clock.Now().Add(40 * time.Second))
	silent, _ := f.logic.heartbeats.expiredClusters(f.clock.Now())
	f.Expect(silent).To(ConsistOf(f.cluster.Name))
	f.reconcile()
	f.Expect(f.condition(v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionUnknown))
	frozen := f.condition(v1alpha1.FrozenCondition)
	f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonAgentSilent))
	f.Expect(f.told()).To(ContainElement(HavePrefix("Warning " + v1alpha1.ReasonAgentSilent)))
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeFalse(), "it has to be heard again")

	// It is back, and says what it has come to know of the world.
	renew()
	f.reconcile()
	f.Expect(f.condition(v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionTrue), "that may have been on its way since before")
	behind := f.refresh().DeepCopy()
	f.agentSays(metav1.ConditionTrue, v1alpha1.ReasonRelisting)
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	renew()
	_, err := f.logic.Reconcile(t.Context(), behind)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(meta.IsStatusConditionTrue(behind.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)).To(BeFalse(), "the cache lags behind")
	f.reconcile()
	f.Expect(f.condition(v1alpha1.ClusterAgentConnectedCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.condition(v1alpha1.FrozenCondition)).To(And(
		HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonRelisting)), "not thawed in between")
	f.agentSays(metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
	f.reconcile()
	f.reconcile()
	f.Expect(f.condition(v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
	f.Expect(f.agents.Heard(f.cluster.Name)).To(BeTrue())
	f.Expect(f.cluster.Status.Freezes).To(HaveLen(1), "what was frozen counts for no deadline")
	f.Expect(f.cluster.Status.Freezes[0].Since.Time).To(BeTemporally("~", frozen.LastTransitionTime.Time, time.Second))
}

func TestGraceIsTheClusters(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.refresh()
	f.cluster.Spec.Heartbeat = v1alpha1.Heartbeat{PeriodSeconds: 2, GraceSeconds: 6}
	f.Expect(f.direct.Update(t.Context(), f.cluster)).To(Succeed())
	f.reconcile()
	f.logic.heartbeats.observeLease(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, UID: "x"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("agent")}}, false, f.clock.Now())
	f.reconcile()
	_, next := f.logic.heartbeats.expiredClusters(f.clock.Now())
	f.Expect(next).To(Equal(6 * time.Second))
}

func TestMachinesAreCountedNowAndThen(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.reconcile()
	ready, failed := f.machine("ready"), f.machine("failed")
	hubtest.MarkReady(t, f.direct, ready, true, f.clock.Now())
	failed.Status.Phase = v1alpha1.MachineFailed
	f.Expect(f.direct.Status().Update(t.Context(), failed)).To(Succeed())
	f.writes.Counts()
	f.Expect(f.reconcile().RequeueAfter).To(Equal(countsInterval.First))
	f.Expect(f.writes.Counts()).To(BeEmpty(), "counts wait")
	f.clock.SetTime(f.clock.Now().Add(countsInterval.First))
	f.reconcile()
	f.Expect(f.refresh().Status.Machines).To(Equal(&v1alpha1.MachineCounts{Total: 2, Ready: 1, Failed: 1}))
}

func TestWhatTheAgentReportsStays(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.reconcile()
	f.refresh().Status.KubernetesVersion = "v1.37.1"
	hubtest.SetCondition(t, f.direct, f.cluster, &f.cluster.Status.Conditions, v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	f.logic.heartbeats.observeLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, UID: "x"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("agent")}}, false, f.clock.Now())
	f.reconcile()
	f.Expect(f.condition(v1alpha1.ClusterTargetReachableCondition).Message).To(Equal("said by the test"))
	f.Expect(f.cluster.Status.KubernetesVersion).To(Equal("v1.37.1"))
	f.Expect(f.condition(v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue))
}

func TestClockSkewIsWrittenOnceAndTold(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.reconcile()
	renew := func(ahead time.Duration) bool {
		f.clock.Step(10 * time.Second)
		return f.logic.heartbeats.observeLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: &metav1.MicroTime{Time: f.clock.Now().Add(ahead)}},
		}, false, f.clock.Now())
	}
	renew(time.Minute)
	f.reconcile()
	f.told()
	f.writes.Counts()
	f.Expect(renew(time.Minute)).To(BeFalse(), "too few to know")
	f.Expect(renew(time.Minute)).To(BeTrue())
	f.reconcile()
	f.Expect(f.refresh().Status.ClockSkew).To(Equal(&metav1.Duration{Duration: time.Minute}))
	f.Expect(f.told()).To(ConsistOf(And(HavePrefix("Warning ClockSkew"), ContainSubstring("1m0s ahead of"))))
	f.Expect(f.writes.Total()).To(Equal(1))
	for range 10 {
		f.Expect(renew(time.Minute+time.Second)).To(BeFalse(), "it has not moved enough")
		f.reconcile()
	}
	f.Expect(f.writes.Total()).To(BeZero())
	f.Expect(f.told()).To(BeEmpty())
	for range 3 {
		renew(0)
	}
	f.reconcile()
	f.Expect(f.refresh().Status.ClockSkew).To(BeNil())
	f.Expect(f.told()).To(BeEmpty())
}
