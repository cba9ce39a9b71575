package controlplane_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// kubernetesMonitorPeriod is how long the node controller may be behind the Nodes where no flag says otherwise.
	kubernetesMonitorPeriod = 5 * time.Second
	// warm is how long a Node has been Ready when the first pod comes to it, which the node controller must know by then.
	warm = 4 * time.Second
	// newNodes become Ready one after the other, apart by this: whenever a controller with that period looks, for one of
	// them it is too early, and too late by the next time.
	newNodes, apart = 7, 800 * time.Millisecond
	// reaction is how long the node controller may take to see a pod that has come to a Node.
	reaction = 2 * time.Second
)

// newNodesKeepTheirPods lets a pod that is Ready come to each of some Nodes that have just become Ready.
func newNodesKeepTheirPods(t *testing.T, c *cluster) {
	admin := c.admin(t)
	var names []string
	for i := range newNodes {
		names = append(names, fmt.Sprintf("new-%d", i+1))
	}
	for _, name := range names {
		if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := setReady(admin, name, corev1.ConditionFalse); err != nil {
			t.Fatal(err)
		}
		if err := readyPod(admin, name); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(kubernetesMonitorPeriod + time.Second) // By then it has seen all of them, and that they are not Ready.

	var waiting sync.WaitGroup
	for i, name := range names {
		waiting.Go(func() {
			<-time.After(time.Duration(i) * apart)
			if err := staysReady(admin, name); err != nil {
				t.Errorf("pod and Node %s: %v", name, err)
			}
		})
	}
	waiting.Wait()
}

// staysReady makes the Node Ready, assigns the pod of its name to it, and asks that no controller takes the pod's
// readiness.
func staysReady(admin kubernetes.Interface, name string) error {
	if err := setReady(admin, name, corev1.ConditionTrue); err != nil {
		return err
	}
	<-time.After(warm)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: name}}
	if err := admin.CoreV1().Pods("default").Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	<-time.After(reaction)
	pod, err := admin.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("the pod was marked as not Ready by %s", writersOf(pod))
		}
	}
	return nil
}

func writersOf(pod *corev1.Pod) string {
	var writers []string
	for _, entry := range pod.ManagedFields {
		writers = append(writers, entry.Manager+" "+entry.Subresource)
	}
	return strings.Join(writers, ", ")
}

// readyPod makes a pod that no scheduler knows and that says it is Ready.
func readyPod(admin kubernetes.Interface, name string) error {
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		SchedulerName: "nobody", AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
	}}
	made, err := admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = admin.CoreV1().Pods("default").UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// setReady says of a Node whether it is Ready, as its kubelet would.
func setReady(admin kubernetes.Interface, name string, status corev1.ConditionStatus) error {
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, status, now, now)
	_, err := admin.CoreV1().Nodes().Patch(ctx, name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
	return err
}
