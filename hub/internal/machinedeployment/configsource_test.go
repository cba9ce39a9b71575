package machinedeployment

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	firstConfig  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\n"
	secondConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 60\n"
)

// writeConfig writes the KubeletConfigurations of the cluster; nil deletes them.
func (f *env) writeConfig(data map[string]string) {
	f.T.Helper()
	configs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: v1alpha1.KubeletConfigMap}}
	if data == nil {
		f.Expect(f.Client.Delete(f.T.Context(), configs)).To(Succeed())
		return
	}
	_, err := controllerutil.CreateOrUpdate(f.T.Context(), f.Client, configs, func() error {
		configs.Data = data
		return nil
	})
	f.Expect(err).NotTo(HaveOccurred())
}

// configs are the contents that the Machines have been given, by UID.
func (f *env) configs() map[types.UID]string {
	f.T.Helper()
	configs := map[types.UID]string{}
	for _, machine := range f.Machines(f.cluster.Name) {
		content := "none"
		if source := machine.Spec.ConfigSource; source != nil && source.IsResolved() {
			content = source.Resolved.Content
		}
		configs[machine.UID] = content
	}
	return configs
}

// configured is an env at rest whose Machines have the first configuration.
func configured(t *testing.T, strategy v1alpha1.MachineDeploymentStrategy) *env {
	t.Helper()
	f := newEnv(t, 3, nil)
	f.writeConfig(map[string]string{"workers": firstConfig})
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Strategy = strategy
		deployment.Spec.Template.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "workers"}
	})
	f.settleInPlace()
	f.expectConfigs(firstConfig)
	return f
}

// settleInPlace is rest, with the agent's part of updates in place.
func (f *env) settleInPlace() {
	f.T.Helper()
	for range 20 {
		f.rest()
		if f.updated(func(*v1alpha1.Machine) string { return "" }) == 0 {
			return
		}
	}
	f.T.Fatal("the updates in place do not end")
}

func (f *env) expectConfigs(content string) {
	f.T.Helper()
	configs := f.configs()
	f.Expect(configs).To(HaveLen(3))
	f.Expect(configs).To(HaveEach(content))
}

// Claim: A new content of a key is a new revision, in place or by replacement. Broken: the template is compared without the content. Also: test/integration/lifecycle "should roll out in place, stop where it is refused, and go back".
func TestANewContentIsANewRevision(t *testing.T) {
	for name, strategy := range map[string]v1alpha1.MachineDeploymentStrategy{
		"RollingUpdate": {Type: v1alpha1.RollingUpdate}, "InPlace": {Type: v1alpha1.InPlace},
	} {
		t.Run(name, func(t *testing.T) {
			f := configured(t, strategy)
			before := uids(f.Machines(f.cluster.Name))
			f.writeConfig(map[string]string{"workers": firstConfig, "others": secondConfig})
			f.rest()
			f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(before), "another key changes nothing")

			f.writeConfig(map[string]string{"workers": secondConfig, "others": secondConfig})
			f.settleInPlace()
			f.expectConfigs(secondConfig)
			if after := uids(f.Machines(f.cluster.Name)); strategy.Type == v1alpha1.InPlace {
				f.Expect(after).To(Equal(before), "they are replaced")
			} else {
				f.Expect(after).NotTo(ContainElements(before))
			}
			rolled := uids(f.Machines(f.cluster.Name))
			f.update(func(deployment *v1alpha1.MachineDeployment) {
				deployment.Spec.Template.Spec.ConfigSource.Key = "others"
			})
			f.rest()
			f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(rolled), "the same content under another key is no other revision")
			f.expectConfigs(secondConfig)
		})
	}
}

// Claim: A configuration goes back to a content that its ConfigMap does not have any more. Broken: the history is not looked into.
func TestARollbackFindsTheContentInItsHistory(t *testing.T) {
	f := configured(t, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate})
	f.writeConfig(map[string]string{"workers": secondConfig})
	f.rest()
	f.expectConfigs(secondConfig)
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Template.Spec.ConfigSource.SHA256 = v1alpha1.ContentHash(firstConfig)
	})
	f.rest()
	f.expectConfigs(firstConfig)
	f.writeConfig(nil)
	f.rest()
	f.expectConfigs(firstConfig)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}

// Claim: A configuration that is deleted, or not there, changes no Machine. Broken: a Machine is made without. Edge case: scaling while it is missing.
func TestAMissingConfigurationCostsNoMachine(t *testing.T) {
	f := configured(t, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate})
	before := uids(f.Machines(f.cluster.Name))
	for _, data := range []map[string]string{{"others": firstConfig}, {"workers": ""}, nil} {
		f.writeConfig(data)
		f.rest()
		f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(before))
		condition := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
		f.Expect(condition.Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
		f.Expect(condition.Message).To(And(ContainSubstring("machines keep the kubelet configuration"), ContainSubstring("hollowfleet-kubelet")))
	}
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(4)) })
	f.rest()
	f.Expect(f.configs()).To(And(HaveLen(4), HaveEach(firstConfig)), "a Machine that is added has the content that the others have")

	kept := uids(f.Machines(f.cluster.Name))
	f.upgrade("v1.36.3")
	f.rest()
	f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(kept), "half of a template is rolled out")
	condition := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(condition.Status).To(Equal(metav1.ConditionFalse))
	f.Expect(condition.Reason).To(Equal(v1alpha1.ReasonConfigSourceUnavailable))
	f.Expect(condition.Message).To(ContainSubstring("ConfigMap " + f.cluster.Name + "/hollowfleet-kubelet does not exist: create it with the key workers"))
	f.Expect(f.list()).To(HaveLen(1), "a set is made without its content")

	f.writeConfig(map[string]string{"workers": secondConfig})
	f.rest()
	f.Expect(f.configs()).To(And(HaveLen(4), HaveEach(secondConfig)))
}

func TestAPinnedContentThatIsNotThereIsWaitedFor(t *testing.T) {
	f := configured(t, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace})
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Template.Spec.ConfigSource.SHA256 = v1alpha1.ContentHash(secondConfig)
	})
	f.settleInPlace()
	f.expectConfigs(firstConfig)
	condition := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(condition.Reason).To(Equal(v1alpha1.ReasonConfigSourceUnavailable))
	f.Expect(condition.Message).To(And(ContainSubstring(v1alpha1.ContentHash(firstConfig)), ContainSubstring(v1alpha1.ContentHash(secondConfig))))
	lost := f.Machines(f.cluster.Name)[0]
	f.Expect(f.Client.Delete(t.Context(), &lost)).To(Succeed())
	f.settleInPlace()
	f.expectConfigs(firstConfig)
	f.writeConfig(map[string]string{"workers": secondConfig})
	f.settleInPlace()
	f.expectConfigs(secondConfig)
}
