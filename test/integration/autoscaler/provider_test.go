package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
