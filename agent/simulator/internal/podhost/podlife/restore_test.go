package podlife

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
)

// TestRestore covers what a podhost makes of the statuses that its predecessor left.
func TestRestore(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	for name, test := range map[string]struct {
		state, last corev1.ContainerState
		attempt     int32 // the number of the next run, after two restarts
		code        int32 // how the last run ended
	}{
		"ran":        {running, ended(1), 3, 137},
		"ended":      {ended(0), ended(1), 3, 0},
		"failed":     {ended(4), ended(1), 3, 4},
		"backed off": {waiting, ended(1), 3, 1},
		"never ran":  {waiting, corev1.ContainerState{}, 0, -1},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "another", State: ended(9), RestartCount: 7},
			{Name: hollowpod.ContainerName, State: test.state, LastTerminationState: test.last, RestartCount: 2},
		}}}
		p := &Pod{container: restore(pod)}
		if got := p.attempt(); got != test.attempt {
			t.Errorf("%s: the next run has number %d, want %d", name, got, test.attempt)
		}
		code := int32(-1)
		if last := p.container.LastTerminationState.Terminated; last != nil {
			code = last.ExitCode
		}
		if code != test.code {
			t.Errorf("%s: the last run ended with %d, want %d", name, code, test.code)
		}
		if p.container.RestartCount != 2 || p.container.State.Waiting == nil {
			t.Errorf("%s: the status became %+v before a restart", name, p.container)
		}
	}
}
