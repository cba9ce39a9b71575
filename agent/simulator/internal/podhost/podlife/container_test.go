package podlife

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRestore covers what a podhost makes of the statuses that its predecessor left.
func TestRestore(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	const runs, stays = true, false
	for name, test := range map[string]struct {
		policy  corev1.RestartPolicy
		initial bool
		state   corev1.ContainerState
		last    corev1.ContainerState
		want    bool  // whether it runs again
		attempt int32 // the number of the next run, after two restarts
	}{
		"ran":                       {always, false, running, ended(1), runs, 3},
		"ran, must not again":       {never, false, running, ended(1), stays, 0},
		"ran, on failure":           {onFailure, false, running, ended(1), runs, 3},
		"succeeded":                 {always, false, ended(0), ended(1), runs, 3},
		"succeeded, on failure":     {onFailure, false, ended(0), ended(1), stays, 0},
		"failed, on failure":        {onFailure, false, ended(1), ended(1), runs, 3},
		"failed, must not again":    {never, false, ended(1), ended(1), stays, 0},
		"backed off":                {always, false, waiting, ended(1), runs, 3},
		"never ran":                 {always, false, waiting, corev1.ContainerState{}, runs, 0},
		"init ran":                  {always, true, running, ended(1), runs, 3},
		"init succeeded":            {always, true, ended(0), ended(1), stays, 0},
		"init failed":               {always, true, ended(1), ended(1), runs, 3},
		"init failed, must not run": {never, true, ended(1), ended(1), stays, 0},
	} {
		p := &Pod{runtime: &Runtime{}, pod: &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: test.policy}}}
		previous := []corev1.ContainerStatus{{Name: "c", State: test.state, LastTerminationState: test.last, RestartCount: 2}}
		c := newContainer(p, &corev1.Container{Name: "c"}, test.initial, previous, "ContainerCreating")
		if got := c.status.State.Terminated == nil; got != test.want {
			t.Errorf("%s: it runs again: %v", name, got)
			continue
		}
		if test.want == runs && c.attempt() != test.attempt {
			t.Errorf("%s: the next run has number %d, want %d", name, c.attempt(), test.attempt)
		}
		if c.status.RestartCount != 2 {
			t.Errorf("%s: the restart count became %d before a restart", name, c.status.RestartCount)
		}
		if test.initial && c.status.Ready != (test.state.Terminated != nil && test.state.Terminated.ExitCode == 0) {
			t.Errorf("%s: ready is %v", name, c.status.Ready)
		}
	}
}
