package machinefleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// smallTree has a fleet of two clusters with three Machines each; one Machine of the second is broken.
func smallTree() []*Node {
	fleet := &Node{Name: "MachineFleet/workers", Ready: "False (ClustersHeld)", Message: "one cluster is held"}
	for _, cluster := range []string{"c1", "c2"} {
		set := &Node{Name: "MachineSet/workers-1", Ready: "True"}
		for i := range 3 {
			set.Children = append(set.Children, &Node{
				Name: fmt.Sprintf("Machine/%s-%d", cluster, i), Ready: "True", Kubelet: "v1.37.1", Children: []*Node{{Name: fmt.Sprintf("Node/%s-%d", cluster, i)}},
			})
		}
		fleet.Children = append(fleet.Children, &Node{Name: "Cluster/" + cluster, Ready: "True", Frozen: "False", Children: []*Node{
			{Name: "MachineDeployment/workers", Ready: "True", Children: []*Node{set}},
		}})
	}
	broken := fleet.Children[1].Children[0].Children[0].Children[1]
	broken.Ready, broken.Message = "False (NodeNotReady)", "the kubelet is silent"
	return []*Node{fleet}
}

func namesOf(roots []*Node) (names []string) {
	for _, root := range roots {
		root.walk("", "", func(n *Node, first, _ string) { names = append(names, first+n.Name) })
	}
	return names
}

// What is fine is counted where a tree has not enough room; what is not is always there.
func TestATreeIsFoldedIntoItsRoom(t *testing.T) {
	g := NewWithT(t)
	g.Expect(namesOf(foldTree(smallTree(), 100))).To(HaveLen(19))
	g.Expect(namesOf(foldTree(smallTree(), 14))).To(And(HaveLen(14), ContainElement("│        └─ Machine/c1-2"), ContainElement(HaveSuffix("Node/c2-1"))))
	g.Expect(namesOf(foldTree(smallTree(), 11))).To(HaveExactElements("MachineFleet/workers",
		"├─ Cluster/c1", "│  └─ MachineDeployment/workers", "│     └─ MachineSet/workers-1", "│        └─ 3 Machines",
		"└─ Cluster/c2", "   └─ MachineDeployment/workers", "      └─ MachineSet/workers-1", "         ├─ Machine/c2-1", HaveSuffix("Node/c2-1"), "         └─ 2 Machines"))
	g.Expect(namesOf(foldTree(smallTree(), 1))).To(HaveExactElements("MachineFleet/workers", "├─ Cluster/c2",
		"│  └─ MachineDeployment/workers", "│     └─ MachineSet/workers-1", "│        ├─ Machine/c2-1", HaveSuffix("Node/c2-1"), "│        └─ 2 Machines", "└─ 1 Cluster"))
	g.Expect(namesOf(smallTree())).To(HaveLen(19), "the tree itself stays")
}

func TestATreeFitsAScreen(t *testing.T) {
	for _, width := range []int{20, 40, 80, 120} {
		g := NewWithT(t)
		view := &treeView{roots: smallTree(), now: time.Unix(0, 0), left: []string{"Machine: you may not list them"}}
		shown := ""
		for _, line := range view.Lines(width, 50) {
			shown += strings.TrimRight(line.Text, " ") + "\n"
		}
		g.Expect(shown).To(ContainSubstring("NodeNotReady"))
		if width >= 40 {
			g.Expect(shown).To(And(ContainSubstring("Machine/c2-1"), MatchRegexp(`the kubelet is`)))
		}
	}
}
