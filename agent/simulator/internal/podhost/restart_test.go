package podhost_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
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
		Name, Kubeconfig, DataDir, HollowNodesOf string
		Images                                   map[string]string
		NodesPerPack                             int
	}{h.options.Name, h.options.Kubeconfig, h.options.DataDir, h.options.HollowNodesOf, h.options.Images, h.options.NodesPerPack})
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

// announced is the process of a node.
func (h *testHost) announced(name string) (pid int) {
	h.t.Helper()
	log := h.awaitLog(name, "process ")
	if _, err := fmt.Sscanf(log, "process %d", &pid); err != nil {
		h.t.Fatalf("the log is %q", log)
	}
	return pid
}

func (h *testHost) awaitEnded(pids ...int) {
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

// directory is where the files of pods and packs are.
func (h *testHost) directory() string { return h.options.DataDir + "/pods" }

// files lists what the podhost keeps under a name.
func (h *testHost) files(name string) []string {
	found, _ := filepath.Glob(filepath.Join(h.directory(), name))
	return found
}

// packs lists the processes that run below the podhost's directory.
func (h *testHost) packs() []string {
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if directory, err := os.Readlink(process + "/cwd"); err == nil && strings.HasPrefix(directory, h.directory()) {
			found = append(found, process)
		}
	}
	return found
}

// Claim: A node's state survives a podhost. Broken: the directory emptied at each preparation.
// Claim: Nothing outlives a killed podhost. Broken: no parent-death signal.
func TestKilledPodhostLeavesNoProcess(t *testing.T) {
	for name, perPack := range map[string]int{"packs": 3, "alone": 1} {
		t.Run(name, func(t *testing.T) {
			h := newTestHost(t)
			h.options.NodesPerPack = perPack
			first := h.startChild()
			h.runs("always", "")
			h.runs("stubborn", "stubborn")
			h.runs("deleted", "stubborn")
			h.runs("stopped", "alone")
			pids := []int{h.announced("always"), h.announced("stubborn"), h.announced("deleted"), h.announced("stopped")}
			if err := syscall.Kill(pids[3], syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			before := h.awaitReady("always")
			h.delete("deleted", metav1.DeleteOptions{})
			first.end(syscall.SIGKILL)
			h.awaitEnded(pids...)

			h.startChild()
			after := h.await("always", "is started again", func(pod *corev1.Pod) string {
				status := mainStatus(pod)
				if status.RestartCount != 1 || status.State.Running == nil {
					return "it is not"
				}
				if last := status.LastTerminationState.Terminated; last == nil || last.Reason != "ContainerStatusUnknown" || last.ExitCode != 137 {
					return fmt.Sprintf("its last state is %+v", status.LastTerminationState)
				}
				return ""
			})
			if after.UID != before.UID || after.Status.PodIP != before.Status.PodIP {
				t.Errorf("pod %s at %s became %s at %s", before.UID, before.Status.PodIP, after.UID, after.Status.PodIP)
			}
			h.awaitLog("always", "run 1 ")
			h.awaitReady("stubborn")
			h.awaitReady("stopped")
			h.awaitGone("deleted")
		})
	}
}

func TestStoppedPodhostLeavesPodsToItsSuccessor(t *testing.T) {
	h := newTestHost(t)
	h.start()
	h.runs("p", "")
	h.runs("gone", "")
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
	if err := os.Mkdir(h.directory()+"/notes", 0o700); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.await("p", "runs again", func(pod *corev1.Pod) string {
		if status := mainStatus(pod); status.RestartCount != 1 || status.State.Running == nil {
			return "it does not"
		}
		return ""
	})
	if left := h.files(string(uid)); len(left) > 0 {
		t.Errorf("files of a pod deleted meanwhile are left: %v", left)
	}
	notes := h.files("notes")
	if len(notes) != 1 {
		t.Fatalf("what no podhost made is left in %v, want one directory", notes)
	}
	_ = os.Remove(notes[0])
}

// Claim: A node whose pack has had all its nodes continues in another one, and its pod is not restarted. Broken: the node stays; it counts as ended.
func TestANodeMovesWithItsPack(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) { o.FirstBackoff, o.LastBackoff = time.Millisecond, time.Millisecond })
	h.runs("stays", "")
	h.awaitReady("stays")
	first := h.announced("stays")
	h.runs("ends", "exit-0") // Again and again.
	log := h.awaitLog("stays", "run 1 ")
	h.delete("ends", metav1.DeleteOptions{})
	h.awaitGone("ends")
	if !strings.Contains(log, "asked to end\n") || strings.Count(log, fmt.Sprintf("process %d ", first)) != 1 {
		t.Errorf("the node moved from process %d with the log %s", first, log)
	}
	h.awaitEnded(first)
	if status := mainStatus(h.awaitReady("stays")); status.RestartCount != 0 || status.LastTerminationState.Terminated != nil {
		t.Errorf("the status of a node that moved is %+v", status)
	}
}

// What happened while the API server was away is told when it is back.
func TestAPIServerOutage(t *testing.T) {
	h := startHost(t)
	h.runs("p", "alone")
	h.runs("stays", "")
	h.awaitReady("p")
	pid, ends := h.announced("stays"), h.announced("p")

	h.apiServer("stop")
	started := false
	defer func() {
		if !started {
			h.apiServer("start")
		}
	}()
	if err := syscall.Kill(ends, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.awaitEnded(ends)
	h.apiServer("start")
	started = true
	h.await("p", "was started again", func(pod *corev1.Pod) string {
		if ended := mainStatus(pod).LastTerminationState.Terminated; ended == nil || ended.ExitCode != 137 || mainStatus(pod).State.Running == nil {
			return "it was not"
		}
		return ""
	})
	if !alive(pid) {
		t.Error("an outage ended another pod")
	}
}
