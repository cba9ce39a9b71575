package simulatedcluster

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// startsWith are MachineDeployments of a hollow node each.
func startsWith(names ...string) (initial []v1alpha1.InitialMachineDeployment) {
	for _, name := range names {
		one := v1alpha1.InitialMachineDeployment{Name: name}
		one.Template.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
		initial = append(initial, one)
	}
	return initial
}

// starting is a simulated cluster that starts with MachineDeployments, and whose Cluster was just made.
func starting(t *testing.T, initial ...v1alpha1.InitialMachineDeployment) *env {
	t.Helper()
	return startingWith(t, func(one *v1alpha1.SimulatedCluster) { one.Spec.MachineDeployments = initial })
}

func startingWith(t *testing.T, changes ...func(*v1alpha1.SimulatedCluster)) *env {
	t.Helper()
	f := newEnv(t)
	f.one = &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.host.Name, Name: testenv.Name()}}
	for _, change := range changes {
		change(f.one)
	}
	f.ExpectApplied(f.one)
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.MachineDeploymentsCreatedCondition, v1alpha1.ReasonPending, "has no namespace yet")
	return f
}

// admit makes the namespace of the Cluster, as the hub does, with the annotation that it has then.
func (f *env) admit(proof string) {
	f.T.Helper()
	cluster := f.cluster()
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Annotations: map[string]string{v1alpha1.SimulatedClusterAnnotation: proof}}})
	cluster.Status.Namespace = cluster.Name
	f.ExpectConditionApplied(cluster, v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
}

// refuseCreating lets the API server refuse what has that name.
func (f *env) refuseCreating(name string) {
	f.T.Helper()
	refusing := interceptor.NewClient(f.Client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if object.GetName() == name {
			return errors.New("too many")
		}
		return c.Create(ctx, object, options...)
	}})
	logic, err := New(Deps{Client: refusing, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(refusing, refusing, logic)
}

func (f *env) deployment(name string) *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.one.Name, Name: name}}
}

// Claim: A simulated cluster starts with its MachineDeployments; each is created once, and then is the user's. Broken: what is recorded is not asked for; a changed one is taken back.
func TestMachineDeploymentsAreCreatedOnce(t *testing.T) {
	labelled := startsWith("labelled")[0]
	labelled.Replicas, labelled.Template.Metadata.Labels = new(int32(4)), map[string]string{"a": "b"}
	f := starting(t, append(startsWith("workers"), labelled)...)
	f.expectGone(f.deployment("workers"))
	f.admit(f.one.ProofOfSimulation())
	f.ExpectReconciled(f.one)
	f.expectSaid(f.one, v1alpha1.MachineDeploymentsCreatedCondition, v1alpha1.ReasonCreated, "namespace "+f.one.Name)
	workers, other := f.deployment("workers"), f.deployment("labelled")
	f.ExpectExists(workers)
	f.ExpectExists(other)
	f.Expect(workers.Labels).To(Equal(map[string]string{v1alpha1.ClusterNameLabel: f.one.Name}))
	f.Expect(*workers.Spec.Replicas).To(BeEquivalentTo(1))
	f.Expect(workers.Spec.Selector.MatchLabels).To(Equal(map[string]string{"pool": "workers"}))
	f.Expect(workers.OwnerReferences).To(BeEmpty())
	f.Expect(*other.Spec.Replicas).To(BeEquivalentTo(4))
	f.Expect(other.Spec.Selector.MatchLabels).To(Equal(map[string]string{"a": "b"}))
	f.ExpectExists(f.one)
	f.Expect(f.one.Status.MachineDeployments).To(ConsistOf("workers", "labelled"))

	f.patch(other, `{"spec":{"replicas":7}}`)
	f.ExpectDeleted(workers)
	f.ExpectDeleted(f.cluster()) // The hub makes another one for it.
	f.ExpectReconciled(f.one)
	f.ExpectReconciled(f.one)
	f.expectGone(f.deployment("workers"))
	f.ExpectExists(other)
	f.Expect(*other.Spec.Replicas).To(BeEquivalentTo(7))
	f.expectSaid(f.one, v1alpha1.MachineDeploymentsCreatedCondition, v1alpha1.ReasonCreated, "")
}

// Claim: A hub that ends between two writes creates no MachineDeployment twice, and leaves one that others have made as it is. Broken: an existing one is an error; a stale record counts.
func TestWhatWasCreatedBeforeARestartCounts(t *testing.T) {
	f := starting(t, startsWith("made", "next")...)
	f.admit(f.one.ProofOfSimulation())
	made := newMachineDeployment(f.one.Name, startsWith("made")[0])
	made.Spec.Replicas = new(int32(3))
	f.ExpectApplied(made)
	f.ExpectReconciled(f.one)
	f.ExpectExists(made)
	f.Expect(*made.Spec.Replicas).To(BeEquivalentTo(3))
	f.ExpectExists(f.deployment("next"))
	f.ExpectExists(f.one)
	f.Expect(f.one.Status.MachineDeployments).To(ConsistOf("made", "next"))

	stale := f.one.DeepCopy()
	stale.Status.MachineDeployments = nil
	f.ExpectDeleted(f.deployment("next"))
	logic, err := New(Deps{Client: f.Client, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = logic.Reconcile(t.Context(), stale)
	f.Expect(err).To(HaveOccurred(), "it waits for the cache")
	f.expectGone(f.deployment("next"))
}

// Claim: MachineDeployments are created in a namespace that the SimulatedCluster causes to exist, and while nothing is frozen. Broken: the namespace's annotation is not read; holds are not asked for.
func TestMachineDeploymentsAreNotCreated(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(f *env)
		message string
	}{
		"in a namespace of others": {func(f *env) { f.admit("host/another") }, "as they are now"},
		"while the host is frozen": {func(f *env) {
			f.admit(f.one.ProofOfSimulation())
			f.patch(f.host, `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"x"}}}`)
		}, "when nothing holds them"},
		"while the cluster is frozen": {func(f *env) {
			f.admit(f.one.ProofOfSimulation())
			f.patch(f.cluster(), `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"x"}}}`)
		}, "when nothing holds them"},
		"by a copy": {func(f *env) {
			f.admit(f.one.ProofOfSimulation())
			copied := f.one.DeepCopy()
			copied.ObjectMeta = metav1.ObjectMeta{Namespace: f.newHost().Name, Name: f.one.Name}
			f.ExpectApplied(copied)
			f.one = copied
		}, "The Cluster does not exist yet"},
	} {
		t.Run(name, func(t *testing.T) {
			f := starting(t, startsWith("workers")...)
			test.change(f)
			f.ExpectReconciled(f.one)
			f.expectGone(f.deployment("workers"))
			f.expectSaid(f.one, v1alpha1.MachineDeploymentsCreatedCondition, f.ReadCondition(f.one, v1alpha1.MachineDeploymentsCreatedCondition).Reason, test.message)
			f.Expect(f.one.Status.MachineDeployments).To(BeEmpty())
		})
	}
}

func (f *env) class(name string) *v1alpha1.MachineClass {
	return &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: f.one.Name, Name: name}}
}

// withClasses is a MachineDeployment of the first class, and all classes.
func withClasses(names ...string) func(*v1alpha1.SimulatedCluster) {
	return func(one *v1alpha1.SimulatedCluster) {
		for _, name := range names {
			one.Spec.MachineClasses = append(one.Spec.MachineClasses, v1alpha1.InitialMachineClass{Name: name, Spec: v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow}})
		}
		workers := v1alpha1.InitialMachineDeployment{Name: "workers"}
		workers.Template.Spec.ProviderConfig.ValueRef = &v1alpha1.MachineClassReference{Name: names[0]}
		one.Spec.MachineDeployments = append(one.Spec.MachineDeployments, workers)
	}
}

// A simulated cluster starts with its MachineClasses: each is created once, and then is the user's. One that others have made stays.
func TestMachineClassesAreCreatedOnce(t *testing.T) {
	f := startingWith(t, withClasses("small", "large", "theirs"))
	f.admit(f.one.ProofOfSimulation())
	theirs := f.class("theirs")
	theirs.Spec.Provider = "another"
	f.ExpectApplied(theirs)
	f.ExpectReconciled(f.one)
	f.ExpectExists(f.class("small"))
	f.ExpectExists(f.deployment("workers"))
	f.ExpectExists(theirs)
	f.Expect(theirs.Spec.Provider).To(Equal("another"))
	f.ExpectExists(f.one)
	f.Expect(f.one.Status.MachineClasses).To(ConsistOf("small", "large", "theirs"))
	f.ExpectDeleted(f.class("large"))
	f.ExpectReconciled(f.one)
	f.expectGone(f.class("large"))

	stale := f.one.DeepCopy()
	stale.Status.MachineClasses = nil
	logic, err := New(Deps{Client: f.Client, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = logic.Reconcile(t.Context(), stale)
	f.Expect(err).To(HaveOccurred(), "it waits for the cache")
	f.expectGone(f.class("large"))
}

// A MachineDeployment waits for its class, because Machines without one fail; all others do not.
func TestAClassThatIsRefusedHoldsItsMachineDeployment(t *testing.T) {
	f := startingWith(t, withClasses("refused", "small"), func(one *v1alpha1.SimulatedCluster) {
		one.Spec.MachineDeployments = append(one.Spec.MachineDeployments, startsWith("other")...)
	})
	f.admit(f.one.ProofOfSimulation())
	runner := f.Runner
	f.refuseCreating("refused")
	_, err := f.Reconcile(f.one)
	f.Expect(err).To(MatchError(ContainSubstring("spec.machineClasses[refused]: creating MachineClass")))
	f.ExpectExists(f.class("small"))
	f.ExpectExists(f.deployment("other"))
	f.expectGone(f.deployment("workers"))
	f.expectSaid(f.one, v1alpha1.MachineDeploymentsCreatedCondition, v1alpha1.ReasonCreateFailed, "too many")
	f.Runner = runner
	f.ExpectReconciled(f.one)
	f.ExpectExists(f.class("refused"))
	f.ExpectExists(f.deployment("workers"))
}

// Claim: A MachineDeployment that the API server refuses stops no other. Broken: the first error ends it.
func TestOneThatIsRefusedStopsNoOther(t *testing.T) {
	f := starting(t, startsWith("refused", "workers")...)
	f.admit(f.one.ProofOfSimulation())
	f.refuseCreating("refused")
	_, err := f.Reconcile(f.one)
	f.Expect(err).To(MatchError(ContainSubstring("spec.machineDeployments[refused]: creating MachineDeployment")))
	f.ExpectExists(f.deployment("workers"))
	f.expectSaid(f.one, v1alpha1.MachineDeploymentsCreatedCondition, v1alpha1.ReasonCreateFailed, "too many")
	f.ExpectExists(f.one)
	f.Expect(f.one.Status.MachineDeployments).To(ConsistOf("workers"))
}
