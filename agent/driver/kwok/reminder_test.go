package kwok

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestPodsAreOverlookedWhenTheyWait(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ago := func(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }
	pending := func(age time.Duration) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
		pod.CreationTimestamp = ago(age)
		return pod
	}
	running := func(age time.Duration) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(ago(age))}}
	}
	deleted := func(age time.Duration, grace int64) *corev1.Pod {
		pod := running(time.Hour)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(ago(age-time.Duration(grace)*time.Second)), &grace
		return pod
	}
	with := func(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod { change(pod); return pod }
	reminded := func(pod *corev1.Pod, age time.Duration) *corev1.Pod {
		pod.Annotations = map[string]string{v1alpha1.KwokRemindedAtAnnotation: ago(age).UTC().Format(time.RFC3339)}
		return pod
	}
	scheduled := func(age time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(age)}}
		}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"pending":                             {pending(15 * time.Second), true},
		"pending for a moment":                {pending(14 * time.Second), false},
		"old, scheduled just now":             {with(pending(time.Hour), scheduled(time.Second)), false},
		"old, scheduled a while ago":          {with(pending(time.Hour), scheduled(time.Minute)), true},
		"running":                             {running(time.Hour), false},
		"running of a Job":                    {with(running(time.Minute), func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}} }), true},
		"completed":                           {with(running(time.Minute), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), false},
		"deleted":                             {deleted(20*time.Second, 30), true},
		"deleted just now":                    {deleted(5*time.Second, 30), false},
		"deleted, held by others":             {with(deleted(time.Minute, 0), func(p *corev1.Pod) { p.Finalizers = []string{"x"} }), false},
		"deleted, held and not yet removed":   {with(deleted(time.Minute, 30), func(p *corev1.Pod) { p.Finalizers = []string{"x"} }), true},
		"reminded of just now":                {reminded(pending(time.Minute), 5*time.Second), false},
		"reminded of long ago":                {reminded(pending(time.Minute), 40*time.Second), true},
		"reminded of for the third time":      {reminded(pending(3*time.Minute), time.Minute), false},
		"the longest wait":                    {reminded(pending(10*time.Hour), 5*time.Minute), true},
		"reminded of, and deleted afterwards": {reminded(deleted(20*time.Second, 30), 25*time.Second), true},
		"an annotation of the future":         {reminded(pending(time.Minute), -time.Hour), true},
		"an annotation that is not a time": {with(pending(time.Minute), func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.KwokRemindedAtAnnotation: "soon"}
		}), true},
	} {
		NewWithT(t).Expect(isOverlooked(test.pod, now)).To(Equal(test.want), name)
	}
}

// agentClient has the rights of an agent.
func agentClient(t *testing.T) client.Client {
	t.Helper()
	server := agenttest.Environment(t)
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "agent", Groups: []string{"hollowfleet:agents", "system:authenticated"}}
	limited, err := client.New(config, client.Options{Scheme: server.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return limited
}

func (b *env) pod(namespace, name, node string) *corev1.Pod {
	b.t.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	pod.Namespace, pod.Name = namespace, name
	b.Eventually(func() error { return b.client.Create(b.t.Context(), pod) }).WithTimeout(agenttest.Wait).Should(Succeed(), "its ServiceAccount comes later")
	return pod
}

// markReady plays kwok's controller with the Node and its Lease.
func (b *env) markReady(name, holder string) {
	b.t.Helper()
	ready := client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`))
	b.Expect(b.client.Status().Patch(b.t.Context(), b.node(name), ready)).To(Succeed())
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	lease.Namespace, lease.Name = corev1.NamespaceNodeLease, name
	_ = b.client.Delete(b.t.Context(), lease.DeepCopy())
	b.Expect(b.client.Create(b.t.Context(), lease)).To(Succeed())
}

// remindedOf returns the names of the pods that were reminded of, and forgets them.
func (b *env) remindedOf(namespace string) []string {
	b.t.Helper()
	pods := &corev1.PodList{}
	b.Expect(b.client.List(b.t.Context(), pods, client.InNamespace(namespace))).To(Succeed())
	var names []string
	for i := range pods.Items {
		if pods.Items[i].Annotations[v1alpha1.KwokRemindedAtAnnotation] == "" {
			continue
		}
		names = append(names, pods.Items[i].Name)
		b.Expect(b.client.Patch(b.t.Context(), &pods.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`)))).To(Succeed())
	}
	return names
}

// Edge case: kwok's controller has overlooked pods of Nodes that it took over. Broken: only Pending ones are looked at; those of others are changed.
func TestTheControllerIsRemindedOfPods(t *testing.T) {
	b := newEnv(t, nil)
	for _, name := range []string{"m1", "m2"} {
		b.create(requestOf(name, `{`+head+`}`))
	}
	foreign := &corev1.Node{}
	foreign.Name = "real"
	b.Expect(b.client.Create(t.Context(), foreign)).To(Succeed())
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), foreign) })
	b.markReady("m1", "first")
	namespace := agenttest.Namespace(t, b.client)
	b.pod(namespace, "unready", "m2")
	b.pod(namespace, "others", "real")
	b.pod(namespace, "pending", "m1")
	for _, name := range []string{"running", "deleted"} {
		pod := b.pod(namespace, name, "m1")
		pod.Status.Phase = corev1.PodRunning
		b.Expect(b.client.Status().Update(t.Context(), pod)).To(Succeed())
		if name == "deleted" {
			b.Expect(b.client.Delete(t.Context(), pod)).To(Succeed())
			t.Cleanup(func() { _ = b.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
		}
	}

	// That of the driver does nothing, because its clock stands still.
	r, clock := b.newReminder(), clocktesting.NewFakePassiveClock(time.Now())
	r.target.Client, r.target.Reader, r.clock = agentClient(t), agentClient(t), clock
	b.Expect(r.remindOnce(t.Context())).To(Succeed())
	b.Expect(b.remindedOf(namespace)).To(BeEmpty(), "they have not waited")
	clock.SetTime(time.Now().Add(20 * time.Second))
	b.Expect(r.remindOnce(t.Context())).To(Succeed())
	b.Expect(b.remindedOf(namespace)).To(ConsistOf("deleted", "pending"), "the agent has just started: who held the Lease before is not known")
	clock.SetTime(time.Now().Add(10 * time.Minute))
	b.Expect(r.remindOnce(t.Context())).To(Succeed())
	b.Expect(b.remindedOf(namespace)).To(ConsistOf("pending"), "the take-over is long ago")
	b.markReady("m1", "second")
	b.Expect(r.remindOnce(t.Context())).To(Succeed())
	b.Expect(b.remindedOf(namespace)).To(ConsistOf("deleted", "pending"))
}

// Edge case: an agent's right to the status of pods is one to annotations. Broken: without the policy.
func TestTheAgentChangesNoStatusOfPods(t *testing.T) {
	b := newEnv(t, nil)
	pod := b.pod(agenttest.Namespace(t, b.client), "p", "m1")
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
	agent := agentClient(t)
	b.Eventually(func() error {
		return agent.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`)))
	}).WithTimeout(agenttest.Wait).Should(MatchError(ContainSubstring("does not change their status")), "the policy takes a moment to hold")
	b.Expect(agent.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`)))).To(Succeed())
}

// Edge case: kwok's controller dies while pods start and end; with its successor they move on. Broken: without the reminder, in three of four runs.
func TestPodsMoveOnWithTheNextController(t *testing.T) {
	program := realProgram(t)
	if testing.Short() {
		t.Skip("it waits for Leases to run out")
	}
	b := newEnv(t, func(o *Options) { o.Program, o.Dir, o.LeaseDuration = program, t.TempDir(), 8*time.Second })
	const nodes = 5
	namespace := agenttest.Namespace(t, b.client)
	for i := range nodes {
		b.create(requestOf(fmt.Sprintf("m%d", i), `{`+head+`}`))
		b.expectReady(fmt.Sprintf("m%d", i))
		b.pod(namespace, fmt.Sprintf("early%d", i), fmt.Sprintf("m%d", i))
	}
	podsAre := func(wanted func(*corev1.Pod) bool) func() ([]string, error) {
		return func() (others []string, _ error) {
			pods := &corev1.PodList{}
			err := b.client.List(t.Context(), pods, client.InNamespace(namespace))
			for i := range pods.Items {
				if !wanted(&pods.Items[i]) {
					others = append(others, pods.Items[i].Name)
				}
			}
			return others, err
		}
	}
	isRunning := func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
	}
	b.Eventually(podsAre(isRunning)).WithTimeout(agenttest.Wait).Should(BeEmpty())
	holder := func() (string, error) {
		lease := &coordinationv1.Lease{}
		err := b.client.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "m0"}, lease)
		return ptr.Deref(lease.Spec.HolderIdentity, ""), err
	}
	first, err := holder()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(syscall.Kill(b.controller.processID(), syscall.SIGKILL)).To(Succeed())
	for i := range nodes {
		b.pod(namespace, fmt.Sprintf("late%d", i), fmt.Sprintf("m%d", i))
		early := &corev1.Pod{}
		early.Namespace, early.Name = namespace, fmt.Sprintf("early%d", i)
		b.Expect(b.client.Delete(t.Context(), early)).To(Succeed())
	}
	b.Eventually(holder).WithTimeout(agenttest.Wait).ShouldNot(Equal(first))

	r, clock := b.newReminder(), clocktesting.NewFakePassiveClock(time.Now())
	r.clock = clock
	b.Eventually(func() ([]string, error) {
		clock.SetTime(time.Now().Add(remindInterval))
		if err := r.remindOnce(t.Context()); err != nil {
			return nil, err
		}
		return podsAre(isRunning)()
	}).WithTimeout(agenttest.Wait).WithPolling(time.Second).Should(BeEmpty())
	pods := &corev1.PodList{}
	b.Expect(b.client.List(t.Context(), pods, client.InNamespace(namespace))).To(Succeed())
	b.Expect(pods.Items).To(HaveLen(nodes))
	b.Expect(slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Name[:4] != "late" })).To(BeFalse())
}

// A look that fails is repeated, and removes nothing.
func TestAReminderWithoutRightsChangesNothing(t *testing.T) {
	b := newEnv(t, nil)
	b.create(requestOf("m1", `{`+head+`}`))
	b.markReady("m1", "first")
	config := rest.CopyConfig(agenttest.Environment(t).Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	nobody, err := client.New(config, client.Options{Scheme: b.client.Scheme()})
	b.Expect(err).NotTo(HaveOccurred())
	r := &reminder{target: driver.Access{Client: b.client, Reader: nobody}, log: logr.Discard(), clock: b.clock, isOwn: b.isOwn}
	b.Expect(r.remindOnce(t.Context())).To(MatchError(ContainSubstring("getting the Lease of node m1")))
}
