package machinefleet

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// TreeDocument is what "kubectl hollow fleet tree -o json" prints. With --watch there is one in each line, in the order of time.
type TreeDocument struct {
	// apiVersion is "cli.hollowfleet.io/v1".
	APIVersion string `json:"apiVersion"`
	// kind is "Tree".
	Kind string `json:"kind"`
	// time is when the objects were read.
	Time metav1.Time `json:"time"`
	// complete: all kinds were listed, and nothing in the tree is old.
	Complete bool `json:"complete"`
	// leftOut says which kinds were not listed, and why.
	LeftOut []string `json:"leftOut,omitempty"`
	// stale says what in the tree is from earlier, with --watch, and why.
	Stale []string `json:"stale,omitempty"`
	// root is the object that was named.
	Root TreeNode `json:"root"`
}

// TreeNode is an object of a tree.
type TreeNode struct {
	// kind, namespace and name of the object; namespace is absent for a kind without. A Node is one of the workload cluster, of which the hub
	// has no object.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// ready and frozen are the statuses of these conditions: True, False or Unknown; absent without such a condition.
	Ready  string `json:"ready,omitempty"`
	Frozen string `json:"frozen,omitempty"`
	// reason and message are those of Frozen if it is True, or of Ready if it is not; else absent.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// kubelet is the version that the object asks for, or that the Node reports.
	Kubelet string `json:"kubelet,omitempty"`
	// children are the objects that belong to it.
	Children []TreeNode `json:"children,omitempty"`
}

func newTreeDocument(roots []*Node, left, stale []string, now time.Time) TreeDocument {
	document := TreeDocument{
		APIVersion: cmdutil.DocumentVersion, Kind: "Tree", Time: metav1.NewTime(now), Complete: len(left)+len(stale) == 0, LeftOut: left, Stale: stale,
	}
	for _, root := range roots { // There is one.
		document.Root = root.document()
	}
	return document
}

// document is the node with all that is below it.
func (n *Node) document() TreeNode {
	kind, name, _ := strings.Cut(n.Name, "/")
	document := TreeNode{
		Kind: kind, Name: name, Ready: conditionStatus(n.Ready), Frozen: conditionStatus(n.Frozen), Reason: n.Reason, Message: n.Message, Kubelet: n.Kubelet,
	}
	if n.Object != nil {
		document.Namespace = n.Object.GetNamespace()
	}
	for _, child := range n.Children {
		document.Children = append(document.Children, child.document())
	}
	return document
}

// conditionStatus is the status of a condition as formatCondition shows it.
func conditionStatus(shown string) string {
	status, _, _ := strings.Cut(shown, " ")
	return strings.TrimPrefix(status, noCondition)
}
