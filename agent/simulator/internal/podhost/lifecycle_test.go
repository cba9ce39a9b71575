package podhost_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

func TestNode(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) {
		o.Capacity = corev1.ResourceList{corev1.ResourceCPU: quantity("7")}
	})
	node, err := h.client.CoreV1().Nodes().Get(t.Context(), h.node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		"kubernetes.io/hostname": h.node, "kubernetes.io/os": "linux", "hollowfleet.io/podhost": "true",
		"node.kubernetes.io/exclude-from-external-load-balancers": "",
	} {
		if got, found := node.Labels[label]; !found || got != want {
			t.Errorf("label %s is %q", label, got)
		}
	}
	if node.Labels["kubernetes.io/arch"] == "" {
		t.Error("there is no label for the architecture")
	}
	tainted := false
	for _, taint := range node.Spec.Taints {
		tainted = tainted || taint.Key == podhost.HollowHostTaint && taint.Value == "true" && taint.Effect == corev1.TaintEffectNoSchedule
	}
	if !tainted {
		t.Errorf("the taints are %v", node.Spec.Taints)
	}
	if cpu := node.Status.Allocatable[corev1.ResourceCPU]; cpu.Value() != 7 {
		t.Errorf("the CPUs are %s", cpu.String())
	}
	if pods := node.Status.Allocatable[corev1.ResourcePods]; pods.Value() != 10000 {
		t.Errorf("the pods are %s", pods.String())
	}
	if memory := node.Status.Allocatable[corev1.ResourceMemory]; memory.Value() < 1<<28 {
		t.Errorf("the memory is %s", memory.String())
	}
	ready := false
	for _, condition := range node.Status.Conditions {
		ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}
	if !ready {
		t.Errorf("the conditions are %v", node.Status.Conditions)
	}
	h.eventually("the node has a lease", func() error {
		lease, err := h.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), h.node, metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime == nil {
			err = fmt.Errorf("it was never renewed")
		}
		return err
	})
}

// Claim: Logs. Broken: the log lost.
// Claim: SIGTERM first. Broken: no SIGTERM.
func TestPodRunsAndIsDeleted(t *testing.T) {
	for name, perPack := range map[string]int{"in a pack": 3, "alone": 1} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, func(o *podhost.Options) { o.NodesPerPack = perPack })
			h.createSecret("p", "")
			pod := h.pod("p")
			pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(10 * patience / time.Second))
			h.create(pod)
			running := h.awaitReady("p")
			ip := running.Status.PodIP
			if parsed := net.ParseIP(ip); parsed == nil || !parsed.IsLoopback() || running.Status.HostIP != "127.0.0.1" {
				t.Errorf("the pod's address is %q, the host's %q", ip, running.Status.HostIP)
			}
			if running.Status.Phase != corev1.PodRunning || running.Status.StartTime == nil || running.Status.QOSClass == "" {
				t.Errorf("the status is %s", summary(running))
			}
			h.awaitLog("p", fmt.Sprintf("run 0 at %s alone %t\nvalue <first> plan <>\n", ip, perPack == 1))
			h.awaitEvent("p", "Started", "hollow-node")

			// It ends at once: awaitGone does not wait for a tenth of its grace period.
			h.delete("p", metav1.DeleteOptions{})
			h.awaitGone("p")
			if left := h.files(string(running.UID)); len(left) > 0 {
				t.Errorf("files of the pod are left in %v", left)
			}
			h.eventually("its process has ended", func() error {
				if left := h.packs(); len(left) > 0 {
					return fmt.Errorf("there are %v", left)
				}
				return nil
			})
		})
	}
}

// Claim: Exit codes. Broken: always 0.
func TestExitCodes(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) {
		o.Images["nothing"] = t.TempDir()
		o.Images["old"] = t.TempDir()
	})
	// A hollow-node from before packs knows no such command.
	if err := os.Symlink("/bin/ls", filepath.Join(h.options.Images["old"], program)); err != nil { // Its exit code is that of bad usage.
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		words          string
		code, signal   int32
		image          string
		reason, remedy string
	}{
		"success":  {"exit-0", 0, 0, image, "Completed", ""},
		"failure":  {"exit-3", 3, 0, image, "Error", ""},
		"killed":   {"die alone", 137, 9, image, "Error", ""},
		"panicked": {"panic alone", 2, 0, image, "Error", ""},
		"nothing":  {"", 128, 0, "nothing", "StartError", "hollow-node: no such file"},
		"old":      {"", 128, 0, "old", "StartError", "a hollow-node from before packs cannot run here; give --image a directory with the one of this release"},
	} {
		h.createSecret(name, test.words)
		pod := h.pod(name)
		pod.Spec.Containers[0].Image = test.image
		h.create(pod)
		status := mainStatus(h.await(name, "has ended", func(pod *corev1.Pod) string {
			if mainStatus(pod).LastTerminationState.Terminated == nil {
				return "it has not"
			}
			return ""
		}))
		ended := status.LastTerminationState.Terminated
		if ended.ExitCode != test.code || ended.Signal != test.signal || ended.Reason != test.reason || !strings.Contains(ended.Message, test.remedy) {
			t.Errorf("%s: the status is %+v", name, ended)
		}
	}
	if log, err := h.logs("panicked", corev1.PodLogOptions{Previous: true}); err != nil || !strings.Contains(log, "panic: a bug of this node") {
		t.Errorf("the log of a node that panicked alone is %q (%v)", log, err)
	}
}

// Claim: Restarts, with back-off. Broken: never restarted.
func TestCrashLoop(t *testing.T) {
	h := startHost(t)
	h.runs("p", "exit-5")
	h.await("p", "backs off", func(pod *corev1.Pod) string {
		for _, status := range pod.Status.ContainerStatuses {
			if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" && status.LastTerminationState.Terminated != nil && status.LastTerminationState.Terminated.ExitCode == 5 {
				return ""
			}
		}
		return "it does not back off"
	})
	h.awaitEvent("p", "BackOff", "hollow-node")
	pod := h.await("p", "was restarted again", func(pod *corev1.Pod) string {
		if mainStatus(pod).RestartCount < 3 {
			return "it was not"
		}
		return ""
	})
	if pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the phase is %s", pod.Status.Phase)
	}
	h.eventually("the log of the run before is there", func() error {
		pod, err := h.get("p")
		if err != nil {
			return err
		}
		log, err := h.logs("p", corev1.PodLogOptions{Previous: true})
		if want := fmt.Sprintf("run %d ", mainStatus(pod).RestartCount-1); err == nil && !strings.Contains(log, want) {
			err = fmt.Errorf("it is %q, want %q", log, want)
		}
		return err
	})
	h.delete("p", metav1.DeleteOptions{})
	h.awaitGone("p")
}

// Claim: Grace period. Broken: no grace.
func TestGracePeriod(t *testing.T) {
	h := startHost(t)
	for name, words := range map[string]string{"shared": "stubborn", "alone": "stubborn alone"} {
		h.createSecret(name, words)
		pod := h.pod(name)
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3)
		h.create(pod)
		h.announced(name)
		asked := time.Now()
		h.delete(name, metav1.DeleteOptions{})
		h.awaitGone(name)
		if took := time.Since(asked); took < 3*time.Second {
			t.Errorf("%s was gone after %s", name, took)
		}
	}
}

func TestGracePeriodIsShortened(t *testing.T) {
	h := startHost(t)
	h.runs("impatient", "stubborn alone")
	process := h.announced("impatient")
	h.delete("impatient", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1000)})
	h.await("impatient", "is being deleted", func(pod *corev1.Pod) string {
		if pod.DeletionTimestamp == nil {
			return "it is not"
		}
		return ""
	})
	h.delete("impatient", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)})
	h.awaitGone("impatient")
	if alive(process) {
		t.Error("the process outlived its pod")
	}

	// An object removed by force takes its process along.
	h.runs("forced", "stubborn alone")
	process = h.announced("forced")
	h.delete("forced", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	h.awaitEnded(process)
}

func TestPodIsReplacedByOneOfTheSameName(t *testing.T) {
	h := startHost(t)
	h.runs("p", "stubborn")
	old := h.awaitReady("p")
	h.delete("p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	h.create(h.pod("p"))
	replaced := h.awaitReady("p")
	if replaced.UID == old.UID || replaced.Status.PodIP == old.Status.PodIP {
		t.Errorf("pod %s at %s was replaced by %s at %s", old.UID, old.Status.PodIP, replaced.UID, replaced.Status.PodIP)
	}
}

func TestPodIsDeletedWhileItStarts(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) { o.NodesPerPack = 1 })
	for i := range 10 {
		name := fmt.Sprintf("p-%d", i)
		h.runs(name, "")
		if i%2 == 0 {
			h.await(name, "has an address", func(pod *corev1.Pod) string { return map[bool]string{true: "it has none"}[pod.Status.PodIP == ""] })
		}
		h.delete(name, metav1.DeleteOptions{})
	}
	for i := range 10 {
		h.awaitGone(fmt.Sprintf("p-%d", i))
	}
	h.eventually("no process is left", func() error {
		if left := h.packs(); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

func TestManyPodsStartAtOnce(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) { o.NodesPerPack = 25 })
	const pods = 60
	began := time.Now()
	for i := range pods {
		h.runs(fmt.Sprintf("p-%d", i), "")
	}
	addresses := make(map[string]bool)
	for i := range pods {
		addresses[h.awaitReady(fmt.Sprintf("p-%d", i)).Status.PodIP] = true
	}
	t.Logf("%d pods were ready %s after the first was created", pods, time.Since(began).Round(time.Millisecond))
	if len(addresses) != pods {
		t.Errorf("%d pods have %d addresses", pods, len(addresses))
	}
	if processes := len(h.packs()); processes != 3 {
		t.Errorf("they have %d processes, want 3", processes)
	}
	began = time.Now()
	if err := h.client.CoreV1().Pods(h.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("all pods are gone", func() error {
		list, err := h.client.CoreV1().Pods(h.namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
	t.Logf("they were gone after %s", time.Since(began).Round(time.Millisecond))
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// ask sends a request to a node.
func (h *testHost) ask(pod *corev1.Pod, path string) {
	h.t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	h.eventually("the node answers "+path, func() error {
		response, err := client.Get("http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(hollownode.HealthPort)) + path)
		if err == nil {
			response.Body.Close()
		}
		return err
	})
}
