package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

const (
	cpu    = v1alpha1.AutoscalerCapacityPrefix + "cpu"
	memory = v1alpha1.AutoscalerCapacityPrefix + "memory"
	paused = v1alpha1.AutoscalerPausedAnnotation
)

// env is a deployment of a class, in a namespace of its own.
type env struct {
	*testenv.Env
	class      *v1alpha1.MachineClass
	deployment *v1alpha1.MachineDeployment
}

func newEnv(t *testing.T) *env {
	t.Helper()
	f := &env{Env: testenv.NewCachedEnv(t)}
	namespace := testenv.Name()
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	f.class = &v1alpha1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
		Spec: v1alpha1.MachineClassSpec{Provider: "other", NodeTemplate: &v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"),
		}}},
	}
	f.ExpectApplied(f.class)
	labels := map[string]string{"app": "x"}
	f.deployment = &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pool"},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: namespace, Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	}
	f.ExpectApplied(f.deployment)
	controller, err := New[v1alpha1.MachineDeployment](f.Writes.Count(f.Client))
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = controller
	return f
}

// annotations are the deployment's after a reconciliation, but for the hash.
func (f *env) annotations() map[string]string {
	f.T.Helper()
	f.ExpectReconciled(f.deployment)
	f.ExpectExists(f.deployment)
	annotations := map[string]string{}
	for key, value := range f.deployment.Annotations {
		if key != v1alpha1.AutoscalingHashAnnotation {
			annotations[key] = value
		}
	}
	return annotations
}

// annotate does what kubectl annotate does; "" takes an annotation away.
func (f *env) annotate(key, value string) {
	f.T.Helper()
	before := f.deployment.DeepCopy()
	if value == "" {
		delete(f.deployment.Annotations, key)
	} else {
		metav1.SetMetaDataAnnotation(&f.deployment.ObjectMeta, key, value)
	}
	f.Expect(f.Client.Patch(f.T.Context(), f.deployment, client.MergeFrom(before), client.FieldOwner("kubectl-annotate"))).To(Succeed())
}

func (f *env) resize(cpu string) {
	f.T.Helper()
	f.class.Spec.NodeTemplate.Capacity["cpu"] = resource.MustParse(cpu)
	f.ExpectApplied(f.class)
}

func TestCapacityFollowsTheClassAndRests(t *testing.T) {
	f := newEnv(t)
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "4", memory: "16Gi"}))
	f.resize("8")
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "8", memory: "16Gi"}))
	f.Writes.Counts()
	for range 3 {
		f.annotations()
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty())
	f.ExpectDeleted(f.class)
	f.annotations()
	f.Expect(f.annotations()).To(BeEmpty(), "of a class that is gone nothing is known")
	f.Expect(f.deployment.Annotations).NotTo(HaveKey(v1alpha1.AutoscalingHashAnnotation))
}

// Claim: cluster-autoscaler is told what the template's KubeletConfiguration leaves to pods. Broken: the capacity is told.
func TestReservationsOfTheKubeletConfigurationAreLeftOut(t *testing.T) {
	f := newEnv(t)
	f.deployment.Spec.Template.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "workers"}
	f.ExpectApplied(f.deployment)
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "4", memory: "16Gi"}), "without the ConfigMap")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.class.Namespace, Name: v1alpha1.KubeletConfigMap}}
	config.Data = map[string]string{"workers": "maxPods: 50\nsystemReserved: {cpu: 500m, memory: 1Gi}\n"}
	f.ExpectApplied(config)
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "3500m", memory: "15Gi", v1alpha1.AutoscalerCapacityPrefix + "maxPods": "50"}))
	config.Data["workers"] = "evictionHard: {memory.available: 50%}\n"
	f.ExpectApplied(config)
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "4", memory: "8Gi"}))
	f.Writes.Counts()
	f.annotations()
	f.Expect(f.Writes.Counts()).To(BeEmpty())
}

func TestWhatAUserSetStays(t *testing.T) {
	f := newEnv(t)
	f.annotate(cpu, "2")
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "2", memory: "16Gi"}))
	f.annotate(memory, "1Gi")
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "2", memory: "1Gi"}), "taken over from the hub")
	f.Writes.Counts()
	f.annotations()
	f.Expect(f.Writes.Counts()).To(BeEmpty(), "a user's value is not fought over")
	f.resize("8")
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "2", memory: "1Gi"}))
	f.annotate(cpu, "")
	f.Expect(f.annotations()).To(Equal(map[string]string{cpu: "8", memory: "1Gi"}), "given back to the hub")
}

func TestFrozenAndPausedGroupsAreHiddenAndAUsersPauseStays(t *testing.T) {
	f := newEnv(t)
	freeze := func(status metav1.ConditionStatus) {
		f.ExpectConditionApplied(f.deployment, v1alpha1.FrozenCondition, status, v1alpha1.ReasonAgentSilent)
	}
	f.Expect(f.annotations()).NotTo(HaveKey(paused))
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionUnknown} {
		freeze(status)
		f.Expect(f.annotations()).To(HaveKey(paused))
		freeze(metav1.ConditionFalse)
		f.Expect(f.annotations()).NotTo(HaveKey(paused), "only the hub had set it")
	}
	f.deployment.Spec.Paused = true
	f.ExpectApplied(f.deployment)
	f.Expect(f.annotations()).To(HaveKey(paused))
	f.annotate(paused, "by a user")
	f.deployment.Spec.Paused = false
	f.ExpectApplied(f.deployment)
	f.Expect(f.annotations()).To(HaveKeyWithValue(paused, "by a user"))

	f.annotate(paused, "")
	f.annotate(paused, "true") // The very value of the hub.
	freeze(metav1.ConditionTrue)
	f.annotations()
	freeze(metav1.ConditionFalse)
	f.Expect(f.annotations()).To(HaveKey(paused))
}

func TestSetsOfADeploymentAreNoneOfItsBusiness(t *testing.T) {
	f := newEnv(t)
	controller, err := New[v1alpha1.MachineSet](f.Writes.Count(f.Client))
	f.Expect(err).NotTo(HaveOccurred())
	for name, owned := range map[string]bool{"lone": false, "owned": true} {
		set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.deployment.Namespace, Name: name}, Spec: v1alpha1.MachineSetSpec{
			ClusterName: f.deployment.Namespace, Selector: f.deployment.Spec.Selector, Template: f.deployment.Spec.Template,
		}}
		if owned {
			set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))}
		}
		f.ExpectApplied(set)
		key := client.ObjectKeyFromObject(set)
		_, err := controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.Client.Get(t.Context(), key, set)).To(Succeed())
		_, described := set.Annotations[cpu]
		f.Expect(described).To(Equal(!owned), "%s: %v", name, set.Annotations)
	}
	gone := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "none", Name: "none"}}
	_, err = controller.Reconcile(t.Context(), gone)
	f.Expect(err).NotTo(HaveOccurred())
}

// A deployment that was deleted since it was read must not come back as a bare name with annotations.
func TestWhatIsGoneIsNotMadeAnew(t *testing.T) {
	f := newEnv(t)
	controller, err := New[v1alpha1.MachineDeployment](f.Client)
	f.Expect(err).NotTo(HaveOccurred())
	f.ExpectDeleted(f.deployment)
	f.Expect(controller.applyAnnotations(t.Context(), f.deployment, map[string]string{cpu: "4"})).To(Succeed())
	f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.deployment), f.deployment)).NotTo(Succeed())
}
