package hub_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// drain sets the Machine's timeout past all validation, as an older definition would have accepted it.
func (r *env) drain(machine *v1alpha1.Machine, duration string) {
	r.T.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeouts":{"drain":"`+duration+`"}}}`))
	r.Expect(testenv.Server().Loosely(r.T.Context(), func(ctx context.Context) error {
		return r.Client.Patch(ctx, machine.DeepCopy(), patch)
	}, "machines.hollowfleet.io")).To(Succeed())
}

// unready is what /readyz says while it fails.
func (r *env) unready() string {
	response, err := http.Get("http://" + r.health + "/readyz/undecodable-objects")
	if err != nil || response.StatusCode == http.StatusOK {
		return ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

func (r *env) decoded(name string) *metav1.Condition {
	cluster := &v1alpha1.Cluster{}
	r.Expect(r.Client.Get(r.T.Context(), client.ObjectKey{Name: name}, cluster)).To(Succeed())
	return meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterObjectsDecodedCondition)
}

// Edge case: One undecodable Machine stopped everything.
func TestAMachineThatCannotBeDecodedStopsNoOther(t *testing.T) {
	r := start(t)
	good, with := r.deployment(1), r.deployment(3)
	r.become(good, 1)
	r.become(with, 3)
	bad := r.Machines(with.Namespace)[0]
	r.drain(&bad, "1 week")
	t.Cleanup(func() { // Nothing that a test has left may keep the next hub from being ready.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeouts":{"drain":"2h"}}}`))
		if err := r.Client.Patch(context.Background(), bad.DeepCopy(), patch); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})

	name := "Machine " + with.Namespace + "/" + bad.Name
	r.Eventually(r.unready).WithTimeout(time.Minute).ShouldNot(BeEmpty(), "a health check fails")
	r.Expect(r.get(r.health, "/healthz")).To(Equal(http.StatusOK), "the hub must not be started again for it")
	r.Eventually(func() *metav1.Condition { return r.decoded(with.Namespace) }).WithTimeout(time.Minute).Should(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonUndecodable), HaveField("Message", ContainSubstring(name))))
	r.Expect(r.measured()).To(ContainSubstring(`hollowfleet_hub_undecodable_objects{kind="Machine"} 1`))
	r.Eventually(func(g Gomega) {
		list := &eventsv1.EventList{}
		g.Expect(r.Client.List(t.Context(), list, client.InNamespace(with.Namespace))).To(Succeed())
		g.Expect(list.Items).To(ContainElement(And(
			HaveField("Reason", v1alpha1.ReasonUndecodable), HaveField("Regarding.Name", bad.Name), HaveField("Note", ContainSubstring("repair it")))))
	}).WithTimeout(time.Minute).Should(Succeed())

	r.update(good, func() { good.Spec.Replicas = new(int32(4)) })
	r.become(good, 4)
	r.Expect(r.decoded(good.Namespace)).To(BeNil())

	r.update(with, func() { with.Spec.Replicas = new(int32(5)) })
	r.Eventually(func() []v1alpha1.Machine { return r.Machines(with.Namespace) }).
		WithTimeout(time.Minute).Should(HaveLen(5), "it is one of them, and no other is made in its place")
	r.update(with, func() { with.Spec.Replicas = new(int32(0)) })
	r.Eventually(func() []v1alpha1.Machine {
		r.FinishDeletions(with.Namespace)
		return r.Machines(with.Namespace)
	}).WithTimeout(time.Minute).Should(HaveExactElements(HaveField("Name", bad.Name)), "it is never chosen")

	r.drain(&bad, "2h")
	r.Eventually(r.unready).WithTimeout(time.Minute).Should(BeEmpty())
	r.Eventually(func() *metav1.Condition { return r.decoded(with.Namespace) }).WithTimeout(time.Minute).Should(BeNil())
	r.Eventually(func() []v1alpha1.Machine {
		r.FinishDeletions(with.Namespace)
		return r.Machines(with.Namespace)
	}).WithTimeout(time.Minute).Should(BeEmpty(), "repaired, it is a Machine like all others")
}

// Edge case: An undecodable MachineSet counted as empty.
func TestADeploymentWithASetThatCannotBeDecodedIsFrozen(t *testing.T) {
	r := start(t)
	deployment := r.deployment(2)
	r.become(deployment, 2)
	sets := &v1alpha1.MachineSetList{}
	r.Expect(r.Client.List(t.Context(), sets, client.InNamespace(deployment.Namespace))).To(Succeed())
	set := sets.Items[0]
	exchange := func(surge string) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"remediation":{"maxInFlight":`+surge+`}}}`))
		return testenv.Server().Loosely(context.WithoutCancel(t.Context()), func(ctx context.Context) error {
			return r.Client.Patch(ctx, set.DeepCopy(), patch)
		}, "machinesets.hollowfleet.io")
	}
	r.Expect(exchange("3000000000")).To(Succeed())
	t.Cleanup(func() {
		if err := exchange("1"); err != nil {
			t.Error(err)
		}
	})
	frozen := func() *metav1.Condition {
		r.ExpectExists(deployment)
		return meta.FindStatusCondition(deployment.Status.Conditions, v1alpha1.FrozenCondition)
	}
	r.Eventually(frozen).WithTimeout(time.Minute).Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonUndecodable)))
	r.update(deployment, func() {
		deployment.Spec.Replicas, deployment.Spec.Template.Spec.Versions.Kubelet = new(int32(5)), "v1.37.0"
	})
	r.Eventually(func() int64 { frozen(); return deployment.Status.ObservedGeneration }).WithTimeout(time.Minute).Should(Equal(deployment.Generation))
	r.Expect(r.Client.List(t.Context(), sets, client.InNamespace(deployment.Namespace))).To(Succeed())
	r.Expect(sets.Items).To(HaveLen(1), "no set is made beside one that is not known")
	r.Expect(exchange("1")).To(Succeed())
	r.become(deployment, 5)
}
