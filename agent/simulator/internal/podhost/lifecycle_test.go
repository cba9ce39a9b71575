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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
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
	if pods := node.Status.Allocatable[corev1.ResourcePods]; pods.Value() != 1000 {
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

// Claim: Command and args. Broken: args left out.
// Claim: Environment with downward API. Broken: no environment.
// Claim: Logs. Broken: standard output lost.
// Claim: SIGTERM first. Broken: no SIGTERM.
func TestPodRunsAndIsDeleted(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", `echo "I am $NAME at $IP on $NODE with $REST and $*"; echo problem >&2; exec sleep 1000`)
	pod.Spec.Containers[0].Args = []string{"sh", "an argument", "of $(NAME)"}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "IP", ValueFrom: field("status.podIP")},
		{Name: "NODE", ValueFrom: field("spec.nodeName")}, {Name: "REST", Value: "$(NAME)/$(IP)"},
	}
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
	h.awaitLog("p", fmt.Sprintf("I am p at %s on %s with p/%s and an argument of p", ip, h.node, ip))
	h.awaitLog("p", "problem\n")
	h.awaitEvent("p", "Started", "main")

	// It ends at once: awaitGone does not wait for a tenth of its grace period.
	h.delete("p", metav1.DeleteOptions{})
	h.awaitGone("p")
	if left := h.files(string(running.UID)); len(left) > 0 {
		t.Errorf("files of the pod are left in %v", left)
	}
}

// Claim: Exit codes. Broken: always 0.
func TestExitCodes(t *testing.T) {
	h := startHost(t)
	for name, test := range map[string]struct {
		script string
		phase  corev1.PodPhase
		code   int32
		signal int32
		reason string
	}{
		"success": {"exit 0", corev1.PodSucceeded, 0, 0, "Completed"},
		"failure": {"exit 3", corev1.PodFailed, 3, 0, "Error"},
		"signal":  {"kill -KILL $$$$", corev1.PodFailed, 137, 9, "Error"},
	} {
		pod := h.script(name, "echo the last words; "+test.script)
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		h.create(pod)
		status := mainStatus(h.awaitPhase(name, test.phase))
		ended := status.State.Terminated
		if ended == nil || ended.ExitCode != test.code || ended.Signal != test.signal || ended.Reason != test.reason || status.RestartCount != 0 {
			t.Errorf("%s: the status is %+v", name, status)
			continue
		}
		if want := map[bool]string{true: "the last words\n"}[test.code != 0]; ended.Message != want {
			t.Errorf("%s: the message is %q, want %q", name, ended.Message, want)
		}
	}
	pod := h.pod("nothing", "/no/such/program")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	h.create(pod)
	ended := mainStatus(h.awaitPhase("nothing", corev1.PodFailed)).State.Terminated
	if ended.Reason != "StartError" || ended.ExitCode != 128 || !strings.Contains(ended.Message, "/no/such/program") {
		t.Errorf("a program that is not there gave %+v", ended)
	}
}

// Claim: Restart policy OnFailure. Broken: never restarted.
func TestRestartOnFailure(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", `n=$(cat /count/n 2>/dev/null || echo 0); echo "run $n"; echo $((n+1)) >/count/n; test $n = 2`)
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	withEmptyDir(pod, "/count")
	h.create(pod)
	status := mainStatus(h.awaitPhase("p", corev1.PodSucceeded))
	if status.RestartCount != 2 || status.State.Terminated.ExitCode != 0 {
		t.Errorf("the status is %+v", status)
	}
	if last := status.LastTerminationState.Terminated; last == nil || last.ExitCode != 1 {
		t.Errorf("the last state is %+v", status.LastTerminationState)
	}
	if log, err := h.logs("p", corev1.PodLogOptions{}); err != nil || log != "run 2\n" {
		t.Errorf("the log is %q (%v)", log, err)
	}
	if log, err := h.logs("p", corev1.PodLogOptions{Previous: true}); err != nil || log != "run 1\n" {
		t.Errorf("the previous log is %q (%v)", log, err)
	}
}

// Claim: Restart policy Always, with back-off. Broken: never restarted.
func TestCrashLoop(t *testing.T) {
	h := startHost(t)
	h.create(h.script("p", "exit 5"))
	h.await("p", "backs off", func(pod *corev1.Pod) string {
		for _, status := range pod.Status.ContainerStatuses {
			if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" && status.LastTerminationState.Terminated != nil && status.LastTerminationState.Terminated.ExitCode == 5 {
				return ""
			}
		}
		return "it does not back off"
	})
	h.awaitEvent("p", "BackOff", "main")
	pod := h.await("p", "was restarted again", func(pod *corev1.Pod) string {
		if mainStatus(pod).RestartCount < 3 {
			return "it was not"
		}
		return ""
	})
	if pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the phase is %s", pod.Status.Phase)
	}
	h.delete("p", metav1.DeleteOptions{})
	h.awaitGone("p")
}

func TestInitContainersRunInOrder(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", "cat /work/order; exec sleep 1000")
	shell := func(name, script string) corev1.Container {
		return corev1.Container{Name: name, Image: "host", Command: []string{"/bin/sh", "-c", script}}
	}
	pod.Spec.InitContainers = []corev1.Container{
		shell("one", "sleep 0.3; echo one >>/work/order"),
		// It fails once, which the pod's restart policy forgives.
		shell("two", "test -f /work/failed && echo again >>/work/order || { echo two >>/work/order; touch /work/failed; exit 1; }"),
	}
	withEmptyDir(pod, "/work")
	h.create(pod)
	h.awaitReady("p")
	h.awaitLog("p", "one\ntwo\nagain\n")

	failing := h.script("failing", "exec sleep 1000")
	failing.Spec.RestartPolicy = corev1.RestartPolicyNever
	failing.Spec.InitContainers = []corev1.Container{shell("init", "exit 4")}
	h.create(failing)
	status := h.awaitPhase("failing", corev1.PodFailed).Status
	if status.InitContainerStatuses[0].State.Terminated.ExitCode != 4 || status.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("the status is %+v", status)
	}
}

const stubborn = `trap "" TERM; echo "process $$$$"; while :; do sleep 0.1; done`

// Claim: Grace period. Broken: no grace.
func TestGracePeriod(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", stubborn)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3)
	h.create(pod)
	h.killedAfterGrace("p", "main", 3*time.Second)
}

// While an init container runs, no container of the pod seems to.
func TestGracePeriodOfInitContainer(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", "exec sleep 1000")
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "host", Command: []string{"/bin/sh", "-c", stubborn}}}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
	h.create(pod)
	h.killedAfterGrace("p", "init", 2*time.Second)
}

// killedAfterGrace deletes a pod whose process ignores SIGTERM.
func (h *testHost) killedAfterGrace(name, container string, grace time.Duration) {
	h.t.Helper()
	var process int
	h.eventually("the process is known", func() error {
		log, err := h.logs(name, corev1.PodLogOptions{Container: container})
		if err == nil {
			_, err = fmt.Sscanf(log, "process %d", &process)
		}
		return err
	})
	asked := time.Now()
	h.delete(name, metav1.DeleteOptions{})
	h.eventually("the object is gone", func() error {
		running := alive(process)
		_, err := h.get(name)
		if apierrors.IsNotFound(err) {
			if running {
				h.t.Error("the object was gone before the process")
			}
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	if took := time.Since(asked); took < grace {
		h.t.Errorf("it was gone after %s", took)
	}
	if alive(process) {
		h.t.Error("the process outlived its pod")
	}
}

func TestGracePeriodIsShortened(t *testing.T) {
	h := startHost(t)
	h.create(h.script("impatient", stubborn))
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
	h.create(h.script("forced", stubborn))
	process = h.announced("forced")
	h.delete("forced", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	h.eventually("the process has ended", func() error {
		if alive(process) {
			return fmt.Errorf("process %d runs", process)
		}
		return nil
	})
}

func TestPodIsReplacedByOneOfTheSameName(t *testing.T) {
	h := startHost(t)
	h.create(h.script("p", stubborn))
	old := h.awaitReady("p")
	h.delete("p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	h.create(h.script("p", stubborn))
	replaced := h.awaitReady("p")
	if replaced.UID == old.UID || replaced.Status.PodIP == old.Status.PodIP {
		t.Errorf("pod %s at %s was replaced by %s at %s", old.UID, old.Status.PodIP, replaced.UID, replaced.Status.PodIP)
	}
}

// All pods may use the same port number.
func TestPodsHaveAddressesOfTheirOwn(t *testing.T) {
	h := startHost(t, withServer(t))
	for _, name := range []string{"a", "b"} {
		pod := h.server(name)
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "GREETING", Value: "I am " + name})
		h.create(pod)
	}
	for _, name := range []string{"a", "b"} {
		pod := h.awaitReady(name)
		h.eventually("pod "+name+" answers", func() error {
			answer, err := get("http://" + net.JoinHostPort(pod.Status.PodIP, serverPort) + "/greeting")
			if err == nil && answer != "I am "+name {
				err = fmt.Errorf("it says %q", answer)
			}
			return err
		})
	}
}

func TestManyPodsStartAtOnce(t *testing.T) {
	h := startHost(t)
	const pods = 60
	began := time.Now()
	for i := range pods {
		h.create(h.script(fmt.Sprintf("p-%d", i), "exec sleep 1000"))
	}
	addresses := make(map[string]bool)
	for i := range pods {
		addresses[h.awaitReady(fmt.Sprintf("p-%d", i)).Status.PodIP] = true
	}
	t.Logf("%d pods were ready %s after the first was created", pods, time.Since(began).Round(time.Millisecond))
	if len(addresses) != pods {
		t.Errorf("%d pods have %d addresses", pods, len(addresses))
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

func withEmptyDir(pod *corev1.Pod, path string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	mount := corev1.VolumeMount{Name: "empty", MountPath: path}
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].VolumeMounts = append(pod.Spec.InitContainers[i].VolumeMounts, mount)
	}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts = append(pod.Spec.Containers[i].VolumeMounts, mount)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text := make([]byte, 1024)
	n, _ := response.Body.Read(text)
	return string(text[:n]), nil
}
