package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"

	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// autoscaler sends the requests of cluster-autoscaler's clusterapi provider, started with CAPI_GROUP=hollowfleet.io and
// --node-group-auto-discovery=clusterapi:namespace=<cluster>, and reads the answers as it does.
//
// Each method names the function that it stands in for, in cluster-autoscaler/cloudprovider/clusterapi of
// github.com/kubernetes/autoscaler at commit 55c37cd5eb (2026-08-22). The provider itself cannot be linked: its module
// pins other versions of Kubernetes' libraries, and the libraries of a dozen cloud providers.
type autoscaler struct {
	namespace                      string
	dynamic                        dynamic.Interface
	scales                         scale.ScalesGetter
	machine, set, deployment       schema.GroupVersionResource
	machines, sets, deploymentList cache.GenericLister
	// config is its credential on the hub, and wire where its requests go through.
	config *rest.Config
	wire   *wire
}

const group = "hollowfleet.io"

// newAutoscaler: BuildClusterAPI (clusterapi_provider.go), newMachineController and run (clusterapi_controller.go).
func newAutoscaler(ctx context.Context, config *rest.Config, namespace string) *autoscaler {
	GinkgoHelper()
	a := &autoscaler{namespace: namespace, config: rest.CopyConfig(config), wire: &wire{seen: map[string]bool{}}}
	config = rest.CopyConfig(config)
	config.Wrap(a.wire.through)
	var err error
	a.dynamic, err = dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	a.scales, err = scale.NewForConfig(config, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
		dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(discoverer))
	Expect(err).NotTo(HaveOccurred())

	version := preferredVersion(discoverer)
	served, err := discoverer.ServerResourcesForGroupVersion(group + "/" + version)
	Expect(err).NotTo(HaveOccurred())
	has := func(name string) bool {
		return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
	}
	Expect(has("machinedeployments")).To(BeTrue())
	Expect(has("machinepools")).To(BeFalse(), "the provider would list them")

	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(a.dynamic, 0, namespace, nil)
	inform := func(name string) (schema.GroupVersionResource, cache.GenericLister) {
		gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: name}
		// With an API server that cannot stream it, an informer lists first. The API server learns of a new role binding
		// after a moment. An informer would not say which right is missing.
		Eventually(func() error {
			objects := a.dynamic.Resource(gvr).Namespace(namespace)
			if _, err := objects.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
				return err
			}
			events, err := objects.Watch(ctx, metav1.ListOptions{})
			if err == nil {
				events.Stop()
			}
			return err
		}).Should(Succeed())
		informer := factory.ForResource(gvr)
		informer.Informer()
		return gvr, informer.Lister()
	}
	a.deployment, a.deploymentList = inform("machinedeployments")
	a.set, a.sets = inform("machinesets")
	a.machine, a.machines = inform("machines")
	running, stop := context.WithCancel(context.Background())
	DeferCleanup(func() { stop(); factory.Shutdown() })
	factory.Start(running.Done())
	limited, cancel := context.WithTimeout(ctx, fleettest.Patience)
	defer cancel()
	for gvr, synced := range factory.WaitForCacheSync(limited.Done()) {
		Expect(synced).To(BeTrue(), "%s", gvr)
	}
	return a
}

// preferredVersion: getAPIGroupPreferredVersion (clusterapi_controller.go).
func preferredVersion(discoverer discovery.DiscoveryInterface) string {
	GinkgoHelper()
	groups, err := discoverer.ServerGroups()
	Expect(err).NotTo(HaveOccurred())
	for _, served := range groups.Groups {
		if served.Name == group {
			return served.PreferredVersion.Version
		}
	}
	Fail("the API server does not serve " + group)
	return ""
}

// nodeGroup: nodegroup and unstructuredScalableResource.
type nodeGroup struct {
	*unstructured.Unstructured
	least, most int
}

func (g nodeGroup) id() string { return g.GetKind() + "/" + g.GetNamespace() + "/" + g.GetName() }

// options: autoscalingOptions (clusterapi_utils.go), read from the group itself: from an owned set it reads none.
func (g nodeGroup) options() map[string]string {
	options := map[string]string{}
	for key, value := range g.GetAnnotations() {
		if name, found := strings.CutPrefix(key, group+"/autoscaling-options-"); found && name != "" && value != "" {
			options[name] = strings.ToLower(value)
		}
	}
	return options
}

// nodeGroups: nodeGroups and listScalableResources (clusterapi_controller.go), newNodeGroupFromScalableResource
// (clusterapi_nodegroup.go), isScalableResourceAndPaused (clusterapi_unstructured.go). The first error ends it.
func (a *autoscaler) nodeGroups() (map[string]nodeGroup, error) {
	groups := map[string]nodeGroup{}
	for _, lister := range []cache.GenericLister{a.sets, a.deploymentList} {
		for _, object := range a.list(lister, labels.Everything()) {
			if object.GetKind() == "MachineSet" && ownerOf(object, "MachineDeployment") != "" {
				continue
			}
			least, most, err := bounds(object.GetAnnotations())
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
			replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
			if err != nil {
				return nil, err
			}
			_, paused := object.GetAnnotations()["cluster.x-k8s.io/paused"]
			if found && replicas == 0 && !canScaleFromZero(object) || most == 0 || paused {
				continue
			}
			listed := nodeGroup{object, least, most}
			groups[listed.id()] = listed
		}
	}
	return groups, nil
}

// list: listResources (clusterapi_controller.go).
func (a *autoscaler) list(lister cache.GenericLister, selector labels.Selector) []*unstructured.Unstructured {
	GinkgoHelper()
	objects, err := lister.ByNamespace(a.namespace).List(selector)
	Expect(err).NotTo(HaveOccurred())
	var list []*unstructured.Unstructured
	for _, object := range objects {
		list = append(list, object.(*unstructured.Unstructured).DeepCopy())
	}
	return list
}

// ownerOf: getOwnerForKind (clusterapi_utils.go).
func ownerOf(object *unstructured.Unstructured, kind string) string {
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == kind {
			return owner.Name
		}
	}
	return ""
}

// bounds: parseScalingBounds (clusterapi_utils.go).
func bounds(annotations map[string]string) (least, most int, err error) {
	read := func(name string) (int, error) {
		value, found := annotations[group+"/cluster-api-autoscaler-node-group-"+name+"-size"]
		if !found {
			return 0, nil
		}
		return strconv.Atoi(value)
	}
	if least, err = read("min"); err != nil {
		return 0, 0, err
	}
	if most, err = read("max"); err != nil {
		return 0, 0, err
	}
	if least < 0 || most < least {
		return 0, 0, fmt.Errorf("invalid bounds %d and %d", least, most)
	}
	return least, most, nil
}

// targetSize: TargetSize (clusterapi_nodegroup.go).
func (g nodeGroup) targetSize() int64 {
	replicas, found, err := unstructured.NestedInt64(g.Object, "spec", "replicas")
	if err != nil || !found {
		return -1
	}
	return replicas
}

func (a *autoscaler) resource(g nodeGroup) schema.GroupVersionResource {
	if g.GetKind() == "MachineSet" {
		return a.set
	}
	return a.deployment
}

// replicas: Replicas (clusterapi_unstructured.go): GET of the scale subresource.
func (a *autoscaler) replicas(ctx context.Context, g nodeGroup) int {
	GinkgoHelper()
	found, err := a.scales.Scales(a.namespace).Get(ctx, a.resource(g).GroupResource(), g.GetName(), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return int(found.Spec.Replicas)
}

// setSize: SetSize (clusterapi_unstructured.go): a merge patch of the scale subresource with replicas alone, also 0.
func (a *autoscaler) setSize(ctx context.Context, g nodeGroup, size int) error {
	if size > g.most || size < g.least {
		return fmt.Errorf("size %d is not from %d to %d", size, g.least, g.most)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": size}})
	if err != nil {
		return err
	}
	_, err = a.scales.Scales(a.namespace).Patch(ctx, a.resource(g), g.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// increase: IncreaseSize (clusterapi_nodegroup.go).
func (a *autoscaler) increase(ctx context.Context, g nodeGroup, delta int) {
	GinkgoHelper()
	Expect(a.setSize(ctx, g, a.replicas(ctx, g)+delta)).To(Succeed())
}

// decrease: DecreaseTargetSize (clusterapi_nodegroup.go): it gives up what has not come, marks nothing, and never goes
// below the number of Machines that are nodes.
func (a *autoscaler) decrease(ctx context.Context, g nodeGroup, delta int) error {
	size, nodes := a.replicas(ctx, g)-delta, 0
	for _, id := range a.instances(g) {
		if _, made := madeUp(id); !made {
			nodes++
		}
	}
	if size < nodes {
		return fmt.Errorf("size %d is less than %d nodes", size, nodes)
	}
	return a.setSize(ctx, g, size)
}

// deleteNodes: DeleteNodes (clusterapi_nodegroup.go): for each, mark the Machine, then one replica fewer; if that
// fails, take the mark off again.
func (a *autoscaler) deleteNodes(ctx context.Context, g nodeGroup, providerIDs ...string) error {
	GinkgoHelper()
	replicas := a.replicas(ctx, g)
	if replicas-len(providerIDs) < g.least {
		return fmt.Errorf("%d fewer of %d is less than %d", len(providerIDs), replicas, g.least)
	}
	for _, id := range providerIDs {
		if of := a.groupOf(id); of != g.id() {
			return fmt.Errorf("%s is not of %s but of %q", id, g.id(), of)
		}
	}
	for _, id := range providerIDs {
		machine := a.findMachine(id)
		Expect(machine).NotTo(BeNil())
		if machine.GetDeletionTimestamp() != nil {
			continue
		}
		a.mark(ctx, machine.GetName())
		if err := a.setSize(ctx, g, replicas-1); err != nil {
			a.unmark(ctx, machine.GetName())
			return err
		}
		replicas--
	}
	return nil
}

// mark: MarkMachineForDeletion (clusterapi_unstructured.go).
func (a *autoscaler) mark(ctx context.Context, machine string) {
	GinkgoHelper()
	a.annotate(ctx, machine, func(annotations map[string]string) {
		annotations[group+"/delete-machine"] = time.Now().String()
	})
}

// unmark: UnmarkMachineForDeletion (clusterapi_unstructured.go).
func (a *autoscaler) unmark(ctx context.Context, machine string) {
	GinkgoHelper()
	a.annotate(ctx, machine, func(annotations map[string]string) { delete(annotations, group+"/delete-machine") })
}

// annotate is a GET, and a PUT of the whole Machine.
func (a *autoscaler) annotate(ctx context.Context, machine string, change func(map[string]string)) {
	GinkgoHelper()
	machines := a.dynamic.Resource(a.machine).Namespace(a.namespace)
	Eventually(func() error {
		object, err := machines.Get(ctx, machine, metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		change(annotations)
		object.SetAnnotations(annotations)
		_, err = machines.Update(ctx, object, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

// findMachine: findMachineByProviderID and indexMachineByProviderID (clusterapi_controller.go): what comes after the
// last '/' counts. A Machine that is not a node has an ID with its namespace and name.
func (a *autoscaler) findMachine(providerID string) *unstructured.Unstructured {
	GinkgoHelper()
	last := func(id string) string { return id[strings.LastIndex(id, "/")+1:] }
	var found []*unstructured.Unstructured
	for _, machine := range a.list(a.machines, labels.Everything()) {
		id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID")
		if id != "" && last(id) == last(providerID) {
			found = append(found, machine)
		}
	}
	Expect(len(found)).To(BeNumerically("<=", 1), "provider IDs must differ after the last slash")
	if len(found) == 1 {
		return found[0]
	}
	if key, made := madeUp(providerID); made {
		return a.machineOf(key)
	}
	return nil
}

// madeUp: isProviderIDNormalized and machineKeyFrom…ProviderID (clusterapi_controller.go): the namespace and name in the
// ID of a Machine that is not a node.
func madeUp(providerID string) (key string, made bool) {
	for _, state := range []string{"deleting", "failed", "pending"} {
		if place, found := strings.CutPrefix(providerID, state+"-machine-"); found {
			return strings.Replace(place, "_", "/", 1), true
		}
	}
	return "", false
}

// machineOf: findMachine (clusterapi_controller.go), by namespace/name.
func (a *autoscaler) machineOf(key string) *unstructured.Unstructured {
	GinkgoHelper()
	namespace, name, _ := strings.Cut(key, "/")
	found, err := a.machines.ByNamespace(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return found.(*unstructured.Unstructured).DeepCopy()
}

// hasInstance: HasInstance (clusterapi_provider.go): by two annotations of the Node.
func (a *autoscaler) hasInstance(node *corev1.Node) bool {
	GinkgoHelper()
	return a.machineOf(node.Annotations[group+"/cluster-namespace"]+"/"+node.Annotations[group+"/machine"]) != nil
}

// groupOf: nodeGroupForNode and findScalableResourceByProviderID (clusterapi_controller.go): from the Machine by owner
// to the MachineSet, and by owner to the MachineDeployment. What is paused is of no group.
func (a *autoscaler) groupOf(providerID string) string {
	GinkgoHelper()
	machine := a.findMachine(providerID)
	if machine == nil {
		return ""
	}
	set, err := a.sets.ByNamespace(a.namespace).Get(ownerOf(machine, "MachineSet"))
	Expect(err).NotTo(HaveOccurred())
	found := set.(*unstructured.Unstructured)
	if name := ownerOf(found, "MachineDeployment"); name != "" {
		deployment, err := a.deploymentList.ByNamespace(a.namespace).Get(name)
		Expect(err).NotTo(HaveOccurred())
		found = deployment.(*unstructured.Unstructured)
	}
	if _, paused := found.GetAnnotations()["cluster.x-k8s.io/paused"]; paused {
		return ""
	}
	return nodeGroup{Unstructured: found}.id()
}

// instances: Nodes (clusterapi_nodegroup.go), findScalableResourceProviderIDs and listMachinesForScalableResource
// (clusterapi_controller.go): Machines by the selector of the spec and the cluster's name, each failed, deleting,
// pending or running, in this order.
func (a *autoscaler) instances(g nodeGroup) []string {
	GinkgoHelper()
	raw, found, err := unstructured.NestedMap(g.Object, "spec", "selector")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	typed := &metav1.LabelSelector{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(raw, typed)).To(Succeed())
	selector, err := metav1.LabelSelectorAsSelector(typed)
	Expect(err).NotTo(HaveOccurred())
	instances := []string{}
	for _, machine := range a.list(a.machines, selector) {
		if clusterOf(machine) != clusterOf(g.Unstructured) {
			continue
		}
		place := machine.GetNamespace() + "_" + machine.GetName()
		_, failure, err := unstructured.NestedString(machine.Object, "status", "failureMessage")
		Expect(err).NotTo(HaveOccurred())
		phase, _, err := unstructured.NestedString(machine.Object, "status", "phase")
		Expect(err).NotTo(HaveOccurred())
		_, node, err := unstructured.NestedFieldCopy(machine.Object, "status", "nodeRef")
		Expect(err).NotTo(HaveOccurred())
		id, _, err := unstructured.NestedString(machine.Object, "spec", "providerID")
		Expect(err).NotTo(HaveOccurred())
		switch {
		case failure && phase == "Failed":
			instances = append(instances, "failed-machine-"+place)
		case machine.GetDeletionTimestamp() != nil:
			instances = append(instances, "deleting-machine-"+place)
		case !node:
			instances = append(instances, "pending-machine-"+place)
		default:
			instances = append(instances, id)
		}
	}
	slices.Sort(instances)
	return instances
}

// clusterOf: clusterNameFromResource (clusterapi_utils.go).
func clusterOf(object *unstructured.Unstructured) string {
	if name, found, _ := unstructured.NestedString(object.Object, "spec", "clusterName"); found {
		return name
	}
	return object.GetLabels()[group+"/cluster-name"]
}

// rollingOut: IsMachineDeploymentAndRollingOut (clusterapi_nodegroup.go) and listMachineSetsForMachineDeployment
// (clusterapi_controller.go).
func (a *autoscaler) rollingOut(g nodeGroup) bool {
	GinkgoHelper()
	sets := a.list(a.sets, labels.SelectorFromSet(labels.Set{"cluster.x-k8s.io/deployment-name": g.GetName()}))
	revision := func(set *unstructured.Unstructured) int {
		text := set.GetAnnotations()["machinedeployment.clusters.x-k8s.io/revision"]
		number, err := strconv.Atoi(text)
		Expect(err).NotTo(HaveOccurred(), "revision of %s", set.GetName())
		return number
	}
	latest := 0
	for _, set := range sets {
		latest = max(latest, revision(set))
	}
	for _, set := range sets {
		wanted, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
		there, _, _ := unstructured.NestedInt64(set.Object, "status", "replicas")
		if revision(set) != latest && (wanted > 0 || there > 0) {
			return true
		}
	}
	return false
}

const prefix = "capacity.cluster-autoscaler.kubernetes.io/"

// canScaleFromZero: CanScaleFromZero (clusterapi_unstructured.go).
func canScaleFromZero(object *unstructured.Unstructured) bool {
	for _, name := range []string{"cpu", "memory"} {
		quantity, err := resource.ParseQuantity(object.GetAnnotations()[prefix+name])
		if err != nil || quantity.IsZero() {
			return false
		}
	}
	return true
}

// templateNode: TemplateNodeInfo (clusterapi_nodegroup.go), InstanceCapacity, Labels and Taints
// (clusterapi_unstructured.go), parse… and getManagedNodeLabelsFromLabels (clusterapi_utils.go). Annotations win over
// the template.
func (g nodeGroup) templateNode() corev1.Node {
	GinkgoHelper()
	_, found, err := unstructured.NestedStringMap(g.Object, "spec", "template", "spec", "infrastructureRef")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeFalse(), "the provider would list and watch what it refers to, and its role does not let it")
	annotations := g.GetAnnotations()
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{}}}
	for name, resourceName := range map[string]corev1.ResourceName{
		"cpu": corev1.ResourceCPU, "memory": corev1.ResourceMemory, "ephemeral-disk": corev1.ResourceEphemeralStorage,
	} {
		quantity, err := resource.ParseQuantity(annotations[prefix+name])
		Expect(err).NotTo(HaveOccurred(), name)
		node.Status.Capacity[resourceName] = quantity
	}
	for name, resourceName := range map[string]corev1.ResourceName{
		"maxPods": corev1.ResourcePods, "gpu-count": corev1.ResourceName(annotations[prefix+"gpu-type"]),
	} {
		number, err := strconv.ParseInt(annotations[prefix+name], 10, 0)
		Expect(err).NotTo(HaveOccurred(), name)
		node.Status.Capacity[resourceName] = *resource.NewQuantity(number, resource.DecimalSI)
	}
	g.readTemplate(&node)
	for label := range strings.SplitSeq(annotations[prefix+"labels"], ",") {
		key, value, found := strings.Cut(label, "=")
		Expect(found).To(BeTrue(), label)
		node.Labels[key] = value
	}
	for text := range strings.SplitSeq(annotations[prefix+"taints"], ",") {
		pair, effect, found := strings.Cut(text, ":")
		Expect(found).To(BeTrue(), text)
		key, value, _ := strings.Cut(pair, "=")
		taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		node.Spec.Taints = append(slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }), taint)
	}
	return node
}

// readTemplate takes the taints of the template, and those labels that are of a domain of Cluster API's.
func (g nodeGroup) readTemplate(node *corev1.Node) {
	GinkgoHelper()
	fromTemplate, _, err := unstructured.NestedStringMap(g.Object, "spec", "template", "spec", "metadata", "labels")
	Expect(err).NotTo(HaveOccurred())
	for key, value := range fromTemplate {
		domain, _, _ := strings.Cut(key, "/")
		for _, managed := range []string{"node-role.kubernetes.io", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io"} {
			if domain == managed || managed != "node-role.kubernetes.io" && strings.HasSuffix(domain, "."+managed) {
				node.Labels[key] = value
			}
		}
	}
	taints, _, err := unstructured.NestedSlice(g.Object, "spec", "template", "spec", "taints")
	Expect(err).NotTo(HaveOccurred())
	for _, raw := range taints {
		var taint corev1.Taint
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(raw.(map[string]any), &taint)).To(Succeed())
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
}
