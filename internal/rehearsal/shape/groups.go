// Package shape makes of an inventory the objects of a simulated cluster of the same shape, and says what is different in it.
package shape

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
)

const (
	// mostLabels is how many labels the template of a Machine takes, and longestName how long the name of a MachineDeployment may be.
	mostLabels, longestName = 64, 40
	// leastUnique is from how many Nodes on a label with another value on each tells of the Node alone.
	leastUnique = 3
	// tolerance is by how many percent the memory of equal Nodes may differ: kernels leave a little more or less of it.
	tolerance = 5
	// controlPlaneRole is the role of Nodes that are upgraded with the control plane.
	controlPlaneRole = "node-role.kubernetes.io/control-plane"
)

// Group is a number of Nodes that are equal in all that pods are placed by.
type Group struct {
	Name        string              `json:"name"`
	Nodes       int                 `json:"nodes"`
	Kubelet     string              `json:"kubelet"`
	Labels      map[string]string   `json:"labels,omitempty"`
	Taints      []corev1.Taint      `json:"taints,omitempty"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}

// poolLabels name the pool of a Node, in the order in which they are looked for.
var poolLabels = []string{
	"cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool",
	"node.kubernetes.io/pool", "pool", corev1.LabelInstanceTypeStable,
}

// groupNodes makes groups of the Nodes that are Ready, in the order in which they are upgraded, and notes what they lose.
func groupNodes(i *inventory.Inventory) (groups []Group, notes []string) {
	keep, notes := keptLabels(i)
	silent, cordoned := 0, 0
	byKey := map[string][]Group{}
	for index := range i.Nodes {
		node := &i.Nodes[index]
		if !node.Ready {
			silent++
			continue
		}
		if node.Cordoned {
			cordoned++
		}
		one := Group{Nodes: 1, Kubelet: node.Kubelet, Labels: map[string]string{}, Taints: sortedTaints(node.Taints), Allocatable: knownResources(node.Allocatable)}
		for key, value := range node.Labels {
			if keep[key] {
				one.Labels[renameKey(key)] = value
			}
		}
		byKey[one.key()] = append(byKey[one.key()], one)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		groups = append(groups, mergeAlike(byKey[key])...)
	}
	nameGroups(groups)
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(roleOrder(&a), roleOrder(&b)), cmp.Compare(a.Name, b.Name))
	})
	if silent > 0 {
		notes = append(notes, fmt.Sprintf("%s not Ready and left out", plural.Are(silent, "Node")))
	}
	if cordoned > 0 {
		notes = append(notes, fmt.Sprintf("%s cordoned in the cluster and takes pods in the rehearsal", plural.Are(cordoned, "Node")))
	}
	return groups, notes
}

// roleOrder puts Nodes of the control plane first.
func roleOrder(g *Group) int {
	if _, has := g.Labels[controlPlaneRole]; has {
		return 0
	}
	return 1
}

// keptLabels are the keys that Nodes keep. Left out are those that Hollowfleet sets, the host name, and those that only tell one Node from
// another, unless a pod is placed by them.
func keptLabels(i *inventory.Inventory) (keep map[string]bool, notes []string) {
	used := map[string]bool{}
	for index := range i.Workloads {
		for _, key := range i.Workloads[index].Pod.NodeLabelKeys() {
			used[key] = true
		}
	}
	unique := uniqueLabels(i.Nodes)
	keep = map[string]bool{}
	var dropped []string
	for _, key := range slices.Sorted(maps.Keys(unique)) {
		switch {
		case key == corev1.LabelHostname, strings.HasPrefix(key, "hollowfleet.io/"), isReserved(key) && !used[key]:
		case unique[key] && !used[key] && !strings.HasPrefix(key, "topology.kubernetes.io/"):
			dropped = append(dropped, key)
		default:
			keep[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keep)) {
		if len(keep) > mostLabels && !used[key] && !slices.Contains(poolLabels, key) {
			delete(keep, key)
			dropped = append(dropped, key)
		}
	}
	if len(dropped) > 0 {
		notes = append(notes, "Node labels left out, because no pod is placed by them and they differ from Node to Node or are too many: "+strings.Join(dropped, ", "))
	}
	return keep, notes
}

// uniqueLabels says of each key whether it has another value on every Node that has it.
func uniqueLabels(all []inventory.Node) map[string]bool {
	values, nodes := map[string]map[string]bool{}, map[string]int{}
	for index := range all {
		for key, value := range all[index].Labels {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][value] = true
			nodes[key]++
		}
	}
	unique := map[string]bool{}
	for key := range values {
		unique[key] = nodes[key] >= leastUnique && len(values[key]) == nodes[key]
	}
	return unique
}

func sortedTaints(taints []corev1.Taint) []corev1.Taint {
	sorted := slices.Clone(taints)
	slices.SortFunc(sorted, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.CompactFunc(sorted, func(a, b corev1.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect })
}

// knownResources are those that a hollow Node can have.
func knownResources(list corev1.ResourceList) corev1.ResourceList {
	known := corev1.ResourceList{}
	for name, quantity := range list {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, name == corev1.ResourcePods, isExtended(name):
			known[name] = quantity
		}
	}
	return known
}

// isExtended reports whether a resource is one that others than Kubernetes bring.
func isExtended(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

// approximate are resources that differ a little between equal Nodes.
var approximate = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// key is the same for Nodes that differ in memory and storage only.
func (g *Group) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s|", g.Kubelet)
	for _, key := range slices.Sorted(maps.Keys(g.Labels)) {
		fmt.Fprintf(&b, "%s=%s,", key, g.Labels[key])
	}
	fmt.Fprintf(&b, "|%v|", g.Taints)
	for _, name := range slices.Sorted(maps.Keys(g.Allocatable)) {
		if quantity := g.Allocatable[name]; !slices.Contains(approximate, name) {
			fmt.Fprintf(&b, "%s=%d,", name, quantity.MilliValue())
		}
	}
	return b.String()
}

// mergeAlike makes one group of Nodes with about the same memory and storage. It gets the least of them.
func mergeAlike(nodes []Group) (groups []Group) {
	size := func(g *Group, name corev1.ResourceName) int64 { q := g.Allocatable[name]; return q.Value() }
	slices.SortStableFunc(nodes, func(a, b Group) int {
		return cmp.Or(cmp.Compare(size(&a, approximate[0]), size(&b, approximate[0])), cmp.Compare(size(&a, approximate[1]), size(&b, approximate[1])))
	})
	for index := range nodes {
		node := &nodes[index]
		at := slices.IndexFunc(groups, func(g Group) bool {
			return !slices.ContainsFunc(approximate, func(name corev1.ResourceName) bool {
				low, high := min(size(&g, name), size(node, name)), max(size(&g, name), size(node, name))
				return (high-low)*100 > high*tolerance
			})
		})
		if at < 0 {
			groups = append(groups, *node)
			continue
		}
		groups[at].Nodes++
		for _, name := range approximate {
			if least := min(size(&groups[at], name), size(node, name)); least > 0 {
				groups[at].Allocatable[name] = *resource.NewQuantity(least, resource.BinarySI)
			}
		}
	}
	return groups
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// nameGroups names groups by their pool, and numbers those of the same one.
func nameGroups(groups []Group) {
	count, number := map[string]int{}, map[string]int{}
	for index := range groups {
		groups[index].Name = poolOf(&groups[index])
		count[groups[index].Name]++
	}
	for index := range groups {
		if base := groups[index].Name; count[base] > 1 {
			number[base]++
			groups[index].Name = fmt.Sprintf("%s-%d", base, number[base])
		}
	}
}

func poolOf(g *Group) string {
	name := "nodes"
	if _, isControlPlane := g.Labels[controlPlaneRole]; isControlPlane {
		name = "control-plane"
	}
	for _, key := range poolLabels {
		if value := g.Labels[key]; value != "" {
			name = value
			break
		}
	}
	name = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(name) > longestName-4 {
		name = strings.Trim(name[:longestName-4], "-")
	}
	return cmp.Or(name, "nodes")
}
