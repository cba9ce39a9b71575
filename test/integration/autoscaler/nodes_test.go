package autoscaler

import (
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

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
