package hollownode

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

// TestKubelet builds a kubelet, without an API server, and so pins everything private that tuning touches.
// A process can build only one.
func TestKubelet(t *testing.T) {
	klog.SetOutput(io.Discard) // it complains that there is no API server
	klog.LogToStderr(false)
	for _, version := range []string{"v1.29.4", "v1.40.0"} {
		if err := kubeletversion.Report(version); err != nil {
			t.Fatal(err)
		}
	}
	configuration := testConfiguration()
	configuration.Capacity["example.com/gpu"] = configuration.Capacity[corev1.ResourceCPU]
	n, err := newNode(configuration, testOptions(t, configuration))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	k, _, err := n.build(ctx, &rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	validate, err := getField[func(net.IP) error](k, "nodeIPValidator")
	if err != nil || validate(net.IPv4(127, 0, 0, 1)) != nil {
		t.Errorf("a loopback address is refused: %v", err)
	}
	manager, err := getField[volumemanager.VolumeManager](k, "volumeManager")
	if _, paced := manager.(pacedVolumes); err != nil || !paced {
		t.Errorf("the volume manager is %T, %v", manager, err)
	}
	checkSandboxStatusIsOrdered(t, k)
}

// checkSandboxStatusIsOrdered fails if what the kubelet says of a ready sandbox can come after what it says of
// the containers in it.
func checkSandboxStatusIsOrdered(t *testing.T, k *kubelet.Kubelet) {
	t.Helper()
	statuses, err := getField[status.Manager](k, "statusManager")
	if err != nil {
		t.Fatal(err)
	}
	helper, err := getField[kubecontainer.RuntimeHelper](k, "containerRuntime", "runtimeHelper")
	if err != nil {
		t.Fatal(err)
	}
	logger := klog.Background()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "herd-1", UID: "1", Generation: 1}}
	statuses.SetPodStatus(logger, pod, corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Reason: "PodSandboxNotReady"},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse},
	}})
	before, _ := statuses.GetPodStatus(pod.UID)
	if err := helper.OnPodSandboxReady(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	reported, _ := statuses.GetPodStatus(pod.UID)
	_, sandbox := podutil.GetPodCondition(&reported, corev1.PodReadyToStartContainers)
	if sandbox == nil || sandbox.Status != corev1.ConditionTrue || sandbox.Reason != "" || sandbox.ObservedGeneration != 1 || len(reported.Conditions) != 2 {
		t.Errorf("the sandbox is not reported as ready before the kubelet goes on: %+v", reported.Conditions)
	}
	if before.Conditions[0].Status != corev1.ConditionFalse {
		t.Error("a status that somebody else has read was changed")
	}
}

func TestFieldsThatAreNotThereAreErrors(t *testing.T) {
	type inner struct{ number int }
	target := &struct{ in *inner }{&inner{1}}
	if err := setField(target, 2, "in", "number"); err != nil || target.in.number != 2 {
		t.Fatalf("setting a private field: %v, %+v", err, target.in)
	}
	for want, set := range map[string]func() error{
		"no field nothing": func() error { return setField(target, 2, "nothing") },
		"no struct":        func() error { return setField(target, 2, "in", "number", "deeper") },
		"want a int":       func() error { return setField(target, "2", "in", "number") },
		"got a int": func() error {
			_, err := getField[string](target, "in", "number")
			return err
		},
	} {
		if err := set(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
