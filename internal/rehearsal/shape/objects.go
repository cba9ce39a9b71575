package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
)

const (
	// Image is that of all containers. Nothing pulls or runs it.
	Image = "rehearsal.invalid/nothing:1"
	// WorkloadAnnotation, on a pod, has the ID of the workload that it is of.
	WorkloadAnnotation = "rehearsal.hollowfleet.io/workload"
	// agentNamespace is where the agent of a simulated cluster keeps what is its own, and nobody else makes pods.
	agentNamespace = "hollowfleet"
)

// Shape are the objects of a rehearsal, and what is different in them.
type Shape struct {
	Groups []Group
	// Cluster and MachineDeployments are the hub's.
	Cluster            *v1alpha1.SimulatedCluster
	MachineDeployments []*v1alpha1.MachineDeployment
	// Objects are those of the simulated cluster, in the order in which they are created.
	Objects []client.Object
	// Workloads are those of the inventory that are rehearsed.
	Workloads []inventory.Workload
	// Notes say what is different from the real cluster.
	Notes []string
}

// Options are what the user decides.
type Options struct {
	// Name is that of the SimulatedCluster, and Host of the Cluster that hosts it.
	Name, Host string
	Versions   Versions
	Strategy   v1alpha1.MachineDeploymentStrategy
	// DrainTimeout is how long a drain may take.
	DrainTimeout time.Duration
	// ReadyAfter is how long a pod takes until it is Ready, and TerminationPercent how much of its grace period until it has ended.
	ReadyAfter         time.Duration
	TerminationPercent int32
}

// New makes the objects.
func New(i *inventory.Inventory, o Options) *Shape {
	s := &Shape{}
	s.Groups, s.Notes = groupNodes(i)
	s.Cluster = newCluster(o)
	named := skews(s.Groups, o.Versions)
	for index := range s.Groups {
		s.MachineDeployments = append(s.MachineDeployments, newMachineDeployment(&s.Groups[index], o, named[s.Groups[index].Name]))
	}
	n := newNotes(i)
	labels := map[string]map[string]string{}
	for _, namespace := range i.Namespaces {
		labels[namespace.Name] = namespace.Labels
	}
	for _, name := range namespacesOf(i) {
		s.Objects = append(s.Objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels[name]}})
	}
	for _, class := range i.PriorityClasses {
		s.Objects = append(s.Objects, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: class.Name}, Value: class.Value, GlobalDefault: class.GlobalDefault, PreemptionPolicy: class.PreemptionPolicy,
		})
	}
	for index := range i.Budgets {
		if i.Budgets[index].Namespace != agentNamespace {
			s.Objects = append(s.Objects, newBudget(&i.Budgets[index]))
		}
	}
	for index := range i.Workloads {
		workload := &i.Workloads[index]
		n.look(workload)
		if workload.Namespace == agentNamespace {
			continue
		}
		s.Workloads = append(s.Workloads, *workload)
		s.Objects = append(s.Objects, newWorkload(workload, o, n))
	}
	s.Notes = append(s.Notes, n.lines()...)
	return s
}

// namespacesOf are those that workloads and budgets are in.
func namespacesOf(i *inventory.Inventory) []string {
	names := map[string]bool{}
	for index := range i.Workloads {
		names[i.Workloads[index].Namespace] = true
	}
	for index := range i.Budgets {
		names[i.Budgets[index].Namespace] = true
	}
	for _, namespace := range i.Namespaces {
		names[namespace.Name] = true
	}
	delete(names, agentNamespace)
	return slices.Sorted(maps.Keys(names))
}

func newBudget(b *inventory.Budget) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: b.Selector, MinAvailable: b.MinAvailable, MaxUnavailable: b.MaxUnavailable, UnhealthyPodEvictionPolicy: b.UnhealthyPodEvictionPolicy,
		},
	}
}

func newWorkload(w *inventory.Workload, o Options, n *notes) client.Object {
	about := metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(w.Pod.Labels), Annotations: map[string]string{WorkloadAnnotation: w.ID()}},
		Spec:       newPodSpec(&w.Pod, n),
	}
	if o.ReadyAfter > 0 {
		template.Annotations[v1alpha1.ReadyAfterAnnotation] = o.ReadyAfter.String()
		template.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}, PeriodSeconds: 1,
		}
	}
	replicas := w.Replicas
	switch w.Kind {
	case inventory.StatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: w.Selector, Template: template, ServiceName: w.Name, PodManagementPolicy: w.PodManagement, MinReadySeconds: w.MinReadySeconds,
		}}
	case inventory.DaemonSet:
		return &appsv1.DaemonSet{ObjectMeta: about, Spec: appsv1.DaemonSetSpec{Selector: w.Selector, Template: template, MinReadySeconds: w.MinReadySeconds}}
	case inventory.Deployment:
	}
	return &appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: w.Selector, Template: template, MinReadySeconds: w.MinReadySeconds}}
}

// newPodSpec makes pods that are placed and evicted as those of the real cluster. They do nothing.
func newPodSpec(p *inventory.Pod, n *notes) corev1.PodSpec {
	spec := corev1.PodSpec{
		NodeSelector: renameSelector(p.NodeSelector), Affinity: keepOffPodHost(p.Affinity), TopologySpreadConstraints: renameSpread(p.TopologySpreadConstraints), Tolerations: p.Tolerations,
		TerminationGracePeriodSeconds: p.GracePeriodSeconds, HostNetwork: p.HostNetwork, AutomountServiceAccountToken: new(bool),
	}
	if n.hasPriority(p.PriorityClassName) {
		spec.PriorityClassName = p.PriorityClassName
	}
	for index := range p.InitContainers {
		spec.InitContainers = append(spec.InitContainers, newContainer("init", index, &p.InitContainers[index]))
	}
	for index := range p.Containers {
		spec.Containers = append(spec.Containers, newContainer("main", index, &p.Containers[index]))
	}
	for name, quantity := range knownResources(p.Overhead) {
		first := &spec.Containers[0].Resources
		if first.Requests == nil {
			first.Requests = corev1.ResourceList{}
		}
		sum := first.Requests[name].DeepCopy()
		sum.Add(quantity)
		first.Requests[name] = sum
		if limit, has := first.Limits[name]; has {
			limit.Add(quantity)
			first.Limits[name] = limit
		}
	}
	return spec
}

func newContainer(kind string, index int, c *inventory.Container) corev1.Container {
	container := corev1.Container{
		Name: fmt.Sprintf("%s-%d", kind, index), Image: Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Resources: corev1.ResourceRequirements{Requests: knownResources(c.Requests), Limits: knownResources(c.Limits)},
	}
	if c.Sidecar {
		always := corev1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
	}
	for _, port := range c.HostPorts {
		container.Ports = append(container.Ports, corev1.ContainerPort{ContainerPort: port.Port, HostPort: port.Port, Protocol: port.Protocol, HostIP: port.HostIP})
	}
	return container
}

// keepOffPodHost keeps pods off the Node that carries the hollow Nodes of a simulated cluster: no real cluster has it, and it would count
// for the spread over Nodes.
func keepOffPodHost(affinity *corev1.Affinity) *corev1.Affinity {
	if affinity = affinity.DeepCopy(); affinity == nil {
		affinity = &corev1.Affinity{}
	}
	renameAffinity(affinity)
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for index := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[index]
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: v1alpha1.PodHostLabel, Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	return affinity
}

// shorten cuts a list of names.
func shorten(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
