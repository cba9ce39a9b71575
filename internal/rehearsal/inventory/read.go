package inventory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// page is how many objects are read at once, and longestRequest bounds each request.
	page           = 500
	longestRequest = time.Minute
)

// readOnly lets only requests through that change nothing.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s: the cluster whose inventory is taken is only read", request.Method, request.URL.Path)
	}
	return r.next.RoundTrip(request)
}

// ReadOnly returns a configuration with which nothing can be changed, whatever is asked for.
func ReadOnly(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	config.Timeout = cmp.Or(config.Timeout, longestRequest)
	config.QPS = 20
	config.Burst = 40
	return config
}

// Read takes the inventory of a cluster, of which it changes nothing.
func Read(ctx context.Context, config *rest.Config, now time.Time) (*Inventory, error) {
	config = ReadOnly(config)
	answered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	served, err := answered.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking for the version of its API server: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	taken := metav1.NewTime(now.UTC().Truncate(time.Second))
	i := &Inventory{APIVersion: APIVersion, Kind: Kind, Taken: &taken, ControlPlane: versionOf(served)}
	r := &reader{Client: c, inventory: i}
	for _, read := range []func(context.Context) error{r.readNodes, r.readPriorityClasses, r.readWorkloads, r.readBudgets, r.readNamespaces, r.readLeftOut} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	i.Sort()
	return i, nil
}

// versionOf is the version that an API server behaves as: it may emulate an earlier one than its own.
func versionOf(served *version.Info) string {
	emulated := fmt.Sprintf("v%s.%s.", served.EmulationMajor, served.EmulationMinor)
	if served.EmulationMinor == "" || strings.HasPrefix(served.GitVersion, emulated) {
		return served.GitVersion
	}
	return emulated + "0"
}

// Sort puts everything in the order of its name.
func (i *Inventory) Sort() {
	slices.SortFunc(i.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(i.Namespaces, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(i.PriorityClasses, func(a, b PriorityClass) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(i.Workloads, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(i.Budgets, func(a, b Budget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

type reader struct {
	client.Client
	inventory *Inventory
	// hasSelectors is that an affinity selects namespaces by labels.
	hasSelectors bool
}

// eachPage reads a list page by page.
func (r *reader) eachPage(ctx context.Context, list client.ObjectList, what string, see func()) error {
	token := ""
	for {
		if err := r.List(ctx, list, client.Limit(page), client.Continue(token)); err != nil {
			return fmt.Errorf("reading %s: %w", what, err)
		}
		see()
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}

func (r *reader) readNodes(ctx context.Context) error {
	list := &corev1.NodeList{}
	return r.eachPage(ctx, list, "Nodes", func() {
		for index := range list.Items {
			if _, isHost := list.Items[index].Labels[v1alpha1.PodHostLabel]; !isHost { // That of a simulated cluster is no machine.
				r.inventory.Nodes = append(r.inventory.Nodes, nodeOf(&list.Items[index]))
			}
		}
	})
}

func nodeOf(node *corev1.Node) Node {
	one := Node{Name: node.Name, Kubelet: node.Status.NodeInfo.KubeletVersion, Labels: maps.Clone(node.Labels), Allocatable: corev1.ResourceList{}, Cordoned: node.Spec.Unschedulable}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			one.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for _, taint := range node.Spec.Taints {
		if !isPassing(taint.Key) {
			one.Taints = append(one.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		}
	}
	for name, quantity := range node.Status.Allocatable {
		if !quantity.IsZero() {
			one.Allocatable[name] = quantity
		}
	}
	return one
}

// isPassing reports whether a taint tells of a state of the Node, and not of its kind.
func isPassing(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") || strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/") ||
		key == "ToBeDeletedByClusterAutoscaler" || key == "DeletionCandidateOfClusterAutoscaler"
}

func (r *reader) readPriorityClasses(ctx context.Context) error {
	list := &schedulingv1.PriorityClassList{}
	return r.eachPage(ctx, list, "PriorityClasses", func() {
		for _, class := range list.Items {
			if !strings.HasPrefix(class.Name, "system-") {
				r.inventory.PriorityClasses = append(r.inventory.PriorityClasses, PriorityClass{class.Name, class.Value, class.GlobalDefault, class.PreemptionPolicy})
			}
		}
	})
}

func (r *reader) readWorkloads(ctx context.Context) error {
	deployments := &appsv1.DeploymentList{}
	if err := r.eachPage(ctx, deployments, "Deployments", func() {
		for _, one := range deployments.Items {
			r.addWorkload(Workload{Kind: Deployment, Namespace: one.Namespace, Name: one.Name, Replicas: replicasOf(one.Spec.Replicas), Ready: one.Status.ReadyReplicas, Selector: one.Spec.Selector, MinReadySeconds: one.Spec.MinReadySeconds}, &one.Spec.Template, 0)
		}
	}); err != nil {
		return err
	}
	sets := &appsv1.StatefulSetList{}
	if err := r.eachPage(ctx, sets, "StatefulSets", func() {
		for _, one := range sets.Items {
			workload := Workload{Kind: StatefulSet, Namespace: one.Namespace, Name: one.Name, Replicas: replicasOf(one.Spec.Replicas), Ready: one.Status.ReadyReplicas, Selector: one.Spec.Selector, MinReadySeconds: one.Spec.MinReadySeconds, PodManagement: one.Spec.PodManagementPolicy}
			r.addWorkload(workload, &one.Spec.Template, len(one.Spec.VolumeClaimTemplates))
		}
	}); err != nil {
		return err
	}
	daemons := &appsv1.DaemonSetList{}
	return r.eachPage(ctx, daemons, "DaemonSets", func() {
		for _, one := range daemons.Items {
			r.addWorkload(Workload{Kind: DaemonSet, Namespace: one.Namespace, Name: one.Name, Ready: one.Status.NumberReady, Selector: one.Spec.Selector, MinReadySeconds: one.Spec.MinReadySeconds}, &one.Spec.Template, 0)
		}
	})
}

func replicasOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

func (r *reader) addWorkload(workload Workload, template *corev1.PodTemplateSpec, claims int) {
	workload.Pod = podOf(template)
	workload.Pod.PersistentVolumes += claims
	r.inventory.Workloads = append(r.inventory.Workloads, workload)
	r.hasSelectors = r.hasSelectors || workload.Pod.selectsNamespaces()
}

func podOf(template *corev1.PodTemplateSpec) Pod {
	spec := &template.Spec
	pod := Pod{
		Labels: template.Labels, NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, TopologySpreadConstraints: spec.TopologySpreadConstraints,
		Tolerations: spec.Tolerations, PriorityClassName: spec.PriorityClassName, GracePeriodSeconds: spec.TerminationGracePeriodSeconds,
		HostNetwork: spec.HostNetwork, Overhead: spec.Overhead,
	}
	if spec.SchedulerName != corev1.DefaultSchedulerName {
		pod.SchedulerName = spec.SchedulerName
	}
	for index := range spec.Containers {
		pod.Containers = append(pod.Containers, containerOf(&spec.Containers[index]))
	}
	for index := range spec.InitContainers {
		pod.InitContainers = append(pod.InitContainers, containerOf(&spec.InitContainers[index]))
	}
	for _, volume := range spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			pod.PersistentVolumes++
		}
	}
	return pod
}

func containerOf(container *corev1.Container) Container {
	one := Container{
		Requests: container.Resources.Requests, Limits: container.Resources.Limits,
		Sidecar: container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways,
	}
	for _, port := range container.Ports {
		if port.HostPort != 0 {
			one.HostPorts = append(one.HostPorts, HostPort{port.HostPort, port.Protocol, port.HostIP})
		}
	}
	return one
}

// selectsNamespaces reports whether an affinity selects namespaces by their labels.
func (p *Pod) selectsNamespaces() bool {
	for _, term := range p.affinityTerms() {
		if term.NamespaceSelector != nil {
			return true
		}
	}
	return false
}

// affinityTerms are those that select other pods.
func (p *Pod) affinityTerms() (terms []*corev1.PodAffinityTerm) {
	if p.Affinity == nil {
		return nil
	}
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for index := range required {
			terms = append(terms, &required[index])
		}
		for index := range preferred {
			terms = append(terms, &preferred[index].PodAffinityTerm)
		}
	}
	if a := p.Affinity.PodAffinity; a != nil {
		add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Affinity.PodAntiAffinity; a != nil {
		add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return terms
}

func (r *reader) readBudgets(ctx context.Context) error {
	list := &policyv1.PodDisruptionBudgetList{}
	return r.eachPage(ctx, list, "PodDisruptionBudgets", func() {
		for _, one := range list.Items {
			r.inventory.Budgets = append(r.inventory.Budgets, Budget{
				Namespace: one.Namespace, Name: one.Name, Selector: one.Spec.Selector, MinAvailable: one.Spec.MinAvailable,
				MaxUnavailable: one.Spec.MaxUnavailable, UnhealthyPodEvictionPolicy: one.Spec.UnhealthyPodEvictionPolicy,
			})
		}
	})
}

// metadataOf is a list of metadata only: the API server sends nothing else of the objects.
func metadataOf(group, version, kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
	return list
}

// readNamespaces keeps the labels of namespaces, if an affinity may look at them, without those that would refuse pods.
func (r *reader) readNamespaces(ctx context.Context) error {
	if !r.hasSelectors {
		return nil
	}
	list := metadataOf("", "v1", "Namespace")
	return r.eachPage(ctx, list, "namespaces", func() {
		for _, one := range list.Items {
			kept := map[string]string{}
			for key, value := range one.Labels {
				if !strings.HasPrefix(key, "pod-security.kubernetes.io/") && key != corev1.LabelMetadataName {
					kept[key] = value
				}
			}
			if len(kept) > 0 {
				r.inventory.Namespaces = append(r.inventory.Namespaces, Namespace{one.Name, kept})
			}
		}
	})
}

// rehearsedOwners are the kinds that own the pods of a rehearsal. A ReplicaSet is that of a Deployment, as far as is known.
var rehearsedOwners = []string{"ReplicaSet", "StatefulSet", "DaemonSet"}

// readLeftOut counts what a rehearsal does not have. It can do without.
func (r *reader) readLeftOut(ctx context.Context) error {
	left := &r.inventory.LeftOut
	note := func(err error) {
		if err != nil {
			left.NotRead = append(left.NotRead, err.Error())
		}
	}
	pods := metadataOf("", "v1", "Pod")
	note(r.eachPage(ctx, pods, "the owners of pods", func() {
		for index := range pods.Items {
			kind := "none"
			if owner := metav1.GetControllerOf(&pods.Items[index]); owner != nil {
				kind = owner.Kind
			}
			if left.Pods == nil {
				left.Pods = map[string]int{}
			}
			if !slices.Contains(rehearsedOwners, kind) {
				left.Pods[kind]++
			}
		}
	}))
	for kind, version := range map[string]string{"ValidatingWebhookConfiguration": "v1", "MutatingWebhookConfiguration": "v1"} {
		list := metadataOf("admissionregistration.k8s.io", version, kind)
		note(r.eachPage(ctx, list, kind+"s", func() { left.Webhooks += len(list.Items) }))
	}
	scalers := metadataOf("autoscaling", "v2", "HorizontalPodAutoscaler")
	note(r.eachPage(ctx, scalers, "HorizontalPodAutoscalers", func() { left.Autoscalers += len(scalers.Items) }))
	slices.Sort(left.NotRead)
	return ctx.Err()
}
