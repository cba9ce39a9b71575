package agent_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// loosely patches an object past all validation, as an older definition would have accepted it.
func (f *env) loosely(object client.Object, definition, patch string) {
	f.t.Helper()
	f.Expect(f.env.Loosely(context.Background(), func(ctx context.Context) error {
		return f.admin.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
	}, definition)).To(Succeed())
}

func (f *env) merge(object client.Object, patch string) {
	f.t.Helper()
	f.Expect(f.admin.Patch(context.Background(), object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// Edge case: An agent continues beside an undecodable Machine.
func TestAMachineThatCannotBeDecodedStopsNoOther(t *testing.T) {
	f := start(t, "undecodable-1", nil)
	f.accept()
	f.expectThawed()
	bad, good := f.machine("undecodable-bad"), f.machine("undecodable-good")
	badPod, goodPod := &corev1.Pod{}, &corev1.Pod{}
	f.Eventually(f.exists(badPod, hostNamespace, bad.Name)).WithTimeout(agenttest.Wait).Should(Succeed())
	f.Eventually(f.exists(goodPod, hostNamespace, good.Name)).WithTimeout(agenttest.Wait).Should(Succeed())
	f.markNodeReady(f.kubelet(bad.Name), bad.Name)
	f.loosely(bad, "machines.hollowfleet.io", `{"spec":{"timeouts":{"drain":"1 week"}}}`)

	f.Eventually(func() (string, error) {
		code, body := f.get("/readyz")
		if code != http.StatusServiceUnavailable {
			return "", nil
		}
		return body, nil
	}).WithTimeout(agenttest.Wait).Should(ContainSubstring("Machine "+f.cluster+"/"+bad.Name), "the readiness check names it")
	code, body := f.get("/healthz")
	f.Expect(code).To(Equal(http.StatusOK), "the agent must not be started again for it: %s", body)
	f.Eventually(func(g Gomega) {
		list := &eventsv1.EventList{}
		g.Expect(f.admin.List(context.Background(), list, client.InNamespace(f.cluster))).To(Succeed())
		g.Expect(list.Items).To(ContainElement(And(
			HaveField("Reason", v1alpha1.ReasonUndecodable), HaveField("Regarding.Name", bad.Name), HaveField("Note", ContainSubstring("repair it")))))
	}).WithTimeout(agenttest.Wait).Should(Succeed())

	// It is to go, and another freeze comes and goes: the thaw lists the world and tells the hub of each Machine before.
	f.Expect(f.env.Remove(context.Background(), bad)).To(Succeed())
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.exists(cluster, "", f.cluster)()).To(Succeed())
	f.merge(cluster, `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"a test"}}}`)
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(HaveField("Reason", v1alpha1.ReasonManualFreeze))
	f.merge(cluster, `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":null}}}`)
	f.expectThawed()

	// Others are changed, made and removed as always.
	f.merge(good, `{"spec":{"versions":{"kubelet":"v1.36.0"}}}`)
	f.Eventually(func() types.UID {
		pod := &corev1.Pod{}
		_ = f.exists(pod, hostNamespace, good.Name)()
		return pod.UID
	}).WithTimeout(agenttest.Wait).ShouldNot(Or(BeEmpty(), Equal(goodPod.UID)), "its pod is recreated")
	f.machine("undecodable-young")
	f.Eventually(f.exists(&corev1.Pod{}, hostNamespace, "undecodable-young")).WithTimeout(agenttest.Wait).Should(Succeed())
	f.Expect(f.admin.Delete(context.Background(), good)).To(Succeed())
	f.expectGone(&v1alpha1.Machine{}, f.cluster, good.Name)
	f.expectGone(&corev1.Pod{}, hostNamespace, good.Name)

	pod := &corev1.Pod{}
	f.Expect(f.exists(pod, hostNamespace, bad.Name)()).To(Succeed())
	f.Expect(pod.UID).To(Equal(badPod.UID))
	f.Expect(pod.DeletionTimestamp).To(BeNil())
	f.Expect(f.exists(&corev1.Node{}, "", bad.Name)()).To(Succeed())

	f.loosely(bad, "machines.hollowfleet.io", `{"spec":{"timeouts":{"drain":"2h"}}}`)
	f.expectGone(&v1alpha1.Machine{}, f.cluster, bad.Name)
	f.expectGone(&corev1.Pod{}, hostNamespace, bad.Name)
	f.Eventually(func() int { code, _ := f.get("/readyz"); return code }).WithTimeout(agenttest.Wait).Should(Equal(http.StatusOK))
}

// Edge case: An undecodable Cluster seemed an unreachable hub.
func TestAnAgentThatCannotDecodeItsOwnClusterFreezes(t *testing.T) {
	f := start(t, "undecodable-2", func(o *agent.Options) { o.FreezeAfter = 2 * time.Second })
	f.accept()
	f.expectThawed()
	machine := f.machine("undecodable-cluster-m")
	f.Eventually(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)).WithTimeout(agenttest.Wait).Should(Succeed())
	cluster := &v1alpha1.Cluster{ObjectMeta: f.accepted()[0].(*v1alpha1.Cluster).ObjectMeta}
	f.loosely(cluster, "clusters.hollowfleet.io", `{"spec":{"heartbeat":{"graceSeconds":"a while"}}}`)
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(And(
		HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonUndecodable), HaveField("Message", ContainSubstring("repair it"))))
	f.Expect(f.admin.Delete(context.Background(), machine.DeepCopy())).To(Succeed())
	late := f.machine("undecodable-cluster-late")
	probed := f.frozen().Endpoints[0].LastProbe
	f.Eventually(func() time.Time { return f.frozen().Endpoints[0].LastProbe }).WithTimeout(agenttest.Wait).Should(BeTemporally(">", probed.Add(time.Second)))
	f.Expect(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)()).To(Succeed(), "nothing is removed")
	f.Expect(f.exists(&corev1.Pod{}, hostNamespace, late.Name)()).To(Satisfy(apierrors.IsNotFound), "nothing is made")

	f.loosely(cluster, "clusters.hollowfleet.io", `{"spec":{"heartbeat":{"graceSeconds":null}}}`)
	f.expectThawed()
	f.expectGone(&v1alpha1.Machine{}, f.cluster, machine.Name)
	f.Eventually(f.exists(&corev1.Pod{}, hostNamespace, late.Name)).WithTimeout(agenttest.Wait).Should(Succeed())
}
