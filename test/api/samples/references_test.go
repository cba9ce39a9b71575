package samples_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// samples are all of them, decoded.
type samples struct {
	*WithT
	clusters []*v1alpha1.Cluster
	classes  map[string]bool // By namespace and name; with an empty namespace, by name.
	pools    map[string]bool // MachineDeployments, by namespace and name.
	machines map[string]bool // By namespace and name.
	configs  map[string]*corev1.ConfigMap
	fleets   map[string]*v1alpha1.MachineFleet
	others   []runtime.Object
}

func decodeSamples(t *testing.T) *samples {
	t.Helper()
	s := &samples{
		WithT: NewWithT(t), classes: map[string]bool{}, pools: map[string]bool{}, configs: map[string]*corev1.ConfigMap{},
		machines: map[string]bool{}, fleets: map[string]*v1alpha1.MachineFleet{},
	}
	known := scheme.New()
	for _, object := range readSamples(t) {
		typed, err := known.New(object.GroupVersionKind())
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)).To(Succeed())
		switch o := typed.(type) {
		case *v1alpha1.Cluster:
			s.clusters = append(s.clusters, o)
		case *v1alpha1.MachineClass:
			s.classes[o.Namespace+"/"+o.Name], s.classes["/"+o.Name] = true, true
		case *corev1.ConfigMap:
			s.configs[o.Namespace+"/"+o.Name] = o
		case *v1alpha1.MachineFleet:
			s.fleets[o.Name] = o
		case *v1alpha1.MachineDeployment:
			s.pools[o.Namespace+"/"+o.Name] = true
		case *v1alpha1.Machine:
			s.machines[o.Namespace+"/"+o.Name] = true
		}
		s.others = append(s.others, typed)
	}
	return s
}

// Claim: What a sample refers to is there, too. Broken: a class renamed; a Cluster without its label; a group that needs no approval; a key of the ConfigMap renamed; a deployment of a disruption renamed; a Machine whose log is asked for renamed.
func TestSamplesReferToWhatThereIs(t *testing.T) {
	s := decodeSamples(t)
	for _, object := range s.others {
		switch o := object.(type) {
		case *v1alpha1.Machine:
			s.expectMachines(o.Namespace, o.Spec.ClusterName, &o.Spec.MachineTemplateBody)
		case *v1alpha1.MachineSet:
			s.expectMachines(o.Namespace, o.Spec.ClusterName, &o.Spec.Template.Spec)
		case *v1alpha1.MachineDeployment:
			s.expectMachines(o.Namespace, o.Spec.ClusterName, &o.Spec.Template.Spec)
		case *v1alpha1.MachineFleet:
			s.expectSelected(o.Spec.ClusterSelector, o.Name)
			s.expectClass("", o.Spec.Template.Spec.Template.Spec.ProviderConfig, nil)
			s.expectGroups(o.Name, o.Spec.RolloutStrategy, o.Spec.Groups)
		case *v1alpha1.FleetApproval:
			s.Expect(s.fleets).To(HaveKey(o.Spec.Fleet))
			s.Expect(s.fleets[o.Spec.Fleet].Spec.Groups).To(ContainElement(And(
				HaveField("Name", o.Spec.Group), HaveField("Approval", v1alpha1.GroupApprovalRequired))))
		case *v1alpha1.SimulatedCluster:
			s.expectCluster(o.Namespace)
			s.expectStart(&o.Spec)
		case *v1alpha1.SimulatedClusterSet:
			s.expectSelected(&o.Spec.HostSelector, o.Name)
			s.expectStart(&o.Spec.Template.Spec)
		case *v1alpha1.LoadTest:
			s.expectSelected(o.Spec.ClusterSelector, o.Name)
		case *v1alpha1.LoadTestRun:
			s.expectCluster(o.Namespace)
		case *v1alpha1.MachineLogRequest:
			s.Expect(s.machines).To(HaveKey(o.Namespace+"/"+o.Spec.MachineName), o.Name)
		case *v1alpha1.NodeDisruption:
			s.expectSelected(o.Spec.ClusterSelector, o.Name)
			s.Expect(o.Spec.Validate()).To(Succeed())
		case *v1alpha1.NodeDisruptionRun:
			s.expectCluster(o.Namespace)
			s.Expect(o.Spec.Validate()).To(Succeed())
			s.Expect(s.pools).To(HaveKey(o.Namespace+"/"+o.Spec.Target.MachineDeployment), o.Name)
		}
	}
}

func (s *samples) expectCluster(name string) {
	s.Expect(s.clusters).To(ContainElement(HaveField("Name", name)), "the Cluster of a namespace")
}

// expectSelected holds that a selector chooses one of the Clusters at least.
func (s *samples) expectSelected(selector *metav1.LabelSelector, by string) {
	chosen, err := metav1.LabelSelectorAsSelector(selector)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(slices.ContainsFunc(s.clusters, func(c *v1alpha1.Cluster) bool { return chosen.Matches(labels.Set(c.Labels)) })).
		To(BeTrue(), "%s selects no Cluster of the samples", by)
}

func (s *samples) expectMachines(namespace, cluster string, template *v1alpha1.MachineTemplateBody) {
	s.Expect(cluster).To(Equal(namespace))
	s.expectCluster(namespace)
	s.expectClass(namespace, template.ProviderConfig, nil)
	if source := template.ConfigSource; source != nil {
		s.Expect(s.configs).To(HaveKey(namespace + "/" + v1alpha1.KubeletConfigMap))
		s.Expect(s.configs[namespace+"/"+v1alpha1.KubeletConfigMap].Data).To(HaveKey(source.Key))
	}
}

// expectClass holds that a class is in a namespace, or is one of those that come with it.
func (s *samples) expectClass(namespace string, from v1alpha1.ProviderConfig, initial []v1alpha1.InitialMachineClass) {
	if from.ValueRef == nil {
		return
	}
	if initial != nil {
		s.Expect(initial).To(ContainElement(HaveField("Name", from.ValueRef.Name)))
		return
	}
	s.Expect(s.classes).To(HaveKey(namespace + "/" + from.ValueRef.Name))
}

// expectStart holds that a simulated cluster has the classes that its Machines need.
func (s *samples) expectStart(spec *v1alpha1.SimulatedClusterSpec) {
	for _, pool := range spec.MachineDeployments {
		s.expectClass("", pool.Template.Spec.ProviderConfig, append([]v1alpha1.InitialMachineClass{}, spec.MachineClasses...))
	}
}

// expectGroups holds that a rollout starts with groups that there are, and that each has a Cluster.
func (s *samples) expectGroups(fleet string, strategy clusterv1alpha1.RolloutStrategy, groups []v1alpha1.MachineFleetGroup) {
	for _, group := range groups {
		s.expectSelected(group.ClusterSelector, fleet+"'s group "+group.Name)
	}
	var mandatory []clusterv1alpha1.MandatoryDecisionGroup
	if strategy.Progressive != nil {
		mandatory = append(mandatory, strategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups...)
	}
	if strategy.ProgressivePerGroup != nil {
		mandatory = append(mandatory, strategy.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups...)
	}
	for _, each := range mandatory {
		s.Expect(groups).To(ContainElement(HaveField("Name", each.GroupName)), fleet)
	}
}
