package inventory_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

const secretText = "hunter2"

// template has everything that must not be kept, and some of what must.
func template(labels map[string]string) corev1.PodTemplateSpec {
	grace := int64(45)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"note": secretText}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, ImagePullSecrets: []corev1.LocalObjectReference{{Name: secretText}}, ServiceAccountName: secretText,
			Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}},
			}}}},
			Containers: []corev1.Container{{
				Name: secretText, Image: secretText, Command: []string{secretText}, Args: []string{secretText}, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secretText}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
				Ports:     []corev1.ContainerPort{{ContainerPort: 8080}, {ContainerPort: 9100, HostPort: 9100}},
			}},
			Volumes: []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secretText}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: secretText}}},
			},
		},
	}
}

// Claim: An inventory is taken without a change to the cluster, and has no secret, command, environment or image. Broken: the transport lets other methods through; a container's environment kept.
func TestTheInventoryOfACluster(t *testing.T) {
	f := testenv.NewEnv(t)
	name := testenv.Name()
	labels := map[string]string{"app": name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}, Spec: corev1.NodeSpec{
		Unschedulable: true, Taints: []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}},
	}}
	f.ExpectApplied(node,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "a", "pod-security.kubernetes.io/enforce": "restricted"}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 7},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: selector, Template: template(labels)}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "db"}, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template(labels)}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "log"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template(labels)}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: new(intstr.FromString("50%"))}},
	)
	before := node.DeepCopy()
	node.Status.NodeInfo.KubeletVersion = "v1.35.9"
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3900m"), "hugepages-2Mi": resource.MustParse("0")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	f.Expect(f.Client.Status().Patch(t.Context(), node, client.MergeFrom(before))).To(Succeed())

	found, err := inventory.Read(t.Context(), testenv.Server().Config, time.Now())
	f.Expect(err).NotTo(HaveOccurred())
	content, err := found.Encode()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(string(content)).NotTo(ContainSubstring(secretText))
	own := *found // Other tests may have Nodes that no inventory has.
	own.Nodes = slices.DeleteFunc(slices.Clone(found.Nodes), func(one inventory.Node) bool { return one.Name != name })
	content, err = own.Encode()
	f.Expect(err).NotTo(HaveOccurred())
	_, err = inventory.Decode(content)
	f.Expect(err).NotTo(HaveOccurred(), "what is written can be read")
	f.Expect(found.ControlPlane).To(HavePrefix("v1."))
	f.Expect(found.Nodes).To(ContainElement(inventory.Node{
		Name: name, Kubelet: "v1.35.9", Ready: true, Cordoned: true, Labels: map[string]string{"pool": name},
		Taints: []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3900m")},
	}))
	f.Expect(found.Namespaces).To(ContainElement(inventory.Namespace{Name: name, Labels: map[string]string{"team": "a"}}))
	f.Expect(found.PriorityClasses).To(ContainElement(HaveField("Name", name)))
	f.Expect(found.Budgets).To(ContainElement(And(HaveField("Namespace", name), HaveField("MinAvailable", HaveValue(Equal(intstr.FromString("50%")))))))
	var kinds []string
	for _, workload := range found.Workloads {
		if workload.Namespace == name {
			kinds = append(kinds, string(workload.Kind))
			f.Expect(workload.Pod.Containers[0].HostPorts).To(HaveExactElements(HaveField("Port", int32(9100))))
			f.Expect(workload.Pod.PersistentVolumes).To(Equal(1))
			f.Expect(workload.Pod.GracePeriodSeconds).To(HaveValue(Equal(int64(45))))
		}
	}
	f.Expect(strings.Join(kinds, " ")).To(Equal("DaemonSet Deployment StatefulSet"))

	c, err := client.New(inventory.ReadOnly(testenv.Server().Config), client.Options{})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(c.Delete(t.Context(), node)).To(MatchError(ContainSubstring("is only read")))
	f.Expect(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x-" + name}})).To(MatchError(ContainSubstring("is only read")))
	f.ExpectExists(node)
}
