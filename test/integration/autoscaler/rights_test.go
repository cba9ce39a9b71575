package autoscaler

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

var _ = Describe("the role of cluster-autoscaler", func() {
	var w *env

	BeforeEach(func(ctx SpecContext) { w = newEnv(ctx) })

	// Claim: cluster-autoscaler needs each right of its role, and no other. Broken: each of the twelve rights taken away, one at a time; one added. Also: "should let it do nothing else".
	It("should hold every right that the requests need, and no other", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 0, sizes("0", "3"))
		w.deployLone(ctx, sizes("0", "3"))
		for kind, name := range map[string]string{"MachineDeployment": "pool", "MachineSet": "lone"} {
			w.autoscaler.increase(ctx, w.group(kind, name), 2)
			Eventually(func() int { return len(w.machines(ctx, name)) }).Should(Equal(2))
			machines := w.machines(ctx, name)
			w.join(ctx, machines...)
			id := providerID(&machines[0])
			Eventually(func() any { return w.autoscaler.findMachine(id) }).ShouldNot(BeNil())
			Expect(w.autoscaler.deleteNodes(ctx, w.group(kind, name), id)).To(Succeed())
			Eventually(func() []string { return names(w.machines(ctx, name)) }).Should(ConsistOf(machines[1].Name))
		}
		found := &rbacv1.ClusterRole{}
		Expect(environment.Client.Get(ctx, client.ObjectKey{Name: itsRole}, found)).To(Succeed())
		Expect(w.autoscaler.wire.sent()).To(ConsistOf(rightsOf(found)))
	})

	It("should let it do nothing else", func(ctx SpecContext) {
		deployment := w.deploy(ctx, "pool", 1, sizes("0", "5"))
		machine := &w.machines(ctx, "pool")[0]
		sets := &v1alpha1.MachineSetList{}
		Expect(environment.Client.List(ctx, sets, client.InNamespace(w.cluster.Name))).To(Succeed())
		set := &sets.Items[0]
		with, err := client.New(w.autoscaler.config, client.Options{Scheme: scheme.New()})
		Expect(err).NotTo(HaveOccurred())
		patch := func(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
		failed := patch(`{"status":{"phase":"Failed"}}`)
		otherTemplate := patch(`{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.37.1"}}}}}`)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Name, Name: v1alpha1.AgentServiceAccount}}
		here := client.InNamespace(w.cluster.Name)
		for what, answer := range map[string]error{
			"delete a Machine":                  with.Delete(ctx, machine.DeepCopy()),
			"delete all Machines":               with.DeleteAllOf(ctx, &v1alpha1.Machine{}, here),
			"create a Machine":                  with.Create(ctx, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Name, Name: "own"}, Spec: machine.Spec}),
			"patch a Machine":                   with.Patch(ctx, machine.DeepCopy(), patch(`{"metadata":{"finalizers":null}}`)),
			"patch a Machine's status":          with.Status().Patch(ctx, machine.DeepCopy(), failed),
			"update a Machine's status":         with.Status().Update(ctx, machine.DeepCopy()),
			"edit a deployment's template":      with.Patch(ctx, deployment.DeepCopy(), otherTemplate),
			"update a deployment":               with.Update(ctx, deployment.DeepCopy()),
			"delete a deployment":               with.Delete(ctx, deployment.DeepCopy()),
			"edit a set's template":             with.Patch(ctx, set.DeepCopy(), otherTemplate),
			"update a set":                      with.Update(ctx, set.DeepCopy()),
			"delete a set":                      with.Delete(ctx, set.DeepCopy()),
			"look into a class":                 with.List(ctx, &v1alpha1.MachineClassList{}, here),
			"look into another namespace":       with.List(ctx, &v1alpha1.MachineList{}, client.InNamespace("default")),
			"look at all Machines":              with.List(ctx, &v1alpha1.MachineList{}),
			"look at the clusters":              with.List(ctx, &v1alpha1.ClusterList{}),
			"look at secrets":                   with.List(ctx, &corev1.SecretList{}, here),
			"ask for a token of the agent's":    with.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{}),
			"thaw its cluster, or freeze it":    with.Patch(ctx, w.cluster.DeepCopy(), patch(`{"metadata":{"annotations":{"hollowfleet.io/freeze":null}}}`)),
			"patch the status of a deployment":  with.Status().Patch(ctx, deployment.DeepCopy(), patch(`{"status":{"replicas":9}}`)),
			"patch the status of a machine set": with.Status().Patch(ctx, set.DeepCopy(), patch(`{"status":{"replicas":9}}`)),
		} {
			Expect(apierrors.IsForbidden(answer)).To(BeTrue(), "%s: %v", what, answer)
		}
	})

	It("should not let it change a status with the write that marks", func(ctx SpecContext) {
		w.deploy(ctx, "pool", 1, sizes("0", "5"))
		machine := &w.machines(ctx, "pool")[0]
		with, err := client.New(w.autoscaler.config, client.Options{Scheme: scheme.New()})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			g.Expect(with.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
			machine.Annotations = map[string]string{v1alpha1.DeleteMachineAnnotation: "now"}
			machine.Status.ErrorMessage = "made up"
			g.Expect(with.Update(ctx, machine)).To(Succeed())
		}).Should(Succeed())
		Expect(machine.Annotations).To(HaveKey(v1alpha1.DeleteMachineAnnotation))
		Expect(machine.Status.ErrorMessage).To(BeEmpty())
	})
})
