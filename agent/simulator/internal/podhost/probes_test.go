package podhost_test

import (
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func healthProbe() *corev1.Probe {
	return &corev1.Probe{
		PeriodSeconds: 1, FailureThreshold: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromString("web")}},
	}
}

// ask sends a request to a server pod.
func (h *testHost) ask(pod *corev1.Pod, path string) {
	h.t.Helper()
	h.eventually("the server answers "+path, func() error {
		_, err := get("http://" + net.JoinHostPort(pod.Status.PodIP, serverPort) + path)
		return err
	})
}

func TestReadinessProbeDrivesTheReadyCondition(t *testing.T) {
	h := startHost(t, withServer(t))
	pod := h.server("p")
	pod.Spec.Containers[0].ReadinessProbe = healthProbe()
	h.create(pod)
	ready := h.awaitReady("p")
	h.ask(ready, "/break")
	h.await("p", "is not ready but runs", func(pod *corev1.Pod) string {
		status := mainStatus(pod)
		if status.Ready || status.State.Running == nil || status.RestartCount != 0 {
			return "it is not so"
		}
		return ""
	})
	h.awaitEvent("p", "Unhealthy", "Readiness probe")
	h.ask(ready, "/mend")
	h.awaitReady("p")
}

func TestFailedLivenessProbeRestartsTheContainer(t *testing.T) {
	h := startHost(t, withServer(t))
	pod := h.server("p")
	pod.Spec.Containers[0].LivenessProbe = healthProbe()
	pod.Spec.Containers[0].LivenessProbe.FailureThreshold = 2
	// On a busy machine the server takes its time, to start and to answer.
	pod.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 30
	listens := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(8080)}}
	pod.Spec.Containers[0].StartupProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 30, FailureThreshold: 300, ProbeHandler: listens}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 30, ProbeHandler: listens}
	h.create(pod)
	h.ask(h.awaitReady("p"), "/break")
	h.await("p", "is restarted and ready", func(pod *corev1.Pod) string {
		status := mainStatus(pod)
		if status.RestartCount < 1 || !status.Ready {
			return "it is not"
		}
		if last := status.LastTerminationState.Terminated; last == nil || last.Signal != 15 {
			return fmt.Sprintf("its last state is %+v", status.LastTerminationState)
		}
		return ""
	})
	h.awaitEvent("p", "Killing", "liveness")
}

func TestStartupProbeHoldsTheOthersBack(t *testing.T) {
	h := startHost(t)
	exec := func(command ...string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}}
	}
	pod := h.script("p", `sleep 1.5; touch /work/started; exec sleep 1000`)
	withEmptyDir(pod, "/work")
	pod.Spec.Containers[0].StartupProbe = exec("/bin/sh", "-c", "test -f /work/started")
	pod.Spec.Containers[0].StartupProbe.FailureThreshold = 30
	// It would fail, and restart the container, before it has started.
	pod.Spec.Containers[0].LivenessProbe = exec("/bin/sh", "-c", "test -f /work/started")
	pod.Spec.Containers[0].LivenessProbe.FailureThreshold = 1
	h.create(pod)
	status := mainStatus(h.awaitReady("p"))
	if status.RestartCount != 0 || status.Started == nil || !*status.Started {
		t.Errorf("the status is %+v", status)
	}

	never := h.script("never", "exec sleep 1000")
	never.Spec.Containers[0].StartupProbe = exec("/bin/sh", "-c", "sleep 1000")
	never.Spec.Containers[0].StartupProbe.FailureThreshold = 1
	h.create(never)
	h.await("never", "is restarted", func(pod *corev1.Pod) string {
		if mainStatus(pod).RestartCount < 1 {
			return "it is not"
		}
		return ""
	})
	h.awaitEvent("never", "Unhealthy", "did not end within 1s")
}
