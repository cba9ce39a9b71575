package podhost_test

import (
	"crypto/tls"
	"net"
	"net/http"
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

// A pod that names the Node is bound to it past the scheduler. Its script must not run on the machine.
// Claim: A podhost starts only hollow nodes. Broken: code before the guard: the script of the review ran as root; the guard not asked; each of its checks left out; a configuration from an annotation; no volume, so that the machine's own directory is used. Also: agent/simulator/internal/podhost/hollowpod TestWhatIsNotAHollowNode, TestThePodOfAnAgentIsAHollowNode.
// Claim: A refusal is an event. Broken: no event.
func TestNothingRunsButHollowNodes(t *testing.T) {
	h := startHost(t)
	script := h.pod("p")
	script.Spec = corev1.PodSpec{
		NodeName:   h.node,
		Containers: []corev1.Container{{Name: "main", Image: image, Command: []string{"/bin/sh"}}, {Name: "other", Image: image}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
	}
	script.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	h.create(script)
	for _, text := range []string{`spec.containers[0].command: want ["/hollow-node"], got ["/bin/sh"]; `, " more: this podhost runs hollow-node pods only, as an agent makes them"} {
		h.awaitRefused("p", podlife.ReasonUnsupported, text)
	}
	if left := h.packs(); len(left) > 0 {
		t.Errorf("there are processes: %v", left)
	}
	h.delete("p", metav1.DeleteOptions{})
	h.awaitGone("p")

	other := startHost(t, func(o *podhost.Options) { o.HollowNodesOf = "hollowfleet" })
	other.runs("p", "")
	other.awaitRefused("p", podlife.ReasonUnsupported, "metadata.namespace: its pods are in namespace hollowfleet: this podhost runs hollow-node pods only")
}

// The rendered pod comes back from a real API server with all its defaults. A person may change its image, and little else: an agent makes
// another pod then, so that the node continues as it is.
func TestUnknownImageIsRefusedUntilItIsKnown(t *testing.T) {
	h := startHost(t)
	h.createSecret("p", "")
	pod := h.pod("p")
	pod.Spec.Containers[0].Image = "registry.example/other:v1"
	h.create(pod)
	h.awaitRefused("p", podlife.ReasonImageUnknown, "known are "+image+": start the podhost with --image registry.example/other=DIRECTORY")
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h.options.Images["registry.example/other"] = h.options.Images[image]
	h.start()
	h.awaitReady("p")

	h.eventually("the image is changed", func() error {
		pod, err := h.get("p")
		if err != nil {
			return err
		}
		pod.Spec.Containers[0].Image = "unknown"
		_, err = h.client.CoreV1().Pods(h.namespace).Update(t.Context(), pod, metav1.UpdateOptions{})
		return err
	})
	h.await("p", "has seen the change", func(pod *corev1.Pod) string {
		return map[bool]string{true: "it has not"}[pod.Status.ObservedGeneration != pod.Generation]
	})
	if got := h.awaitReady("p"); mainStatus(got).RestartCount != 0 || mainStatus(got).Image != "registry.example/other:v1" {
		t.Errorf("the status is %s", summary(got))
	}
}

// The logs of a pod can be followed to its end.
func TestLogsAreFollowed(t *testing.T) {
	h := startHost(t)
	h.runs("p", "")
	h.awaitReady("p")
	log := make(chan string, 1)
	go func() {
		followed, _ := h.logs("p", corev1.PodLogOptions{Follow: true})
		log <- followed
	}()
	h.patchSecret("p", "second")
	h.awaitLog("p", "second")
	ready, _ := h.get("p")
	h.ask(ready, "/kill") // Its end is that of one run.
	if got := <-log; !strings.Contains(got, "value <second> plan <>\nasked to end\n") {
		t.Errorf("the log is %q", got)
	}
	if log, err := h.logs("p", corev1.PodLogOptions{Previous: true, TailLines: ptr.To[int64](1)}); err != nil || log != "asked to end\n" {
		t.Errorf("the last line is %q (%v)", log, err)
	}
}

// The kubelet's port must not give the logs to every user of the machine.
func TestKubeletAPIWantsAuthorization(t *testing.T) {
	h := startHost(t)
	h.runs("p", "")
	h.awaitLog("p", "process")
	node, err := h.client.CoreV1().Nodes().Get(t.Context(), h.node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := net.JoinHostPort(node.Status.Addresses[0].Address, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	url := "https://" + server + "/containerLogs/" + h.namespace + "/p/hollow-node"
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
