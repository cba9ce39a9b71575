package machinedeployment

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAnotherSpellingReplacesNothing(t *testing.T) {
	config := func(text string) func(*v1alpha1.MachineDeployment) {
		return func(deployment *v1alpha1.MachineDeployment) {
			deployment.Spec.Template.Spec.ProviderConfig = v1alpha1.ProviderConfig{Value: &runtime.RawExtension{Raw: []byte(text)}}
		}
	}
	f := newEnv(t, 2, nil)
	f.update(config(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","capacity":{"memory":"32Gi"}}`))
	f.rest()
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	})
	f.rest()
	old, sets := f.Machines(f.cluster.Name), f.list()
	for _, change := range []func(*v1alpha1.MachineDeployment){
		func(deployment *v1alpha1.MachineDeployment) {
			deployment.Spec.Template.Spec.Versions.Kubelet = "1.36.2"
		},
		func(deployment *v1alpha1.MachineDeployment) {
			deployment.Spec.Template.Spec.ProviderConfig.Provider = "hollow"
		},
		func(deployment *v1alpha1.MachineDeployment) {
			deployment.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: time.Unix(1e9, 0)}}}
		},
		config(`{"kind":"HollowNodeConfig","apiVersion":"hollowfleet.io/v1alpha1","maxPods":110,"capacity":{"memory":"32768Mi"}}`),
	} {
		f.update(change)
		f.rest()
		f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(uids(old)))
		f.Expect(f.list()).To(HaveLen(len(sets)), "a MachineSet is made for it")
		f.Expect(f.list()[0].Generation).To(Equal(sets[0].Generation), "a MachineSet is changed for it")
	}
	f.Expect(f.refresh().Annotations).To(HaveKeyWithValue(v1alpha1.RevisionAnnotation, "1"))
	f.upgrade("1.36.3")
	f.rest()
	f.Expect(uids(f.Machines(f.cluster.Name))).NotTo(ContainElements(uids(old)), "a change is rolled out all the same")
}
