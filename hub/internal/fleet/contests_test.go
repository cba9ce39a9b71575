package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// setBack has another field manager apply a kubelet to the MachineDeployment of a cluster, as GitOps tools do.
func (f *env) setBack(i int, kubelet string) {
	f.T.Helper()
	wanted := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"versions": map[string]any{"kubelet": kubelet}}}}}}
	wanted.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MachineDeployment"))
	wanted.SetNamespace(f.clusters[i].Name)
	wanted.SetName(f.fleet.Name)
	f.Expect(f.Client.Apply(f.T.Context(), client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner("argocd"), client.ForceOwnership)).To(Succeed())
}

// Another owner sets a field back every second: the fleet corrects it ever more rarely, and says who that is.
// Claim: A contested field is corrected ever more rarely, with its manager named. Broken: it is corrected each time.
// Edge case: Another manager sets a field back each time.
func TestAFightForAFieldIsEndedByNoWrites(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.settle()
	corrections := 0
	for range 60 {
		f.setBack(1, "v1.36.9")
		f.after(time.Second)
		if f.deployment(1).Spec.Template.Spec.Versions.Kubelet == "v1.36.2" {
			corrections++
		}
	}
	f.Expect(corrections).To(BeNumerically("<=", 5), "at 0, 5, 15 and 35 s")
	f.status()
	ready := f.ReadCondition(f.fleet, v1alpha1.ReadyCondition)
	f.Expect(ready).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonFieldsContested)))
	f.Expect(ready.Message).To(And(ContainSubstring(`field manager argocd keeps reverting spec.template.spec.versions.kubelet`), ContainSubstring(f.clusters[1].Name+"/"+f.fleet.Name),
		ContainSubstring("let only one of the two set the field")))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Status).To(Equal(metav1.ConditionTrue))

	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Replicas = new(int32(4)) })
	f.ExpectReconciled(f.fleet)
	f.Expect(*f.deployment(1).Spec.Replicas).To(BeEquivalentTo(4), "what the fleet itself changes does not wait")

	f.says(false, 0, 1)
	f.after(2 * rollout.LastRetry)
	f.after(2 * rollout.LastRetry)
	f.says(false, 0, 1)
	f.ExpectReconciled(f.fleet)
	f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue), "it is over: "+f.fleet.Status.Message)
	f.setBack(1, "v1.36.9")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"), "a single edit is corrected at once")
}
