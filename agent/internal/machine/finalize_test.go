package machine

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// delete asks the hub to delete a Machine.
func (b *env) delete(machine *v1alpha1.Machine) {
	b.T.Helper()
	b.ExpectDeleted(machine)
	b.read(machine)
	b.Expect(machine.DeletionTimestamp).NotTo(BeNil())
}

// Claim: The Node is never orphaned. Broken: the Node is not removed. Also: test/integration/lifecycle "should remove pod, Node and credentials when it is deleted".
// Claim: Credentials are removed. Broken: requests not removed.
func TestDeletion(t *testing.T) {
	t.Run("should remove instance, node, certificate requests and finalizer, with one write to the hub", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("del-all")
		node := b.ready(machine)
		b.writes()
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.Expect(b.gone(node)).To(BeTrue())
		b.Expect(b.driver.List(b.T.Context())).To(BeEmpty())
		b.Expect(b.requests.removed).To(ConsistOf(machine.Name))
		b.Expect(b.writes()).To(Equal([]string{"patch"}), "only the finalizer's removal")
	})
	t.Run("should keep the node until the instance is really gone, and then say that it hangs", func(t *testing.T) {
		b := newEnv(t)
		b.driver.Linger()
		machine := b.create("del-slow")
		node := b.ready(machine)
		b.writes()
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(node)).To(BeFalse(), "its kubelet would register it again")
		b.Expect(b.driver.Calls()).To(HaveLen(2), "deleted once")
		b.Expect(b.writes()).To(BeEmpty())
		b.Clock.Step(DefaultStallAfter)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineTerminating))
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonDeleting))
		b.driver.Finish(machine.Name)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.Expect(b.gone(node)).To(BeTrue())
	})
	t.Run("should delete the node of a machine that had not joined yet", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("del-early")
		b.ExpectReconciled(machine)
		node := b.join(machine)
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.Expect(b.gone(node)).To(BeTrue(), "the node is orphaned")
	})
	t.Run("should delete a machine whose class and provider are gone", func(t *testing.T) {
		b := newEnv(t)
		class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "going"}, Spec: v1alpha1.MachineClassSpec{Provider: "fake"}}
		b.ExpectApplied(class)
		machine := b.create("del-noclass", func(m *v1alpha1.Machine) {
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "going"}}
		})
		node := b.ready(machine)
		b.ExpectDeleted(class)
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.Expect(b.gone(node)).To(BeTrue())
		b.Expect(b.driver.List(b.T.Context())).To(BeEmpty())
	})
	t.Run("should leave a node of its name that is another's", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("del-foreign")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}, Spec: corev1.NodeSpec{ProviderID: "aws:///i-1"}}
		b.ExpectApplied(node)
		t.Cleanup(func() { _ = b.Client.Delete(b.T.Context(), node) })
		b.ExpectReconciled(machine)
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.Expect(b.gone(node)).To(BeFalse())
	})
	t.Run("should wait for a node that another finalizer keeps", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("del-held")
		node := b.ready(machine)
		held := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))
		b.Expect(b.Client.Patch(b.T.Context(), node, held)).To(Succeed())
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(nodeDeletionRetry))
		b.Expect(machine.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer), "the node is orphaned")
		b.Expect(b.Client.Patch(b.T.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
	})
}

// A crash is what a step that fails and a controller that remembers nothing add up to.
func TestDeletionGoesOnAfterACrashAtEachStep(t *testing.T) {
	steps := map[string]func(b *env){
		"deleting the instance":      func(b *env) { b.driver.Fail("Delete", trouble("crash")) },
		"looking for the instance":   func(b *env) { b.driver.Fail("Get", trouble("crash")) },
		"deleting the node":          func(b *env) { b.faults["delete *v1.Node"] = 1 },
		"removing the finalizer":     func(b *env) { b.faults["patch *v1alpha1.Machine"] = 1 },
		"writing the status, thrice": func(b *env) { b.faults["patch/status *v1alpha1.Machine"] = 3 },
	}
	n := 0
	for name, breakIt := range steps {
		n++
		machineName := fmt.Sprintf("crash-%d", n)
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create(machineName)
			node := b.ready(machine)
			b.delete(machine)
			breakIt(b)
			crashes := 0
			for range 6 {
				if _, err := b.tryReconcile(machine); err != nil {
					crashes++
					b.start()
				}
				b.Clock.Step(DefaultStallAfter)
				if b.gone(machine) {
					break
				}
				b.Expect(b.gone(node) && len(must(b.driver.List(b.T.Context()))) > 0).To(BeFalse(), "the node went before the instance")
			}
			if name != "writing the status, thrice" {
				b.Expect(crashes).To(Equal(1), "the fault was met")
			}
			b.Expect(b.gone(machine)).To(BeTrue())
			b.Expect(b.gone(node)).To(BeTrue(), "the node is orphaned")
			b.Expect(b.driver.List(b.T.Context())).To(BeEmpty(), "the instance is orphaned")
		})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Claim: Absence is never an order. Broken: a Machine that is missing on the hub counts as deleted.
func TestAbsenceIsNoOrder(t *testing.T) {
	t.Run("should remove nothing for a machine that is missing on the hub", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("absent")
		node := b.ready(machine)
		// The hub loses the Machine without the agent having done its part.
		b.Expect(b.Client.Patch(b.T.Context(), machine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		b.ExpectDeleted(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.ExpectReconciled(machine)
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(b.driver.List(b.T.Context())).To(HaveLen(1))
	})
	t.Run("should remove nothing when it is being deleted in the cache and missing on the hub", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("vanished")
		node := b.ready(machine)
		cached := machine.DeepCopy()
		cached.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		b.Expect(b.Client.Patch(b.T.Context(), machine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		b.ExpectDeleted(machine)
		_, err := b.controller.Reconcile(b.T.Context(), cached)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(b.driver.List(b.T.Context())).To(HaveLen(1))
	})
	t.Run("should remove nothing when only the cache says that it is to be deleted", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("stale")
		node := b.ready(machine)
		cached := machine.DeepCopy()
		cached.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		_, err := b.controller.Reconcile(b.T.Context(), cached)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(b.driver.List(b.T.Context())).To(HaveLen(1))
	})
	t.Run("should remove nothing when the cache is of an earlier machine of the name", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("reborn")
		node := b.ready(machine)
		b.delete(machine)
		cached := machine.DeepCopy()
		cached.UID = "another"
		_, err := b.controller.Reconcile(b.T.Context(), cached)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(b.gone(node)).To(BeFalse())
	})
	t.Run("should count instances, nodes and certificate requests without a machine, and leave them", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("orphan-lost")
		node := b.ready(machine)
		b.create("known")
		b.driver.Add("known")
		b.driver.Add("orphan-1")
		b.requests.nodes = []string{"known", "orphan-2"}
		b.Expect(b.Client.Patch(b.T.Context(), machine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		b.ExpectDeleted(machine)
		finder := b.controller.OrphanFinder()
		_, known := finder.Orphans()
		b.Expect(known).To(BeFalse(), "the driver has not been asked")
		b.Expect(finder.Find(b.T.Context())).To(BeTrue(), "there is news")
		orphans, known := finder.Orphans()
		b.Expect(orphans).To(BeNil(), "it may have a machine that the agent has yet to hear of")
		b.Expect(known).To(BeTrue())
		b.Expect(finder.Find(b.T.Context())).To(BeFalse(), "there is no more news")
		orphans, _ = finder.Orphans()
		b.Expect(orphans).To(HaveValue(Equal(v1alpha1.Orphans{
			Instances: 2, Nodes: 1, CertificateRequests: 1,
			Names: []string{"instance/orphan-1", "instance/orphan-lost", "node/orphan-lost", "certificate request/orphan-2"},
		})))
		b.Expect(finder.last["instances of provider fake"]).To(Equal([]string{"orphan-1", "orphan-lost"}))
		b.Expect(finder.last[kindNodes]).To(Equal([]string{"orphan-lost"}))
		b.Expect(finder.last[kindRequests]).To(Equal([]string{"orphan-2"}))
		b.Expect(testutil.ToFloat64(b.controller.finder.metrics.orphanedNodes)).To(Equal(1.0))
		b.Expect(testutil.ToFloat64(b.controller.finder.metrics.orphanedRequests)).To(Equal(1.0))
		for i := range 20 {
			b.driver.Add(fmt.Sprintf("orphan-more-%02d", i))
		}
		b.Expect(finder.Find(b.T.Context())).To(BeTrue())
		b.Expect(finder.Find(b.T.Context())).To(BeFalse(), "there is no more news")
		orphans, _ = finder.Orphans()
		b.Expect(orphans.Instances).To(BeEquivalentTo(22))
		b.Expect(orphans.Names).To(HaveLen(10))
		b.Expect(b.driver.List(b.T.Context())).To(HaveLen(23))
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(b.requests.removed).To(BeEmpty())
	})
}

func TestANodeThatLostItsMachineBeforeItsFirstLookIsAnOrphan(t *testing.T) {
	b := newEnv(t)
	register := func(name, providerID string, labels map[string]string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: providerID}}
		b.ExpectApplied(node)
		t.Cleanup(func() { _ = b.Client.Delete(context.Background(), node) })
	}
	hollow := map[string]string{v1alpha1.HollowNodeLabel: "true"}
	register("orphan-registered", "hollowfleet://"+b.namespace+"/orphan-registered", hollow)
	register("orphan-foreign", "hollowfleet://another/orphan-foreign", hollow)
	register("orphan-renamed", "hollowfleet://"+b.namespace+"/another", hollow)
	register("orphan-nameless", "", hollow)
	register("orphan-real", "hollowfleet://"+b.namespace+"/orphan-real", nil)
	finder := b.controller.OrphanFinder()
	for range 2 {
		_, err := finder.Find(t.Context())
		b.Expect(err).NotTo(HaveOccurred())
	}
	orphans, _ := finder.Orphans()
	b.Expect(orphans).To(HaveValue(Equal(v1alpha1.Orphans{Nodes: 1, Names: []string{"node/orphan-registered"}})))
}
