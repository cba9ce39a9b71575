package shape_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

func node(name, pool, memory string) inventory.Node {
	return inventory.Node{
		Name: name, Kubelet: "v1.36.1", Ready: true,
		Labels:      map[string]string{corev1.LabelHostname: name, "pool": pool, "instance-id": "i-" + name},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("58"), "hugepages-2Mi": resource.MustParse("2Mi")},
	}
}

func workload(kind inventory.WorkloadKind, name string) inventory.Workload {
	labels := map[string]string{"app": name}
	return inventory.Workload{
		Kind: kind, Namespace: "shop", Name: name, Replicas: 2, Ready: 2, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Pod: inventory.Pod{Labels: labels, Containers: []inventory.Container{{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}},
	}
}

func options() shape.Options {
	return shape.Options{
		Name: "r", Host: "host", Versions: shape.Versions{From: "v1.36", To: "v1.37", Kubelet: "v1.37.0"}, DrainTimeout: time.Minute,
		Strategy: v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate},
	}
}

func find[T client.Object](objects []client.Object, name string) (found T) {
	for _, object := range objects {
		if typed, is := object.(T); is && object.GetName() == name {
			return typed
		}
	}
	return found
}

func TestEqualNodesAreOneGroup(t *testing.T) {
	g := NewWithT(t)
	i := &inventory.Inventory{Nodes: []inventory.Node{node("a1", "a", "16000Mi"), node("a2", "a", "15990Mi"), node("a3", "a", "8000Mi"), node("b1", "b", "16000Mi"), node("b2", "b", "16000Mi")}}
	i.Nodes[4].Ready = false
	i.Nodes[3].Cordoned = true
	s := shape.New(i, options())
	g.Expect(s.Groups).To(HaveExactElements(
		And(HaveField("Name", "a-1"), HaveField("Nodes", 1)),
		And(HaveField("Name", "a-2"), HaveField("Nodes", 2), HaveField("Labels", Equal(map[string]string{"pool": "a"}))),
		And(HaveField("Name", "b"), HaveField("Nodes", 1)),
	))
	memory := s.Groups[1].Allocatable[corev1.ResourceMemory]
	g.Expect(memory.Value()).To(Equal(int64(15990<<20)), "the least of them")
	g.Expect(s.Groups[1].Allocatable).NotTo(HaveKey(corev1.ResourceName("hugepages-2Mi")))
	g.Expect(s.Notes).To(ContainElements(ContainSubstring("instance-id"), ContainSubstring("1 Node is not Ready"), ContainSubstring("cordoned")))

	i.Workloads = []inventory.Workload{workload(inventory.Deployment, "web")}
	i.Workloads[0].Pod.NodeSelector = map[string]string{"instance-id": "i-a1"}
	g.Expect(shape.New(i, options()).Groups).To(HaveLen(4), "a label that a pod is placed by stays")
}

// Claim: Pods find Nodes by labels that a hollow kubelet sets itself. Broken: the label of Nodes renamed, and not that of pods.
func TestLabelsThatAKubeletSetsAreRenamedForNodesAndPods(t *testing.T) {
	g := NewWithT(t)
	i := &inventory.Inventory{Nodes: []inventory.Node{node("a", "a", "1Gi")}, Workloads: []inventory.Workload{workload(inventory.Deployment, "web")}}
	i.Nodes[0].Labels[corev1.LabelArchStable], i.Nodes[0].Labels[corev1.LabelOSStable], i.Nodes[0].Labels["beta.kubernetes.io/os"] = "arm64", "linux", "linux"
	i.Nodes[0].Labels["team.node-restriction.kubernetes.io/x"] = "y"
	pod := &i.Workloads[0].Pod
	pod.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64"}
	pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelArchStable}}
	pod.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}},
		}}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "team.node-restriction.kubernetes.io/x"}}},
	}
	s := shape.New(i, options())
	g.Expect(s.MachineDeployments[0].Spec.Template.Spec.NodeMetadata.Labels).To(Equal(map[string]string{
		"pool": "a", "instance-id": "i-a", "rehearsal.hollowfleet.io/kubernetes.io_arch": "arm64", "rehearsal.hollowfleet.io/kubernetes.io_os": "linux",
		"rehearsal.hollowfleet.io/team.node-restriction.kubernetes.io_x": "y",
	}))
	spec := find[*appsv1.Deployment](s.Objects, "web").Spec.Template.Spec
	g.Expect(spec.NodeSelector).To(Equal(map[string]string{"rehearsal.hollowfleet.io/kubernetes.io_arch": "arm64"}))
	g.Expect(spec.TopologySpreadConstraints[0].TopologyKey).To(Equal("rehearsal.hollowfleet.io/kubernetes.io_arch"))
	g.Expect(spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Key).To(Equal("rehearsal.hollowfleet.io/kubernetes.io_os"))
	g.Expect(spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey).To(HavePrefix("rehearsal.hollowfleet.io/"))
	g.Expect(pod.NodeSelector).To(HaveKey(corev1.LabelArchStable), "the inventory stays as it is")
}

// Claim: Pods of a rehearsal are placed as those of the cluster, and do nothing. Broken: tolerations, spread or grace period dropped; the pod host counted as a Node.
func TestPodsAreMadeOfWhatTheyArePlacedBy(t *testing.T) {
	g := NewWithT(t)
	grace := int64(77)
	web := workload(inventory.Deployment, "web")
	web.Pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	web.Pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: web.Selector}}
	web.Pod.GracePeriodSeconds, web.Pod.PriorityClassName = &grace, "gold"
	web.Pod.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	web.Pod.Containers[0].HostPorts = []inventory.HostPort{{Port: 80}}
	web.Pod.InitContainers = []inventory.Container{{Sidecar: true}, {}}
	web.Pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpExists}}}, {}},
	}}}
	db := workload(inventory.StatefulSet, "db")
	db.Pod.PersistentVolumes, db.Pod.PriorityClassName, db.PodManagement = 1, "unknown", appsv1.ParallelPodManagement
	agent := workload(inventory.DaemonSet, "agent")
	agent.Namespace = "hollowfleet"
	i := &inventory.Inventory{
		Nodes: []inventory.Node{node("a", "a", "1Gi")}, Workloads: []inventory.Workload{web, db, workload(inventory.DaemonSet, "log"), agent},
		PriorityClasses: []inventory.PriorityClass{{Name: "gold", Value: 5}}, Namespaces: []inventory.Namespace{{Name: "shop", Labels: map[string]string{"team": "x"}}},
		LeftOut: inventory.LeftOut{Pods: map[string]int{"none": 2, "Job": 3}, Webhooks: 4},
	}
	o := options()
	o.ReadyAfter = 20 * time.Second
	s := shape.New(i, o)

	deployment := find[*appsv1.Deployment](s.Objects, "web")
	spec := deployment.Spec.Template.Spec
	g.Expect(spec.Tolerations).To(Equal(web.Pod.Tolerations))
	g.Expect(spec.TopologySpreadConstraints).To(Equal(web.Pod.TopologySpreadConstraints))
	g.Expect(spec.TerminationGracePeriodSeconds).To(HaveValue(Equal(grace)))
	g.Expect(spec.PriorityClassName).To(Equal("gold"))
	g.Expect(spec.Containers[0].Image).To(Equal(shape.Image))
	g.Expect(spec.Containers[0].Command).To(BeEmpty())
	g.Expect(spec.Containers[0].Resources.Requests.Cpu().MilliValue()).To(Equal(int64(1500)))
	g.Expect(spec.Containers[0].Ports[0].HostPort).To(Equal(int32(80)))
	g.Expect(spec.InitContainers[0].RestartPolicy).NotTo(BeNil())
	g.Expect(spec.Containers[0].ReadinessProbe).NotTo(BeNil())
	g.Expect(deployment.Spec.Template.Annotations).To(And(HaveKeyWithValue(v1alpha1.ReadyAfterAnnotation, "20s"), HaveKeyWithValue(shape.WorkloadAnnotation, "Deployment shop/web")))
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		g.Expect(term.MatchExpressions).To(ContainElement(HaveField("Key", v1alpha1.PodHostLabel)))
	}
	g.Expect(web.Pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[1].MatchExpressions).To(BeEmpty(), "the inventory stays as it is")
	g.Expect(find[*appsv1.StatefulSet](s.Objects, "db").Spec.PodManagementPolicy).To(Equal(appsv1.ParallelPodManagement))
	g.Expect(find[*appsv1.DaemonSet](s.Objects, "log")).NotTo(BeNil())
	g.Expect(find[*corev1.Namespace](s.Objects, "shop").Labels).To(HaveKeyWithValue("team", "x"))
	g.Expect(find[*appsv1.DaemonSet](s.Objects, "agent")).To(BeNil())
	g.Expect(s.Notes).To(ContainElements(
		"1 workload with PersistentVolumeClaims: volumes do not tie pods to a zone or Node in the rehearsal: StatefulSet shop/db",
		"Pods that are not of a Deployment, StatefulSet or DaemonSet are left out: 3 with owner Job, 2 with no owner",
		ContainSubstring("4 admission webhook configurations"), ContainSubstring("PriorityClass that the inventory does not have"), ContainSubstring("namespace hollowfleet"),
	))
	config := v1alpha1.HollowNodeConfig{}
	g.Expect(json.Unmarshal(s.MachineDeployments[0].Spec.Template.Spec.ProviderConfig.Value.Raw, &config)).To(Succeed())
	g.Expect(config.MaxPods).To(HaveValue(Equal(int32(58))))
	g.Expect(config.Capacity).NotTo(HaveKey(corev1.ResourcePods))
	g.Expect(config.HollowTaint).To(Equal(v1alpha1.HollowTaintNever))
	g.Expect(config.Probes).To(Equal(v1alpha1.HollowProbesRun))
}

func TestVersionsThatCanBeRehearsed(t *testing.T) {
	for _, test := range []struct{ source, controlPlane, kubelet, to, wantKubelet, field, says string }{
		{source: "v1.36.2", to: "v1.37", wantKubelet: "v1.37.0"},
		{source: "v1.36.2-gke.100", controlPlane: "v1.37.1", kubelet: "1.36.9", to: "v1.37", wantKubelet: "v1.36.9"},
		{source: "v1.36.2", controlPlane: "v1.36", to: "v1.36", wantKubelet: "v1.36.0"},
		{source: "v1.35.2", controlPlane: "v1.37", field: shape.ControlPlaneVersion, says: "rehearse v1.36 first"},
		{source: "v1.36.2", controlPlane: "v1.35", field: shape.ControlPlaneVersion, says: "does not go back"},
		{source: "v1.36.2", controlPlane: "new", field: shape.ControlPlaneVersion, says: "v1.37"},
		{source: "v1.33.2", field: shape.SourceVersion, says: "from v1.34 on"},
		{source: "x", field: shape.SourceVersion, says: "not a Kubernetes version"},
		{source: "v1.36.2", kubelet: "v1.38.0", field: shape.KubeletVersion, says: "never ahead"},
		{source: "v1.36.2", kubelet: "v1.37", field: shape.KubeletVersion, says: "v1.37.0"},
	} {
		t.Run(test.source+" "+test.controlPlane+" "+test.kubelet, func(t *testing.T) {
			g := NewWithT(t)
			versions, err := shape.DecideVersions(test.source, test.controlPlane, test.kubelet)
			if test.says != "" {
				g.Expect(err).To(And(MatchError(HavePrefix(test.field+": ")), MatchError(ContainSubstring(test.says))))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(versions.To).To(Equal(test.to))
			g.Expect(versions.Kubelet).To(Equal(test.wantKubelet))
		})
	}
}

// Claim: A rehearsal names each step that the version skew policy forbids. Broken: only the end is compared; the order is not looked at.
func TestSkewIsFollowedStepByStep(t *testing.T) {
	g := NewWithT(t)
	versions := shape.Versions{From: "v1.36", To: "v1.37", Kubelet: "v1.37.0"}
	groups := []shape.Group{{Name: "new", Nodes: 2, Kubelet: "v1.36.1"}, {Name: "old", Nodes: 1, Kubelet: "v1.33.1"}}
	g.Expect(shape.CheckSkew(groups, versions, shape.ControlPlaneFirst)).To(HaveExactElements(And(
		HaveField("Step", "control plane to v1.37"), HaveField("Group", "old"), HaveField("Problem", ContainSubstring("more than 3 minor versions older")), HaveField("Remedy", ContainSubstring("to v1.36 before the control plane")))))
	problems := shape.CheckSkew(groups, versions, shape.KubeletsFirst)
	g.Expect(problems).To(HaveLen(2))
	g.Expect(problems[0]).To(And(HaveField("Group", "new"), HaveField("Problem", ContainSubstring("newer than")), HaveField("Remedy", "upgrade the control plane to v1.37 first")))
	g.Expect(shape.CheckSkew(groups[:1], versions, shape.ControlPlaneFirst)).To(BeEmpty())
	groups[1].Kubelet = "v1.32.0"
	g.Expect(shape.CheckSkew(groups, versions, shape.ControlPlaneFirst)[0].Step).To(Equal("now"))
}
