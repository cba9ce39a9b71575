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
}

const group = "hollowfleet.io"

// newAutoscaler: BuildClusterAPI (clusterapi_provider.go), newMachineController and run (clusterapi_controller.go).
func newAutoscaler(ctx context.Context, config *rest.Config, namespace string) *autoscaler {
	GinkgoHelper()
	a := &autoscaler{namespace: namespace}
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
	for gvr, synced := range factory.WaitForCacheSync(ctx.Done()) {
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
			groups[object.GetKind()+"/"+object.GetNamespace()+"/"+object.GetName()] = nodeGroup{object, least, most}
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

// deleteNode: DeleteNodes (clusterapi_nodegroup.go): mark the Machine, then one replica fewer.
func (a *autoscaler) deleteNode(ctx context.Context, g nodeGroup, providerID string) {
	GinkgoHelper()
	replicas := a.replicas(ctx, g)
	Expect(replicas).To(BeNumerically(">", g.least))
	machine := a.findMachine(providerID)
	Expect(machine).NotTo(BeNil())
	a.mark(ctx, machine.GetName())
	Expect(a.setSize(ctx, g, replicas-1)).To(Succeed())
}

// mark: MarkMachineForDeletion (clusterapi_unstructured.go): GET, and PUT of the whole Machine.
func (a *autoscaler) mark(ctx context.Context, machine string) {
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
		annotations[group+"/delete-machine"] = time.Now().String()
		object.SetAnnotations(annotations)
		_, err = machines.Update(ctx, object, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

// findMachine: findMachineByProviderID and indexMachineByProviderID (clusterapi_controller.go): what comes after the
// last '/' counts.
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
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// groupOf: nodeGroupForNode and findScalableResourceByProviderID (clusterapi_controller.go): from the Machine by owner
// to the MachineSet, and by owner to the MachineDeployment.
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
	return found.GetKind() + "/" + found.GetNamespace() + "/" + found.GetName()
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
// (clusterapi_unstructured.go), parse… and getManagedNodeLabelsFromLabels (clusterapi_utils.go).
func (g nodeGroup) templateNode() corev1.Node {
	GinkgoHelper()
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
	for label := range strings.SplitSeq(annotations[prefix+"labels"], ",") {
		key, value, found := strings.Cut(label, "=")
		Expect(found).To(BeTrue(), label)
		node.Labels[key] = value
	}
	for text := range strings.SplitSeq(annotations[prefix+"taints"], ",") {
		pair, effect, found := strings.Cut(text, ":")
		Expect(found).To(BeTrue(), text)
		key, value, _ := strings.Cut(pair, "=")
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return node
}
