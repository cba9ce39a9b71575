package machineset

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// beside makes another set of the namespace.
func (f *env) beside(name string, selector, labels map[string]string) *v1alpha1.MachineSet {
	f.T.Helper()
	other := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: name},
		Spec: v1alpha1.MachineSetSpec{
			ClusterName: f.cluster.Name, Replicas: new(int32(2)), Selector: v1alpha1.MachineSelector{MatchLabels: selector}, Template: testenv.Template(labels),
		},
	}
	f.ExpectApplied(other)
	return other
}

// deploymentBeside makes a deployment of the namespace.
func (f *env) deploymentBeside(name string, labels map[string]string) *v1alpha1.MachineDeployment {
	f.T.Helper()
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: name},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: f.cluster.Name, Replicas: new(int32(0)), Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	}
	f.ExpectApplied(deployment)
	return deployment
}

// work lets each set be worked on until all is at rest.
func (f *env) work(sets ...*v1alpha1.MachineSet) {
	f.T.Helper()
	for range 4 {
		for _, set := range sets {
			_, err := f.Runner.Reconcile(f.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
			f.Expect(err).NotTo(HaveOccurred())
		}
		f.FinishDeletions(f.cluster.Name)
		f.ready()
		f.pass(time.Minute)
	}
}

// stalled returns the condition, if it is true.
func (f *env) stalled(set *v1alpha1.MachineSet) *metav1.Condition {
	f.T.Helper()
	f.ExpectExists(set)
	if !meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.StalledCondition) {
		return nil
	}
	return meta.FindStatusCondition(set.Status.Conditions, v1alpha1.StalledCondition)
}

// strip takes the owner and the name of the set off one of set's Machines, as a restore that keeps only users' labels does.
func (f *env) strip(set *v1alpha1.MachineSet) *v1alpha1.Machine {
	f.T.Helper()
	for _, machine := range f.Machines(f.set.Namespace) {
		if metav1.IsControlledBy(&machine, set) {
			machine.OwnerReferences = nil
			delete(machine.Labels, v1alpha1.MachineSetNameLabel)
			f.ExpectApplied(&machine)
			return &machine
		}
	}
	f.T.Fatal("the set has no Machine")
	return nil
}

// Claim: Of two MachineSets with overlapping selectors the younger touches nothing. Broken: no overlap is looked for; the watches are taken out; it is looked for in the cache alone. Also: TestASetWithoutControllerWaitsForDeployments, TestASetThatWaitsIsWokenWhenTheOtherGoes, TestACacheWithoutTheOlderSetMakesNoMachine; hub/internal/overlap TestExactlyOneOfTwoThatOverlapWaits.
// Edge case: Two MachineSets selected the same Machines, unnamed. Also: TestAStalledSetKeepsTheMachinesThatItHas, TestASetWithoutControllerWaitsForTheSetsOfADeployment.
func TestTheYoungerOfTwoSetsWithOverlappingSelectorsIsStalledAndTouchesNothing(t *testing.T) {
	for name, selector := range map[string]map[string]string{"the same selector": {"app": "x"}, "a narrower one": {"app": "x", "pool": "b"}} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 2, nil)
			f.work(f.set)
			old := active(f.Machines(f.set.Namespace))
			f.Expect(old).To(HaveLen(2))
			f.Events()
			other := f.beside("workers-b", selector, map[string]string{"app": "x", "pool": "b"})
			f.work(other, f.set)
			f.Expect(active(f.Machines(f.set.Namespace))).To(Equal(old), "the younger makes none")
			stalled := f.stalled(other)
			f.Expect(stalled).NotTo(BeNil())
			f.Expect(stalled.Reason).To(Equal(v1alpha1.ReasonSelectorOverlap))
			f.Expect(stalled.Message).To(And(ContainSubstring("MachineSet workers"), ContainSubstring("spec.selector.matchLabels"), ContainSubstring("delete it")))
			f.Expect(about(f.Events(), v1alpha1.ReasonSelectorOverlap)).To(HaveLen(1))
			f.Expect(f.stalled(f.set)).To(BeNil(), "the older continues")
			f.scale(3)
			f.work(other, f.set)
			f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(3), "and scales")

			// An orphan that both match goes back to the older one.
			orphan := f.strip(f.set)
			f.work(other)
			f.ExpectExists(orphan)
			f.Expect(orphan.OwnerReferences).To(BeEmpty(), "the younger adopts none")
			f.work(other, f.set)
			f.ExpectExists(orphan)
			f.Expect(metav1.IsControlledBy(orphan, f.set)).To(BeTrue())

			// What the older one leaves stays whole.
			old = active(f.Machines(f.set.Namespace))
			f.orphanMachines()
			f.ExpectDeleted(f.set)
			f.work(other)
			f.Expect(f.stalled(other)).To(BeNil())
			f.Expect(active(f.Machines(f.set.Namespace))).To(ContainElements(old), "no Ready Machine is lost")
			f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(5), "it makes its own beside them")
		})
	}
}

// orphanMachines takes the set off its Machines, as the garbage collector does when it is deleted without them.
func (f *env) orphanMachines() {
	f.T.Helper()
	for _, machine := range f.Machines(f.set.Namespace) {
		if metav1.IsControlledBy(&machine, f.set) {
			machine.OwnerReferences = nil
			f.ExpectApplied(&machine)
		}
	}
}

// The Machines that the younger has from before stay too: it takes none away, neither for a smaller number of replicas nor
// for a failure.
func TestAStalledSetKeepsTheMachinesThatItHas(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.connect()
	f.work(f.set)
	younger := f.beside("workers-b", map[string]string{"pool": "b"}, map[string]string{"pool": "b"})
	f.work(younger)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(4))
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.Template.Metadata.Labels["pool"] = "b" })
	f.work(younger)
	f.Expect(f.stalled(younger)).NotTo(BeNil(), "the labels of the older one's template have changed")
	all := active(f.Machines(f.set.Namespace))
	for _, machine := range f.Machines(f.set.Namespace) {
		if metav1.IsControlledBy(&machine, younger) {
			f.fail(machine.Name, v1alpha1.ErrorHealthTimeout)
			break
		}
	}
	f.work(younger)
	f.Expect(active(f.Machines(f.set.Namespace))).To(Equal(all), "none is replaced")
	f.Expect(f.stalled(younger)).NotTo(BeNil())
	younger.Spec.Replicas = new(int32(0))
	f.ExpectApplied(younger)
	f.work(younger)
	f.Expect(active(f.Machines(f.set.Namespace))).To(Equal(all), "none is scaled away")

	f.update(func(set *v1alpha1.MachineSet) { delete(set.Spec.Template.Metadata.Labels, "pool") })
	f.work(f.set, younger)
	f.Expect(f.stalled(younger)).To(BeNil())
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(2), "now it may")
}

// The sets of a deployment select by the hash of their template, so they take nothing. A set beside them could take what is theirs, so it
// waits, and even an older one does.
func TestASetWithoutControllerWaitsForDeployments(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.work(f.set)
	all := active(f.Machines(f.set.Namespace))
	deployment := f.deploymentBeside("pool", map[string]string{"app": "x"})
	f.scale(3)
	f.work(f.set)
	stalled := f.stalled(f.set)
	f.Expect(stalled).NotTo(BeNil())
	f.Expect(stalled.Reason).To(Equal(v1alpha1.ReasonSelectorOverlap))
	f.Expect(stalled.Message).To(And(ContainSubstring("MachineDeployment pool"), ContainSubstring("hollowfleet.io/machine-deployment-name=pool"), ContainSubstring("or delete it")))
	f.Expect(active(f.Machines(f.set.Namespace))).To(Equal(all))

	// One adopted by a deployment is the deployment's.
	f.update(func(set *v1alpha1.MachineSet) { set.OwnerReferences = controlledBy(deployment) })
	f.work(f.set)
	f.Expect(f.stalled(f.set)).To(BeNil())
}

// What an older template has made is there as long as its set is.
func TestASetWithoutControllerWaitsForTheSetsOfADeployment(t *testing.T) {
	f := newEnv(t, 2, nil)
	deployment := f.deploymentBeside("pool", map[string]string{"app": "y"})
	labels := map[string]string{"app": "x", v1alpha1.MachineTemplateHashLabel: "1"}
	owned := f.beside("pool-1", labels, labels)
	owned.OwnerReferences = controlledBy(deployment)
	f.ExpectApplied(owned)
	f.work(f.set, owned)
	f.Expect(f.stalled(owned)).To(BeNil())
	f.Expect(f.stalled(f.set)).To(HaveField("Message", ContainSubstring("MachineDeployment pool")))
	f.ExpectDeleted(owned)
	f.work(f.set)
	f.Expect(f.stalled(f.set)).To(BeNil())
}

func controlledBy(deployment *v1alpha1.MachineDeployment) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))}
}

// A cache that does not have the other one yet makes no Machine: the live read before a creation does.
func TestACacheWithoutTheOlderSetMakesNoMachine(t *testing.T) {
	f := newEnv(t, 2, &interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, sets := list.(*v1alpha1.MachineSetList); sets {
			return nil
		}
		return c.List(ctx, list, options...)
	}})
	younger := f.beside("workers-b", map[string]string{"app": "x"}, map[string]string{"app": "x"})
	f.work(younger)
	f.Expect(f.Machines(f.set.Namespace)).To(BeEmpty())
}

// The manager's watches wake a set that waits.
func TestASetThatWaitsIsWokenWhenTheOtherGoes(t *testing.T) {
	f := newEnv(t, 1, nil)
	younger := f.beside("workers-b", map[string]string{"app": "x"}, map[string]string{"app": "x"})
	f.manage()
	eventually := func(waits bool, why string) {
		t.Helper()
		f.Eventually(func() bool { return f.stalled(younger) != nil }).WithTimeout(time.Minute).Should(Equal(waits), why)
	}
	eventually(true, "another one is there")
	f.Eventually(func() []string { return active(f.Machines(f.set.Namespace)) }).WithTimeout(time.Minute).Should(HaveLen(1), "those of the older one")
	f.ExpectDeleted(f.set)
	eventually(false, "the older one has gone")
	deployment := f.deploymentBeside("pool", map[string]string{"app": "x"})
	eventually(true, "a deployment has come")
	f.ExpectDeleted(deployment)
	eventually(false, "the deployment has gone")
}

// manage lets a manager with a cache run the controller until the test ends, for the sets of this test alone.
func (f *env) manage() {
	f.T.Helper()
	manager, err := ctrl.NewManager(testenv.Server().Config, ctrl.Options{
		Scheme: scheme.New(), Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{f.cluster.Name: {}}},
	})
	f.Expect(err).NotTo(HaveOccurred())
	logic, err := New(Deps{Client: manager.GetClient(), Live: manager.GetAPIReader(), Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(logic.SetupWithManager(manager, controller.Options{SkipNameValidation: new(true)})).To(Succeed())
	done := make(chan error)
	go func() { done <- manager.Start(f.T.Context()) }()
	f.T.Cleanup(func() { f.Expect(<-done).To(Succeed()) })
}

func TestChangesThatCountForAnOverlap(t *testing.T) {
	reconcilertest.CheckPredicate(t, claimChanged(), &v1alpha1.MachineSet{}, map[string]func(*v1alpha1.MachineSet){
		"labels of the template": func(s *v1alpha1.MachineSet) { s.Spec.Template.Metadata.Labels = map[string]string{"a": "b"} },
		"controller": func(s *v1alpha1.MachineSet) {
			s.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: new(true)}}
		},
		"it can be decoded": func(s *v1alpha1.MachineSet) { s.Spec.Selector.MatchLabels = map[string]string{"a": "b"} },
	}, map[string]func(*v1alpha1.MachineSet){
		"replicas": func(s *v1alpha1.MachineSet) { s.Spec.Replicas = new(int32(5)) },
		"counts":   func(s *v1alpha1.MachineSet) { s.Status.Replicas = 5 },
	})
	reconcilertest.CheckPredicate(t, deploymentClaimChanged(), &v1alpha1.MachineDeployment{}, map[string]func(*v1alpha1.MachineDeployment){
		"labels of the template": func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Metadata.Labels = map[string]string{"a": "b"} },
	}, map[string]func(*v1alpha1.MachineDeployment){
		"replicas": func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(5)) },
	})
}
