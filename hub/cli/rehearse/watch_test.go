package rehearse

import (
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// A rehearsal sees the shortest drain, and what held it.
func TestAShortDrainIsSeenWithWhatHeldIt(t *testing.T) {
	const drains, held = 6, 60 * time.Millisecond
	g, server := NewWithT(t), testenv.Server()
	namespace := testenv.Name()
	apply := func(object client.Object) {
		t.Helper()
		g.Expect(server.Client.Create(t.Context(), object)).To(Succeed())
	}
	apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	labels := map[string]string{"app": namespace}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxUnavailable: new(intstr.FromInt32(1)),
	}}
	apply(budget)
	var machines []*v1alpha1.Machine
	var pods []*corev1.Pod
	for i := range drains {
		machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", namespace, i), Finalizers: []string{v1alpha1.MachineFinalizer}}}
		machine.Spec.ClusterName, machine.Spec.ProviderConfig.ValueRef = namespace, &v1alpha1.MachineClassReference{Name: "small"}
		apply(machine)
		machine.Status.NodeRef = &v1alpha1.NodeReference{Kind: "Node", Name: machine.Name, UID: "u"}
		g.Expect(server.Client.Status().Update(t.Context(), machine)).To(Succeed())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: machine.Name, Labels: labels}, Spec: corev1.PodSpec{
			NodeName: machine.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(0)),
		}}
		apply(pod)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		g.Expect(server.Client.Status().Update(t.Context(), pod)).To(Succeed())
		machines, pods = append(machines, machine), append(pods, pod)
	}
	kubeconfig := server.Cluster.AdminKubeconfig()
	g.Expect(os.Stat(kubeconfig)).Error().NotTo(HaveOccurred())
	hub, err := client.NewWithWatch(server.Config, client.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	w := newWatcher(t.Context(), hub, namespace, func() string { return kubeconfig })
	go w.run(t.Context())
	g.Expect(w.await(t.Context(), func(s *observe.Sample) (bool, error) { return s.Answered && len(s.Machines) == drains, nil })).To(Succeed())
	g.Expect(w.startTimeline()).To(Succeed())
	for i, machine := range machines {
		g.Expect(server.Client.Delete(t.Context(), machine)).To(Succeed())
		<-time.After(held)
		g.Expect(server.Client.Delete(t.Context(), pods[i], client.GracePeriodSeconds(0))).To(Succeed())
		g.Expect(server.Client.Patch(t.Context(), machine, client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	}
	g.Expect(w.await(t.Context(), func(s *observe.Sample) (bool, error) { return len(s.Machines) == 0, nil })).To(Succeed())
	_, timeline := w.endTimeline()
	g.Expect(timeline.Drains).To(HaveLen(drains))
	for i, drain := range timeline.Drains {
		g.Expect(drain.Node).To(Equal(machines[i].Name), "drains are in their order")
		g.Expect(drain.Outcome).To(Equal(observe.Drained), drain.Message)
		g.Expect(drain.Blocked).To(HaveKeyWithValue(namespace+"/web", BeNumerically(">=", held/2)), drain.Node)
	}
}
