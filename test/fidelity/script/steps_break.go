package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func breakSteps() []*Step {
	refused := "fault APIErrors fails requests, but leaves open watches: the event is sent while it is refused"
	// A kubelet reports every 10 seconds, and the node controller looks every 5.
	reports := Tolerance{Absolute: 12 * time.Second}
	return []*Step{
		{Name: "drain", Row: rowNotReady, Verdict: Same, Alone: true, Run: inScene("drain", runDrain)},
		{Name: "restart", Row: rowRestart, Verdict: Adjustable, Alone: true, Run: inScene("restart", runRestart), Tolerances: map[string]Tolerance{
			"Lease renewed after": reports,
		}, Declared: []Declared{{Figure: "events of the Node", Because: "no cgroups to enforce allocatable with, or to warn of"}}},
		{Name: "not-ready", Row: rowNotReady, Verdict: Same, Alone: true, Run: inScene("not-ready", runNotReady), Tolerances: map[string]Tolerance{
			// A kubelet waits half a minute for its runtime; the fault does not.
			"not Ready after": {Absolute: 45 * time.Second}, "Ready again after": {Absolute: 20 * time.Second},
		}},
		{Name: "unknown", Row: rowNotReady, Verdict: Same, Alone: true, Run: inScene("unknown", runUnknown), Tolerances: map[string]Tolerance{
			"Unknown after": {Absolute: 20 * time.Second}, "evicted after": {Absolute: 20 * time.Second},
			"Ready again after": {Absolute: 20 * time.Second}, "evicted gone after": {Absolute: 20 * time.Second},
		}, Declared: []Declared{
			{Figure: "evicted events", Because: refused, NotOfNode: true},
			{Figure: "evicted messages of events", Because: refused, NotOfNode: true},
		}},
		{Name: "deleted", Row: rowDeleted, Verdict: Adjustable, Alone: true, Run: runDeleted, Tolerances: map[string]Tolerance{
			"Ready after the kubelet starts": {Absolute: 20 * time.Second},
		}},
	}
}

func taintsText(node *corev1.Node) string {
	var all []string
	for _, taint := range node.Spec.Taints {
		all = append(all, taint.Key+":"+string(taint.Effect))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func readyText(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// untilNode waits until the Node is as wanted.
func (s *Side) untilNode(ctx context.Context, what string, wanted func(*corev1.Node) bool) (node *corev1.Node, err error) {
	err = eventually(ctx, "the Node to be "+what, func(ctx context.Context) (bool, error) {
		node, err = s.node(ctx)
		return err == nil && wanted(node), err
	})
	return node, err
}

func ready(node *corev1.Node) bool { return strings.HasPrefix(readyText(node), "True") }

func tolerates(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
}

// runDrain evicts a pod that a PodDisruptionBudget protects, and one that none does.
func runDrain(ctx context.Context, s *scene, r *Record) error {
	for _, name := range []string{"kept", "free"} {
		pod := s.side.newPod(name, behaviour{"terminates-after": "2s"}, func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": name} })
		if err := s.play(ctx, r, pod, "Ready", isReady); err != nil {
			return err
		}
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}},
	}}
	if _, err := s.side.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Create(ctx, budget, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := eventually(ctx, "the budget to count its pod", func(ctx context.Context) (bool, error) {
		live, err := s.side.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Get(ctx, "kept", metav1.GetOptions{})
		return err == nil && live.Status.CurrentHealthy == 1, err
	})
	if err != nil {
		return err
	}
	evict := func(name string) error {
		return s.side.Client.PolicyV1().Evictions(s.namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}})
	}
	r.fact("eviction within the budget", string(apierrors.ReasonForError(evict("kept"))))
	if err := evict("free"); err != nil {
		return err
	}
	after, err := s.untilGone(ctx, "free")
	if err != nil {
		return err
	}
	r.took("free gone", after)
	s.describePod(ctx, r, "free")
	return s.cordon(ctx, r)
}

// cordon keeps new pods off the node for a while.
func (s *scene) cordon(ctx context.Context, r *Record) error {
	set := func(unschedulable bool) error {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
		_, err := s.side.Client.CoreV1().Nodes().Patch(ctx, s.side.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if err := set(true); err != nil {
		return err
	}
	node, err := s.side.untilNode(ctx, "tainted", func(node *corev1.Node) bool { return len(node.Spec.Taints) > 0 })
	if err != nil {
		return err
	}
	r.fact("taints of the cordoned Node", taintsText(node))
	if err := s.create(ctx, s.side.newPod("waits", nil)); err != nil {
		return err
	}
	if err := s.untilEvent(ctx, "waits", "FailedScheduling"); err != nil {
		return err
	}
	if err := set(false); err != nil {
		return err
	}
	if _, err := s.until(ctx, "waits", "Ready", isReady); err != nil {
		return err
	}
	s.describePod(ctx, r, "waits")
	delete(r.Facts, "waits messages of events") // They count the nodes of the cluster.
	return nil
}

// runRestart starts the kubelet again under a running container.
func runRestart(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("stays", nil), "Ready", isReady); err != nil {
		return err
	}
	before, err := s.existing(ctx, "stays")
	if err != nil {
		return err
	}
	node, err := s.side.node(ctx)
	if err != nil {
		return err
	}
	at, err := s.side.Machine.RestartKubelet(ctx)
	if err != nil {
		return err
	}
	err = eventually(ctx, "the Lease to be renewed", func(ctx context.Context) (bool, error) {
		lease, err := s.side.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, s.side.Node, metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(at), err
	})
	if err != nil {
		return err
	}
	r.took("Lease renewed after", time.Since(at))
	if err := sleep(ctx, 15*time.Second); err != nil {
		return err
	}
	after, err := s.existing(ctx, "stays")
	if err != nil {
		return err
	}
	again, err := s.side.node(ctx)
	if err != nil {
		return err
	}
	r.fact("container is the same", fmt.Sprint(before.Status.ContainerStatuses[0].ContainerID == after.Status.ContainerStatuses[0].ContainerID))
	r.fact("restarts", fmt.Sprint(restarts(after)))
	r.fact("boot ID is the same", fmt.Sprint(node.Status.NodeInfo.BootID == again.Status.NodeInfo.BootID))
	r.fact("Node is the same", fmt.Sprint(node.UID == again.UID))
	r.fact("pod is Ready", fmt.Sprint(isReady(after)))
	r.fact("Node", readyText(again))
	events, err := s.side.nodeEvents(ctx, at)
	r.fact("events of the Node", events)
	return err
}

// nodeEvents are the reasons of the kubelet's events about its Node since then.
func (s *Side) nodeEvents(ctx context.Context, since time.Time) (string, error) {
	list, err := s.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + s.Node})
	if err != nil {
		return "", err
	}
	var reasons []string
	for _, event := range list.Items {
		reason := event.Type + " " + event.Reason
		if event.Source.Component == "kubelet" && !event.LastTimestamp.Time.Before(since.Truncate(time.Second)) && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, ", "), nil
}

// runNotReady lets the kubelet find its container runtime dead.
func runNotReady(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("stays", nil, tolerates(600)), "Ready", isReady); err != nil {
		return err
	}
	at, mend, err := s.side.Machine.StopRuntime(ctx)
	if err != nil {
		return err
	}
	node, err := s.side.untilNode(ctx, "not Ready", func(node *corev1.Node) bool {
		return strings.HasPrefix(readyText(node), "False") && len(node.Spec.Taints) > 1
	})
	if err == nil {
		r.took("not Ready after", time.Since(at))
		r.fact("Ready", readyText(node))
		r.fact("taints", taintsText(node))
		err = sleep(ctx, 15*time.Second)
		r.fact("the pod was Ready", s.readiness("stays"))
	}
	mended := time.Now()
	if failed := mend(ctx); failed != nil || err != nil {
		return errors.Join(err, failed)
	}
	if _, err := s.side.untilNode(ctx, "Ready again", func(node *corev1.Node) bool { return ready(node) && len(node.Spec.Taints) == 0 }); err != nil {
		return err
	}
	r.took("Ready again after", time.Since(mended))
	return eventually(ctx, "the pod to be Ready again", func(ctx context.Context) (bool, error) {
		pod, err := s.live(ctx, "stays")
		if err == nil && pod != nil {
			r.fact("restarts of the pod", fmt.Sprint(restarts(pod)))
		}
		return pod != nil && isReady(pod), err
	})
}

// readiness is how a pod's condition Ready changed.
func (s *scene) readiness(name string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	var all []string
	for _, one := range s.pods[name].seen {
		all = appendNew(all, fmt.Sprint(isReady(one.pod)))
	}
	return strings.Join(all, " > ")
}

// runUnknown cuts the kubelet off until a pod is evicted.
func runUnknown(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("evicted", nil, tolerates(5), grace(2)), "Ready", isReady); err != nil {
		return err
	}
	if err := s.play(ctx, r, s.side.newPod("stays", nil, tolerates(600)), "Ready", isReady); err != nil {
		return err
	}
	at, mend, err := s.side.Machine.CutOff(ctx)
	if err != nil {
		return err
	}
	node, err := s.side.untilNode(ctx, "Unknown", func(node *corev1.Node) bool {
		return strings.HasPrefix(readyText(node), "Unknown") && len(node.Spec.Taints) > 1
	})
	if err == nil {
		r.took("Unknown after", time.Since(at))
		r.fact("Ready", readyText(node))
		r.fact("taints", taintsText(node))
		_, err = s.until(ctx, "evicted", "deleted", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		r.took("evicted after", time.Since(at))
	}
	mended := time.Now()
	if failed := mend(ctx); failed != nil || err != nil {
		return errors.Join(err, failed)
	}
	if _, err := s.side.untilNode(ctx, "Ready again", func(node *corev1.Node) bool { return ready(node) && len(node.Spec.Taints) == 0 }); err != nil {
		return err
	}
	r.took("Ready again after", time.Since(mended))
	if _, err := s.untilGone(ctx, "evicted"); err != nil {
		return err
	}
	r.took("evicted gone after", time.Since(mended))
	s.describePod(ctx, r, "evicted")
	stays, err := s.existing(ctx, "stays")
	if err != nil {
		return err
	}
	r.fact("restarts of the pod that tolerates it", fmt.Sprint(restarts(stays)))
	return nil
}

// runDeleted deletes the Node under its kubelet, and starts that again.
func runDeleted(ctx context.Context, side *Side, r *Record) error {
	before, err := side.node(ctx)
	if err != nil {
		return err
	}
	at, await, err := side.Machine.RestartKubeletIn(ctx, 45*time.Second)
	if err != nil {
		return err
	}
	if err := side.Client.CoreV1().Nodes().Delete(ctx, side.Node, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := sleep(ctx, 30*time.Second); err != nil {
		return err
	}
	_, err = side.node(ctx)
	r.fact("half a minute later", string(apierrors.ReasonForError(err)))
	if err := await(ctx); err != nil {
		return err
	}
	after, err := side.untilNode(ctx, "registered and Ready", ready)
	if err != nil {
		return err
	}
	r.took("Ready after the kubelet starts", time.Since(at))
	r.fact("Node is the same", fmt.Sprint(before.UID == after.UID))
	r.fact("boot ID is the same", fmt.Sprint(before.Status.NodeInfo.BootID == after.Status.NodeInfo.BootID))
	r.fact("labels are the same", fmt.Sprint(keys(after.Labels) == keys(before.Labels)))
	return nil
}
