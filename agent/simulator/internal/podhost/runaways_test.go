package podhost_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// runaways are processes that leave the group, the session and the parent,
// partly the environment as well, and do not end when asked to.
const runaways = `stubborn='trap "" TERM HUP INT; echo "process $$$$"; while :; do sleep 0.1; done'
sh -c "$stubborn" &
setsid sh -c "$stubborn" &
(setsid sh -c "$stubborn" &)
%s
wait`

// withoutEnvironment starts another one without environment.
const withoutEnvironment = `env -i /usr/bin/setsid /bin/sh -c "(PATH=/usr/bin:/bin /bin/sh -c '$stubborn' &)"`

// runaways creates a pod with runaways and returns them.
func (h *testHost) runaways(more string, count int) []int {
	h.t.Helper()
	pod := h.script("p", fmt.Sprintf(runaways, more))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	h.create(pod)
	var pids []int
	h.eventually("the processes are known", func() error {
		log, err := h.logs("p", corev1.PodLogOptions{})
		if err != nil {
			return err
		}
		pids = pids[:0]
		for line := range strings.Lines(log) {
			pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "process ")))
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		if len(pids) != count {
			return fmt.Errorf("the log is %q", log)
		}
		return nil
	})
	for _, pid := range pids {
		if !alive(pid) {
			h.t.Fatalf("process %d does not run", pid)
		}
	}
	return pids
}

func (h *testHost) awaitEnded(pids []int) {
	h.t.Helper()
	h.eventually("the processes have ended", func() error {
		for _, pid := range pids {
			if alive(pid) {
				return fmt.Errorf("process %d of %v runs", pid, pids)
			}
		}
		return nil
	})
}

func TestDescendantsEndWithAKilledPodhost(t *testing.T) {
	h := newTestHost(t)
	podhost := h.startChild()
	pids := h.runaways(withoutEnvironment, 4)
	podhost.end(syscall.SIGKILL)
	h.awaitEnded(pids)
}

func TestDescendantsEndWithAStoppedPodhost(t *testing.T) {
	h := newTestHost(t)
	h.start()
	pids := h.runaways(withoutEnvironment, 4)
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d outlived its podhost", pid)
		}
	}
}

// With the keeper killed too, the next podhost finds what is left.
// Claim: Leftovers end with the next podhost. Broken: marked processes are not looked for.
func TestDescendantsEndWithTheNextPodhost(t *testing.T) {
	h := newTestHost(t)
	first := h.startChild()
	pids := h.runaways("", 3)
	keeper := childrenOf(first.command.Process.Pid)
	if len(keeper) != 1 {
		t.Fatalf("the podhost's children are %v, want its keeper alone", keeper)
	}
	if err := first.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(keeper[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.end(syscall.SIGKILL)
	if !slices.ContainsFunc(pids, alive) {
		t.Fatal("no process outlived the podhost and its keeper: this test shows nothing")
	}
	h.startChild()
	h.awaitEnded(pids)
}
