package configsource

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

const minimal = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// Claim: The hub writes the content into Machines of users. Broken: a changed key keeps the content of the earlier one.
func TestAMachineIsGivenItsContent(t *testing.T) {
	f := testenv.NewEnv(t)
	cluster := f.AcceptedCluster()
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: "m"}}
	machine.Spec.ClusterName = cluster.Name
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
	machine.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "a"}
	f.ExpectApplied(machine)
	controller := New(f.Client, f.Client, f.Recorder)
	reconcileMachine := func() {
		t.Helper()
		_, err := controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
		f.Expect(err).NotTo(HaveOccurred())
		f.ExpectExists(machine)
	}
	reconcileMachine()
	f.Expect(machine.Spec.ConfigSource.Resolved).To(BeNil())
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("ConfigSourceUnavailable spec.configSource: ConfigMap " + cluster.Name + "/hollowfleet-kubelet does not exist: create it with the key a")))

	configs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: v1alpha1.KubeletConfigMap}}
	configs.Data = map[string]string{"a": minimal, "b": minimal + "maxPods: 5\n"}
	f.ExpectApplied(configs)
	f.Expect(controller.ofConfigMap(t.Context(), configs)).To(HaveLen(1))
	reconcileMachine()
	f.Expect(machine.Spec.ConfigSource.IsResolved()).To(BeTrue())
	f.Expect(machine.Spec.ConfigSource.Resolved.Content).To(Equal(minimal))
	f.Expect(controller.ofConfigMap(t.Context(), configs)).To(BeEmpty())

	configs.Data["a"] = minimal + "maxPods: 7\n"
	f.ExpectApplied(configs)
	reconcileMachine()
	f.Expect(machine.Spec.ConfigSource.Resolved.Content).To(Equal(minimal), "what was taken stays")

	machine.Spec.ConfigSource.Key = "b"
	f.ExpectApplied(machine)
	reconcileMachine()
	f.Expect(machine.Spec.ConfigSource.Resolved.Content).To(Equal(configs.Data["b"]))
	machine.Spec.ConfigSource.SHA256 = v1alpha1.ContentHash("another")
	f.ExpectApplied(machine)
	reconcileMachine()
	f.Expect(machine.Spec.ConfigSource.IsResolved()).To(BeFalse())
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("sha256 asks for")))
}
