package podhost_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
)

// awaitRefused waits until the pod's first container waits for the reason with
// a message that has the text.
func (h *testHost) awaitRefused(name, reason, text string) {
	h.t.Helper()
	h.await(name, "is refused with "+text, func(pod *corev1.Pod) string {
		if pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) > 0 {
			waiting := mainStatus(pod).State.Waiting
			if waiting != nil && waiting.Reason == reason && strings.Contains(waiting.Message, text) {
				return ""
			}
		}
		return "it is not"
	})
	h.awaitEvent(name, reason, text)
}

// Claim: A refusal is an event. Broken: no event.
func TestUnsupportedFieldsAreRefused(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", "exec sleep 1000")
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	h.create(pod)
	h.awaitRefused("p", podlife.ReasonUnsupported, "spec.containers[0].securityContext.privileged: ")
	h.awaitRefused("p", podlife.ReasonUnsupported, "spec.volumes[0].hostPath: ")
	h.delete("p", metav1.DeleteOptions{})
	h.awaitGone("p")

	token := h.script("token", "exec sleep 1000")
	token.Spec.AutomountServiceAccountToken = nil
	h.create(token)
	h.awaitRefused("token", podlife.ReasonUnsupported, "automountServiceAccountToken: false")
}

func TestUnknownImageIsRefusedUntilItIsKnown(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", "exec sleep 1000")
	pod.Spec.Containers[0].Image = "registry.example/other:v1"
	h.create(pod)
	h.awaitRefused("p", podlife.ReasonImageUnknown, "known are host: start the podhost with --image registry.example/other=DIRECTORY")
	h.setImage("p", "host:v2")
	h.awaitReady("p")

	// A running pod keeps its image if the new one is unknown.
	h.setImage("p", "unknown")
	h.awaitEvent("p", podlife.ReasonImageUnknown, `"unknown"`)
	if got := h.awaitReady("p"); mainStatus(got).RestartCount != 0 || mainStatus(got).Image != "host:v2" {
		t.Errorf("the status is %s", summary(got))
	}
	// One that is known restarts it.
	h.setImage("p", "host:v3")
	h.await("p", "is restarted with the new image", func(pod *corev1.Pod) string {
		status := mainStatus(pod)
		if status.Image != "host:v3" || status.RestartCount != 1 || status.State.Running == nil {
			return "it is not"
		}
		return ""
	})
}

func (h *testHost) setImage(name, image string) {
	h.t.Helper()
	h.eventually("the image is set to "+image, func() error {
		pod, err := h.get(name)
		if err != nil {
			return err
		}
		pod.Spec.Containers[0].Image = image
		_, err = h.client.CoreV1().Pods(h.namespace).Update(h.t.Context(), pod, metav1.UpdateOptions{})
		return err
	})
}

// The pods of hollow nodes ask for all of this.
func TestRestrictedSecurityContext(t *testing.T) {
	// Like a directory below root's home, which the pod's user cannot reach.
	h := startHost(t, func(o *podhost.Options) {
		if err := os.Chmod(filepath.Dir(o.DataDir), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	h.createSecret(h.secret("s", "key", "readable"))
	pod := h.script("p", `id -u; id -g; grep NoNewPrivs /proc/self/status; cat /secrets/key; echo; echo written >/work/file && cat /work/file; echo "in $TMPDIR" >$TMPDIR/file && cat $TMPDIR/file; exec sleep 1000`)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	withVolume(pod, "/secrets", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr.To[int32](0o400)}})
	withVolume(pod, "/work", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	h.create(pod)
	h.awaitReady("p")
	log := h.awaitLog("p", "in /")
	uid, gid := 65532, 65532
	if os.Geteuid() != 0 {
		uid, gid = os.Getuid(), os.Getgid()
	}
	if want := fmt.Sprintf("%d\n%d\nNoNewPrivs:\t1\nreadable\nwritten\nin /", uid, gid); !strings.HasPrefix(log, want) {
		t.Errorf("the log is %q, want it to start with %q", log, want)
	}
}

// The logs of a pod can be followed to its end.
func TestLogsAreFollowed(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", "for i in 1 2 3; do echo line $i; sleep 0.3; done")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	h.create(pod)
	h.awaitLog("p", "line 1")
	log, err := h.logs("p", corev1.PodLogOptions{Follow: true})
	if err != nil || log != "line 1\nline 2\nline 3\n" {
		t.Errorf("the log is %q (%v)", log, err)
	}
	h.awaitPhase("p", corev1.PodSucceeded)
	if log, err := h.logs("p", corev1.PodLogOptions{TailLines: ptr.To[int64](1)}); err != nil || log != "line 3\n" {
		t.Errorf("the last line is %q (%v)", log, err)
	}
}

// The kubelet's port must not give the logs to every user of the machine.
func TestKubeletAPIWantsAuthorization(t *testing.T) {
	h := startHost(t)
	h.create(h.script("p", "echo secret; exec sleep 1000"))
	h.awaitLog("p", "secret")
	node, err := h.client.CoreV1().Nodes().Get(t.Context(), h.node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := net.JoinHostPort(node.Status.Addresses[0].Address, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	url := "https://" + server + "/containerLogs/" + h.namespace + "/p/main"
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger got %s", response.Status)
	}
}

// A pod that names the Node is bound to it past the scheduler. Its script must not run on the machine.
// Claim: A podhost starts only hollow nodes. Broken: code before the guard: the script of the review ran as root; the guard not asked; each of its checks left out; a configuration from an annotation; no volume, so that the machine's own directory is used. Also: agent/simulator/internal/podhost/support TestWhatIsNotAHollowNode, TestThePodOfAnAgentIsAHollowNode.
func TestNothingRunsButHollowNodes(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) { o.HollowNodesOf = o.Name })
	proof := filepath.Join(t.TempDir(), "ran")
	h.create(h.script("p", "echo ran >"+proof+"; exec sleep 1000"))
	h.awaitRefused("p", podlife.ReasonUnsupported, "spec.containers[0].command: this podhost runs the command /hollow-node only")

	other := startHost(t, func(o *podhost.Options) { o.HollowNodesOf = "hollowfleet" })
	other.create(other.script("p", "echo ran >"+proof+"; exec sleep 1000"))
	other.awaitRefused("p", podlife.ReasonUnsupported, "metadata.namespace: this podhost runs hollow-node pods of namespace hollowfleet only")
	if _, err := os.Stat(proof); err == nil {
		t.Error("the script has run")
	}
}
