package node

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// bring reads the Node as the agent's cache would hold it and brings it in line, again after a conflict with the
// control plane's own controllers. It returns what there was to change the first time.
func bring(g *WithT, c client.Client, machine *v1alpha1.Machine) (node *corev1.Node, first Changes) {
	node = &corev1.Node{}
	key := client.ObjectKey{Name: machine.Name}
	attempts := 0
	g.Eventually(func() error {
		if err := c.Get(context.Background(), key, node); err != nil {
			return err
		}
		shrunk, err := Shrink(node)
		if err != nil {
			return err
		}
		desired := DesiredOf(machine, true)
		changes, err := ChangesOf(shrunk.(*corev1.Node), desired)
		if attempts++; attempts == 1 {
			first = changes
		}
		if err != nil || !changes.Any() {
			return err
		}
		_, err = Sync(context.Background(), c, shrunk.(*corev1.Node), desired, changes)
		return err
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "updating the node")
	g.Expect(c.Get(context.Background(), key, node)).To(Succeed())
	return node, first
}

func TestSync(t *testing.T) {
	g := NewWithT(t)
	c := agenttest.Environment(t).Client
	machine := agenttest.Machine("c1", "sync-1")
	machine.Spec.NodeMetadata = v1alpha1.NodeMetadata{
		Labels: map[string]string{"tier": "gold", "zone": "a"}, Annotations: map[string]string{"note": "hello"},
	}
	machine.Spec.Roles = []string{"worker"}
	machine.Spec.Taints = []corev1.Taint{taint("ours", "1", corev1.TaintEffectNoSchedule)}

	// The kubelet registers with labels and a taint of the Machine; others add theirs.
	registered := &corev1.Node{}
	registered.Name = machine.Name
	registered.Labels = map[string]string{"tier": "gold", "zone": "a", "theirs": "1"}
	registered.Spec.Taints = []corev1.Taint{
		taint("ours", "1", corev1.TaintEffectNoSchedule), taint("theirs", "", corev1.TaintEffectNoExecute),
	}
	g.Expect(c.Create(context.Background(), registered, client.FieldOwner("kubelet"))).To(Succeed())

	node, _ := bring(g, c, machine)
	g.Expect(node.Labels).To(And(
		HaveKeyWithValue("tier", "gold"), HaveKeyWithValue("theirs", "1"),
		HaveKeyWithValue("node-role.kubernetes.io/worker", ""), HaveKeyWithValue(v1alpha1.HollowNodeLabel, "true"),
	))
	g.Expect(node.Annotations).To(And(
		HaveKeyWithValue("note", "hello"), HaveKeyWithValue(v1alpha1.NodeMachineAnnotation, "sync-1"),
		HaveKeyWithValue(v1alpha1.NodeClusterNamespaceAnnotation, "c1"),
	))

	_, changes := bring(g, c, machine)
	g.Expect(changes.Any()).To(BeFalse(), "a Node in line is not written again: %+v", changes)

	machine.Spec.NodeMetadata.Labels = map[string]string{"tier": "silver"}
	machine.Spec.NodeMetadata.Annotations = nil
	machine.Spec.Roles = nil
	machine.Spec.Taints = []corev1.Taint{taint("new", "", corev1.TaintEffectNoSchedule)}
	node, _ = bring(g, c, machine)
	g.Expect(node.Labels).To(And(
		HaveKeyWithValue("tier", "silver"), HaveKeyWithValue("theirs", "1"),
		Not(HaveKey("zone")), Not(HaveKey("node-role.kubernetes.io/worker")),
	), "a label that the kubelet registered with goes too when the Machine no longer has it")
	g.Expect(node.Annotations).NotTo(HaveKey("note"))
	g.Expect(node.Spec.Taints).To(ContainElements(
		HaveField("Key", "new"), HaveField("Key", "theirs"),
	))
	g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", "ours")))
	_, changes = bring(g, c, machine)
	g.Expect(changes.Any()).To(BeFalse(), "a Node in line is not written again: %+v", changes)
}

func TestSyncMakesNoNode(t *testing.T) {
	g := NewWithT(t)
	c := agenttest.Environment(t).Client
	machine := agenttest.Machine("c1", "sync-gone")
	node := &corev1.Node{}
	node.Name = machine.Name
	g.Expect(c.Create(context.Background(), node)).To(Succeed())
	g.Expect(c.Delete(context.Background(), node.DeepCopy())).To(Succeed())

	_, err := Sync(context.Background(), c, node, DesiredOf(machine, true), Changes{Apply: true})
	g.Expect(err).To(HaveOccurred())
	err = c.Get(context.Background(), client.ObjectKeyFromObject(node), &corev1.Node{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "bringing a Node in line that is gone has made it again: %v", err)
}

func TestSyncDoesNotOverwriteTaintsThatItHasNotSeen(t *testing.T) {
	g := NewWithT(t)
	c := agenttest.Environment(t).Client
	machine := agenttest.Machine("c1", "sync-race")
	machine.Spec.Taints = []corev1.Taint{taint("ours", "", corev1.TaintEffectNoSchedule)}
	node := &corev1.Node{}
	node.Name = machine.Name
	g.Expect(c.Create(context.Background(), node)).To(Succeed())
	stale := node.DeepCopy()
	theirs := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"taints":[{"key":"theirs","effect":"NoSchedule"}]}}`))
	g.Expect(c.Patch(context.Background(), node, theirs)).To(Succeed())

	desired := DesiredOf(machine, true)
	changes, err := ChangesOf(stale, desired)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = Sync(context.Background(), c, stale, desired, changes)
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "want a conflict, got %v", err)
}
