package podhost_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestReadinessProbeDrivesTheReadyCondition(t *testing.T) {
	h := startHost(t)
	h.runs("p", "")
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

func TestFailedLivenessProbeRestartsTheNode(t *testing.T) {
	h := startHost(t)
	h.runs("p", "")
	h.ask(h.awaitReady("p"), "/kill")
	h.await("p", "is restarted and ready", func(pod *corev1.Pod) string {
		status := mainStatus(pod)
		if status.RestartCount < 1 || !status.Ready {
			return "it is not"
		}
		if last := status.LastTerminationState.Terminated; last == nil || last.ExitCode != 0 {
			return fmt.Sprintf("its last state is %+v", status.LastTerminationState)
		}
		return ""
	})
	h.awaitEvent("p", "Killing", "liveness")
}

func TestStartupProbeHoldsTheOthersBack(t *testing.T) {
	h := startHost(t)
	h.createSecret("p", "never")
	pod := h.pod("p")
	pod.Spec.Containers[0].StartupProbe.FailureThreshold = 4 // The liveness probe would fail earlier.
	h.create(pod)
	status := mainStatus(h.await("p", "is restarted", func(pod *corev1.Pod) string {
		if mainStatus(pod).RestartCount < 1 {
			return "it is not"
		}
		return ""
	}))
	if status.Started == nil || *status.Started || status.Ready {
		t.Errorf("the status is %+v", status)
	}
	h.awaitEvent("p", "Killing", "startup")
}
