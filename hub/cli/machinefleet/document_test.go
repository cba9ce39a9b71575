package machinefleet

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// update writes the document of testdata again. A change that is not an addition needs another cmdutil.DocumentVersion.
var update = flag.Bool("update", false, "write testdata/tree.json again")

// Claim: The JSON of `fleet tree` keeps its fields. Broken: a field has another name; the namespace of an object left out.
func TestTheDocumentOfATreeKeepsItsShape(t *testing.T) {
	g := NewWithT(t)
	frozen := []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonManualFreeze, Message: "storage <maintenance>"}}
	broken := []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "NodeNotReady", Message: "the kubelet is silent"}}
	root := newNode(clusters, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}, frozen, "")
	leaf := newNode(machines, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "workers-a"}}, broken, "v1.37.1")
	leaf.Children = []*Node{{Name: "Node/workers-a", Kubelet: "v1.37.0"}}
	root.Children = []*Node{leaf}
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	document := newTreeDocument([]*Node{root}, []string{"MachineSet: you may not list them"}, []string{"Machine as of 11:00:00: you may not watch them"}, at)
	var printed bytes.Buffer
	g.Expect((&cmdutil.DocumentOutput{Format: "json"}).Print(&printed, document)).To(Succeed())
	path := filepath.Join("testdata", "tree.json")
	if *update {
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(path, printed.Bytes(), 0o600)).To(Succeed())
	}
	golden, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(printed.String()).To(Equal(string(golden)))
	g.Expect(newTreeDocument([]*Node{root}, nil, nil, at).Complete).To(BeTrue())
}
