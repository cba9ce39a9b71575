package podhost_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// child is a podhost in a process of its own.
type child struct {
	t       *testing.T
	command *exec.Cmd
	ended   bool
}

// startChild runs the test's podhost in a process of its own.
func (h *testHost) startChild() *child {
	h.t.Helper()
	options, err := json.Marshal(struct {
		Name, Kubeconfig, DataDir string
		Images                    map[string]string
	}{h.options.Name, h.options.Kubeconfig, h.options.DataDir, h.options.Images})
	if err != nil {
		h.t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), childVariable+"="+string(options))
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		h.t.Fatal(err)
	}
	c := &child{t: h.t, command: command}
	h.t.Cleanup(func() { c.end(syscall.SIGTERM) })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != readyLine+"\n" {
		h.t.Fatalf("the podhost said %q (%v)", line, err)
	}
	return c
}

func (c *child) end(signal syscall.Signal) {
	if c.ended {
		return
	}
	c.ended = true
	if err := c.command.Process.Signal(signal); err != nil {
		c.t.Errorf("ending the podhost: %v", err)
	}
	_ = c.command.Wait()
}

const announce = `echo "process $$$$"; exec sleep 1000`

func (h *testHost) announced(name string) int {
	h.t.Helper()
	log := h.awaitLog(name, "process ")
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(log, "process ")))
	if err != nil {
		h.t.Fatalf("the log is %q", log)
	}
	return pid
}

// Claim: emptyDir survives a podhost. Broken: emptyDir emptied at each preparation. Also: agent/simulator/internal/podhost/volume TestEmptyDirSurvivesAndIsRemoved.
func TestKilledPodhostLeavesNoProcess(t *testing.T) {
	h := newTestHost(t)
	first := h.startChild()
	h.create(h.script("always", announce))
	never := h.script("never", announce)
	never.Spec.RestartPolicy = corev1.RestartPolicyNever
	h.create(never)
	done := h.script("done", "exit 0")
	done.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	h.create(done)
	kept := h.script("kept", `test -f /work/file && echo again || { touch /work/file; echo first; }; exec sleep 1000`)
	withEmptyDir(kept, "/work")
	h.create(kept)
	h.create(h.script("deleted", `trap "" TERM; `+announce))

	alwaysPID, neverPID, deletedPID := h.announced("always"), h.announced("never"), h.announced("deleted")
	before := h.awaitReady("always")
	h.awaitLog("kept", "first")
	h.awaitPhase("done", corev1.PodSucceeded)
	h.delete("deleted", metav1.DeleteOptions{})
	first.end(syscall.SIGKILL)
	h.eventually("no process is left", func() error {
		for _, pid := range []int{alwaysPID, neverPID, deletedPID} {
			if alive(pid) {
				return fmt.Errorf("process %d runs", pid)
			}
		}
		return nil
	})

	h.startChild()
	after := h.await("always", "is started again", func(pod *corev1.Pod) string {
		status := mainStatus(pod)
		if status.RestartCount != 1 || status.State.Running == nil {
			return "it is not"
		}
		if last := status.LastTerminationState.Terminated; last == nil || last.Reason != "ContainerStatusUnknown" {
			return fmt.Sprintf("its last state is %+v", status.LastTerminationState)
		}
		return ""
	})
	if after.UID != before.UID {
		t.Error("it is another pod")
	}
	if pid := h.announced("always"); pid == alwaysPID || !alive(pid) {
		t.Errorf("process %d does not run", pid)
	}
	// The pods that must not run again.
	ended := mainStatus(h.awaitPhase("never", corev1.PodFailed))
	if ended.RestartCount != 0 || ended.State.Terminated.ExitCode != 137 {
		t.Errorf("the status is %+v", ended)
	}
	if pod := h.awaitPhase("done", corev1.PodSucceeded); mainStatus(pod).RestartCount != 0 {
		t.Errorf("a pod that had succeeded: %s", summary(pod))
	}
	h.awaitGone("deleted")
	h.awaitLog("kept", "again")
}

func TestStoppedPodhostLeavesPodsToItsSuccessor(t *testing.T) {
	h := newTestHost(t)
	h.start()
	h.create(h.script("p", announce))
	h.create(h.script("gone", announce))
	pid := h.announced("p")
	h.announced("gone")
	uid := h.awaitReady("gone").UID
	h.awaitReady("p")
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("a process outlived its podhost")
	}
	if pod, err := h.get("p"); err != nil || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod of a podhost that has ended: %s (%v)", summary(pod), err)
	}
	h.delete("gone", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	for _, foreign := range []string{"/logs/notes", "/pods/notes"} {
		if err := os.Mkdir(h.options.DataDir+foreign, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	h.await("p", "runs again", func(pod *corev1.Pod) string {
		if status := mainStatus(pod); status.RestartCount != 1 || status.State.Running == nil {
			return "it does not"
		}
		return ""
	})
	if leftovers := h.files(string(uid)); len(leftovers) > 0 {
		t.Errorf("files of a pod deleted meanwhile are left: %v", leftovers)
	}
	notes := h.files("notes")
	if len(notes) != 2 {
		t.Errorf("what no podhost made is left in %v, want two directories", notes)
	}
	for _, directory := range notes {
		_ = os.Remove(directory + "/notes")
	}
}

// files lists what the podhost keeps under a name.
func (h *testHost) files(name string) []string {
	var found []string
	for _, directory := range h.directories() {
		if _, err := os.Stat(directory + "/" + name); err == nil {
			found = append(found, directory)
		}
	}
	return found
}

// directories are those with one entry for each pod.
func (h *testHost) directories() []string {
	directories := []string{h.options.DataDir + "/logs", h.options.DataDir + "/pods"}
	var outside struct{ Base string }
	if record, err := os.ReadFile(h.options.DataDir + "/pods-directory"); err == nil && json.Unmarshal(record, &outside) == nil {
		directories = append(directories, outside.Base)
	}
	return directories
}

// Claim: Without its keeper a podhost ends. Broken: it continues.
func TestAPodhostWithoutKeeperEnds(t *testing.T) {
	h := newTestHost(t)
	podhost := h.startChild()
	h.create(h.script("p", announce))
	pid := h.announced("p")
	for _, keeper := range childrenOf(podhost.command.Process.Pid) {
		if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- podhost.command.Wait() }()
	select {
	case err := <-ended:
		podhost.ended = true
		if exit := (&exec.ExitError{}); !errors.As(err, &exit) {
			t.Errorf("the podhost ended with %v, want an error", err)
		}
	case <-time.After(patience):
		t.Fatal("the podhost did not end")
	}
	h.awaitEnded([]int{pid})
}

// childrenOf lists the processes that a process has started.
func childrenOf(parent int) []int {
	var children []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + entry.Name() + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

// What happened while the API server was away is told when it is back.
func TestAPIServerOutage(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", `until test -f /work/go; do sleep 0.1; done; exit 6`)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	withEmptyDir(pod, "/work")
	created := h.create(pod)
	h.create(h.script("stays", announce))
	h.awaitReady("p")
	pid := h.announced("stays")

	h.apiServer("stop")
	started := false
	defer func() {
		if !started {
			h.apiServer("start")
		}
	}()
	released := false
	for _, directory := range h.directories() {
		work := directory + "/" + string(created.UID) + "/volumes/empty"
		if _, err := os.Stat(work); err == nil {
			released = os.WriteFile(work+"/go", nil, 0o644) == nil
		}
	}
	if !released {
		t.Fatal("the pod's volume was not found")
	}
	h.eventually("the process has ended", func() error {
		if logs := h.processes(string(created.UID)); len(logs) > 0 {
			return fmt.Errorf("processes %v run", logs)
		}
		return nil
	})
	h.apiServer("start")
	started = true
	h.await("p", "has failed", func(pod *corev1.Pod) string {
		if ended := mainStatus(pod).State.Terminated; pod.Status.Phase != corev1.PodFailed || ended == nil || ended.ExitCode != 6 {
			return "it has not"
		}
		return ""
	})
	if !alive(pid) {
		t.Error("an outage ended another pod")
	}
}

// processes lists those that have the text in their environment.
func (h *testHost) processes(text string) []string {
	var found []string
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if environment, err := os.ReadFile("/proc/" + entry.Name() + "/environ"); err == nil && strings.Contains(string(environment), text) {
			found = append(found, entry.Name())
		}
	}
	return found
}
