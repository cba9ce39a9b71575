package simulatedcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// env has a host that runs simulated clusters, and one in its namespace.
type env struct {
	*testenv.Env
	agents *freeze.Agents
	host   *v1alpha1.Cluster
	one    *v1alpha1.SimulatedCluster
}

func newEnv(t *testing.T) *env {
	t.Helper()
	f := &env{Env: testenv.NewCachedEnv(t), agents: &freeze.Agents{}}
	logic, err := New(Deps{Client: f.Client, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(f.Client, f.Client, logic)
	f.host = f.newHost()
	f.one = f.newOne(f.host.Name, testenv.Name())
	return f
}

func (f *env) newHost() *v1alpha1.Cluster {
	f.T.Helper()
	host := f.AcceptedCluster()
	for _, kind := range []string{v1alpha1.ClusterJoinedCondition, v1alpha1.ClusterAgentConnectedCondition, v1alpha1.ClusterSimulatedClustersAllowedCondition} {
		f.ExpectConditionApplied(host, kind, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	f.ExpectConditionApplied(host, v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
	f.agents.Hear(host.Name)
	return host
}

func (f *env) newOne(host, name string) *v1alpha1.SimulatedCluster {
	f.T.Helper()
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: host, Name: name}}
	one.Spec.ClusterMetadata.Labels = map[string]string{"stage": "test", "zone": "a"}
	f.ExpectApplied(one)
	return one
}

func (f *env) patch(object client.Object, patch string) {
	f.T.Helper()
	f.Expect(f.Client.Patch(f.T.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func (f *env) expectSaid(one client.Object, kind, reason, message string) {
	f.T.Helper()
	condition := f.ReadCondition(one, kind)
	f.Expect(condition).NotTo(BeNil(), kind)
	f.Expect(*condition).To(And(HaveField("Reason", reason), HaveField("Message", ContainSubstring(message))))
}

// cluster reads the Cluster of the simulated cluster.
func (f *env) cluster() *v1alpha1.Cluster {
	f.T.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.one.Name}}
	f.ExpectExists(cluster)
	return cluster
}

func (f *env) expectGone(object client.Object) {
	f.T.Helper()
	f.Expect(client.IgnoreNotFound(f.Client.Get(f.T.Context(), client.ObjectKeyFromObject(object), object))).To(Succeed())
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKeyFromObject(object), object)).NotTo(Succeed())
}

func TestTheClusterIsMadeAndKeptInSync(t *testing.T) {
	f := newEnv(t)
	f.ExpectReconciled(f.one)
	cluster := f.cluster()
	f.ExpectExists(f.one)
	f.Expect(cluster.Spec.Acceptance).To(Equal(v1alpha1.AcceptanceAccepted))
	f.Expect(cluster.Labels).To(Equal(map[string]string{"stage": "test", "zone": "a"}))
	f.Expect(cluster.Annotations).To(HaveKeyWithValue(v1alpha1.SimulatedClusterAnnotation, f.host.Name+"/"+string(f.one.UID)))
	f.Expect(f.one.Finalizers).To(ConsistOf(v1alpha1.ClusterFinalizer))
	f.patch(cluster, `{"metadata":{"labels":{"own":"x"}}}`)
	f.patch(f.one, `{"spec":{"metadata":{"labels":{"stage":"prod","zone":null}}}}`)
	f.ExpectReconciled(f.one)
	f.Expect(f.cluster().Labels).To(Equal(map[string]string{"stage": "prod", "own": "x"}))
	f.expectSaid(f.one, v1alpha1.ClusterCreatedCondition, v1alpha1.ReasonCreated, "")
	f.ExpectConditionApplied(f.cluster(), v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	f.ExpectExists(f.one)
	f.ExpectConditionApplied(f.one, v1alpha1.ControlPlaneReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.ReadyCondition, v1alpha1.ReasonPending, "has not observed the current spec")
	for i := range f.one.Status.Conditions {
		f.one.Status.Conditions[i].ObservedGeneration = f.one.Generation
	}
	f.ExpectStatusApplied(f.one)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.ReadyCondition, v1alpha1.ReasonReady, "")
}

// Claim: Ready names the driver of the host that does not answer, not the cluster's silence. Broken: NeverSeen hides it.
func TestReadyNamesTheDriverThatDoesNotAnswer(t *testing.T) {
	f := newEnv(t)
	f.ExpectReconciled(f.one)
	f.ExpectConditionApplied(f.cluster(), v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNeverSeen)
	f.ExpectExists(f.one)
	f.ExpectConditionApplied(f.one, v1alpha1.ControlPlaneReadyCondition, metav1.ConditionUnknown, v1alpha1.ReasonDriverUnreachable)
	for i := range f.one.Status.Conditions {
		f.one.Status.Conditions[i].ObservedGeneration = f.one.Generation
	}
	f.ExpectStatusApplied(f.one)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.ReadyCondition, v1alpha1.ReasonDriverUnreachable, "")
}

// Claim: A refused SimulatedCluster changes nothing and says why. Broken: a Cluster of others is taken over; a simulated host is allowed.
func TestWhatCannotBeMadeIsRefusedWithTheRemedy(t *testing.T) {
	for name, test := range map[string]struct {
		change          func(f *env)
		reason, message string
	}{
		"a Cluster of others": {func(f *env) {
			f.ExpectApplied(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.one.Name}})
		}, v1alpha1.ReasonNameTaken, "choose another name, or remove it"},
		"that of a SimulatedCluster which this is a copy of": {func(f *env) {
			f.ExpectApplied(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.one.Name, Annotations: map[string]string{v1alpha1.SimulatedClusterAnnotation: f.host.Name + "/earlier"}}})
		}, v1alpha1.ReasonNameTaken, "set its annotation"},
		"a namespace of no Cluster": {func(f *env) {
			f.one = f.newOne("default", testenv.Name())
		}, v1alpha1.ReasonNoHost, "Cluster default does not exist"},
		"a host that is simulated": {func(f *env) {
			f.patch(f.host, `{"metadata":{"annotations":{"`+v1alpha1.SimulatedClusterAnnotation+`":"a/b"}}}`)
		}, v1alpha1.ReasonHostSimulated, "is simulated itself"},
		"a host that does not allow it": {func(f *env) {
			f.ExpectConditionApplied(f.host, v1alpha1.ClusterSimulatedClustersAllowedCondition, metav1.ConditionFalse, "TurnedOff")
		}, v1alpha1.ReasonHostNotAllowed, "create the SimulatedCluster in the namespace of a Cluster whose agent does"},
		"a frozen host": {func(f *env) {
			f.patch(f.host, `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"x"}}}`)
		}, v1alpha1.ReasonManualFreeze, "is frozen"},
		"a host that was not heard": {func(f *env) { f.agents.Forget(f.host.Name) }, v1alpha1.ReasonStarting, "has not heard"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t)
			test.change(f)
			f.ExpectReconciled(f.one)
			f.expectSaid(f.one, v1alpha1.ClusterCreatedCondition, test.reason, test.message)
			f.Expect(f.one.Finalizers).To(BeEmpty())
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.one.Name}}
			if test.reason == v1alpha1.ReasonNameTaken {
				f.ExpectExists(cluster)
				f.Expect(cluster.Labels).To(BeEmpty())
				f.ExpectDeleted(f.one)
				f.expectGone(f.one)
				f.ExpectExists(cluster)
			} else {
				f.expectGone(cluster)
			}
		})
	}
}

// Claim: One of two SimulatedClusters of a name has the Cluster. Broken: owns compares names only.
func TestOfTwoWithOneNameOneWins(t *testing.T) {
	f := newEnv(t)
	other := f.newOne(f.newHost().Name, f.one.Name)
	f.ExpectReconciled(f.one)
	f.ExpectReconciled(other)
	f.expectSaid(f.one, v1alpha1.ClusterCreatedCondition, v1alpha1.ReasonCreated, "")
	f.expectSaid(other, v1alpha1.ClusterCreatedCondition, v1alpha1.ReasonNameTaken, "")
	f.ExpectDeleted(other)
	f.expectGone(other)
	f.Expect(f.cluster().DeletionTimestamp).To(BeNil())
}

// made lets everything be made, as hub, agent and API server do.
func (f *env) made() (machine *v1alpha1.Machine) {
	f.T.Helper()
	f.ExpectReconciled(f.one)
	f.ExpectExists(f.one)
	f.patch(f.one, `{"metadata":{"finalizers":["`+v1alpha1.ClusterFinalizer+`","`+v1alpha1.SimulatedClusterFinalizer+`"]}}`)
	cluster := f.cluster()
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Annotations: map[string]string{v1alpha1.SimulatedClusterAnnotation: f.one.ProofOfSimulation()}}})
	cluster.Status.Namespace = cluster.Name
	f.ExpectConditionApplied(cluster, v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	f.agents.Hear(cluster.Name)
	f.ExpectConditionApplied(cluster, v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	machine = &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: "m", Finalizers: []string{v1alpha1.MachineFinalizer}}}
	machine.Spec.ClusterName = cluster.Name
	machine.Spec.ProviderConfig.ValueRef = &v1alpha1.MachineClassReference{Name: "small"}
	f.ExpectApplied(machine)
	f.ExpectDeleted(f.one)
	return machine
}

// Claim: Machines go first, then control plane, Cluster, namespace. Broken: each step without the one before.
func TestRemovalInOrder(t *testing.T) {
	f := newEnv(t)
	machine := f.made()
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.ReconcilingCondition, v1alpha1.ReasonDeleting, "1 Machine to be removed first")
	f.Expect(f.cluster().IsLeaving()).To(BeTrue())
	f.ExpectExists(machine)
	f.Expect(machine.DeletionTimestamp).NotTo(BeNil())
	f.Expect(f.ReadCondition(f.one, v1alpha1.MachinesRemovedCondition)).To(BeNil())

	f.patch(machine, `{"metadata":{"finalizers":null}}`)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.MachinesRemovedCondition, v1alpha1.ReasonMachinesRemoved, "")
	f.expectSaid(f.one, v1alpha1.ReconcilingCondition, v1alpha1.ReasonDeleting, "The agent of Cluster "+f.host.Name)
	f.Expect(f.cluster().DeletionTimestamp).To(BeNil(), "its control plane is not removed yet")

	f.patch(f.one, `{"metadata":{"finalizers":["`+v1alpha1.ClusterFinalizer+`"]}}`)
	f.ExpectReconciled(f.one)
	f.expectGone(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.one.Name}})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.one.Name}}
	f.ExpectExists(namespace)
	f.Expect(namespace.DeletionTimestamp).NotTo(BeNil())
	f.expectSaid(f.one, v1alpha1.ReconcilingCondition, v1alpha1.ReasonNamespaceDeleting, "")
}

// Claim: A cluster that has never joined keeps no Machine. Broken: its agent is waited for.
func TestMachinesOfAClusterThatHasNeverJoinedGo(t *testing.T) {
	f := newEnv(t)
	machine := f.made()
	f.ExpectConditionApplied(f.cluster(), v1alpha1.ClusterJoinedCondition, metav1.ConditionFalse, v1alpha1.ReasonNeverSeen)
	f.patch(machine, `{"metadata":{"finalizers":["`+v1alpha1.MachineFinalizer+`","example.com/others"]}}`)
	f.ExpectReconciled(f.one)
	f.ExpectExists(machine)
	f.Expect(machine.DeletionTimestamp).NotTo(BeNil())
	f.Expect(machine.Finalizers).To(ConsistOf("example.com/others"), "the finalizer of others")
	f.patch(machine, `{"metadata":{"finalizers":null}}`)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.MachinesRemovedCondition, v1alpha1.ReasonMachinesRemoved, "")
}

// Claim: A frozen host or cluster holds its removal. Broken: holds are not asked for.
func TestARemovalWaitsForWhatIsFrozen(t *testing.T) {
	frozen := `{"metadata":{"annotations":{"` + v1alpha1.FreezeAnnotation + `":"x"}}}`
	for name, freeze := range map[string]func(f *env){
		"the host":    func(f *env) { f.patch(f.host, frozen) },
		"the cluster": func(f *env) { f.patch(f.cluster(), frozen) },
		"itself":      func(f *env) { f.patch(f.one, frozen) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t)
			machine := f.made()
			freeze(f)
			f.ExpectReconciled(f.one)
			f.ExpectExists(machine)
			f.Expect(machine.DeletionTimestamp).To(BeNil())
			f.expectSaid(f.one, v1alpha1.ReconcilingCondition, v1alpha1.ReasonAwaitingThaw, "is frozen")
			f.patch(f.one, `{"metadata":{"labels":{"`+v1alpha1.ForceDeletionLabel+`":"true"}}}`)
			f.ExpectReconciled(f.one)
			removed := f.ReadCondition(f.one, v1alpha1.MachinesRemovedCondition)
			f.Expect(removed != nil).To(Equal(name == "the cluster"), "a host that is frozen removes nothing")
		})
	}
}

// Claim: A host that is gone orders no removal. Broken: absence counts as not frozen.
func TestARemovalWaitsForAHostThatIsGone(t *testing.T) {
	f := newEnv(t)
	machine := f.made()
	f.ExpectDeleted(f.host)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.StalledCondition, v1alpha1.ReasonNoHost, "no longer exists")
	f.ExpectExists(machine)
	f.Expect(machine.DeletionTimestamp).To(BeNil())

	f.patch(f.one, `{"metadata":{"labels":{"`+v1alpha1.ForceDeletionLabel+`":"true"},"annotations":{"`+v1alpha1.FreezeAnnotation+`":"x"}}}`)
	f.ExpectReconciled(f.one)
	f.Expect(f.ReadCondition(f.one, v1alpha1.MachinesRemovedCondition)).To(BeNil(), "a person has frozen it")

	f.patch(f.one, `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":null}}}`)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.MachinesRemovedCondition, v1alpha1.ReasonForced, "gives its Machines up")
	f.expectSaid(f.one, v1alpha1.StalledCondition, v1alpha1.ReasonNoHost, "remove the finalizer")
	f.Expect(f.cluster().DeletionTimestamp).To(BeNil(), "its control plane may still run")
}
