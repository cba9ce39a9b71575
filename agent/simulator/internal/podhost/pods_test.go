package podhost_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// pod describes the pod that an agent makes for a Machine, bound to the podhost's node. What its Secret says in words the node does.
func (h *testHost) pod(name string) *corev1.Pod {
	h.t.Helper()
	content, err := os.ReadFile("../../../driver/hollow/testdata/pod.json")
	if err != nil {
		h.t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(content, pod); err != nil {
		h.t.Fatal(err)
	}
	pod.Name, pod.Namespace, pod.Labels[v1alpha1.MachineNameLabel] = name, h.namespace, name
	pod.Spec.NodeName = h.node
	pod.Spec.Volumes[0].Secret.SecretName = name
	main := &pod.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{main.StartupProbe, main.ReadinessProbe, main.LivenessProbe} {
		probe.PeriodSeconds = 1
	}
	main.ReadinessProbe.FailureThreshold, main.LivenessProbe.FailureThreshold = 1, 2
	return pod
}

// runs creates a pod with its Secret.
func (h *testHost) runs(name, words string) *corev1.Pod {
	h.t.Helper()
	h.createSecret(name, words)
	return h.create(h.pod(name))
}

func (h *testHost) createSecret(name, words string) {
	h.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"script": words, "value": "first"}}
	if _, err := h.client.CoreV1().Secrets(h.namespace).Create(h.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		h.t.Fatalf("creating a Secret: %v", err)
	}
}

func (h *testHost) create(pod *corev1.Pod) *corev1.Pod {
	h.t.Helper()
	created, err := h.client.CoreV1().Pods(h.namespace).Create(h.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatalf("creating pod %s: %v", pod.Name, err)
	}
	return created
}

func (h *testHost) get(name string) (*corev1.Pod, error) {
	return h.client.CoreV1().Pods(h.namespace).Get(h.t.Context(), name, metav1.GetOptions{})
}

// await waits until the pod is as wanted, and returns it. The check returns "",
// or what is still wrong.
func (h *testHost) await(name, what string, check func(*corev1.Pod) string) *corev1.Pod {
	h.t.Helper()
	var pod *corev1.Pod
	h.eventually(fmt.Sprintf("pod %s %s", name, what), func() (err error) {
		if pod, err = h.get(name); err != nil {
			return err
		}
		if problem := check(pod); problem != "" {
			return fmt.Errorf("%s; status: %s", problem, summary(pod))
		}
		return nil
	})
	return pod
}

func (h *testHost) awaitReady(name string) *corev1.Pod {
	h.t.Helper()
	return h.await(name, "is ready", func(pod *corev1.Pod) string {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "it is not ready"
	})
}

func (h *testHost) delete(name string, options metav1.DeleteOptions) {
	h.t.Helper()
	if err := h.client.CoreV1().Pods(h.namespace).Delete(h.t.Context(), name, options); err != nil {
		h.t.Fatalf("deleting pod %s: %v", name, err)
	}
}

func (h *testHost) awaitGone(name string) {
	h.t.Helper()
	h.eventually("pod "+name+" is gone", func() error {
		pod, err := h.get(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is there: %s", summary(pod))
	})
}

// awaitEvent waits for an event about a pod whose message has the text.
func (h *testHost) awaitEvent(name, reason, text string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("an event %s about pod %s with %q", reason, name, text), func() error {
		events, err := h.client.CoreV1().Events(h.namespace).List(h.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var seen []string
		for _, event := range events.Items {
			if event.InvolvedObject.Name != name {
				continue
			}
			if event.Reason == reason && strings.Contains(event.Message, text) {
				return nil
			}
			seen = append(seen, event.Reason+": "+event.Message)
		}
		return fmt.Errorf("there are %q", seen)
	})
}

// logs returns a container's log through the API server.
func (h *testHost) logs(name string, options corev1.PodLogOptions) (string, error) {
	content, err := h.client.CoreV1().Pods(h.namespace).GetLogs(name, &options).DoRaw(h.t.Context())
	return string(content), err
}

// awaitLog waits until the log has the text.
func (h *testHost) awaitLog(name, text string) string {
	h.t.Helper()
	var log string
	h.eventually(fmt.Sprintf("the log of pod %s has %q", name, text), func() (err error) {
		if log, err = h.logs(name, corev1.PodLogOptions{}); err != nil {
			return err
		}
		if !strings.Contains(log, text) {
			return fmt.Errorf("it is %q", log)
		}
		return nil
	})
	return log
}

func summary(pod *corev1.Pod) string {
	text := fmt.Sprintf("%s %s %s deletion %v;", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, pod.DeletionTimestamp)
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range list {
			text += fmt.Sprintf(" %s restarts=%d ready=%v state=%+v;", status.Name, status.RestartCount, status.Ready, status.State)
		}
	}
	return text
}

// mainStatus is the status of the pod's first container, or an empty one.
func mainStatus(pod *corev1.Pod) corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}
