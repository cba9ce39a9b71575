package hollownode

import (
	"context"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// TestKubelet builds a kubelet, without an API server, and so pins everything private that tuning touches.
// Claim: A Ready pod is not reported Pending. Broken: the kubelet's own order; the status set in a goroutine; set in the cache itself.
// Claim: A late kubelet says so. Broken: no pod is late; late just after a runtime that was made to fail; a disrupted Node counts. Also: agent/internal/loadtest/measurement TestLateKubelets; agent/internal/loadtest TestLateHeartbeats, TestInvalidity.
// Edge case: HTTP hooks reached real machines.
func TestKubelet(t *testing.T) {
	klog.SetOutput(io.Discard) // it complains that there is no API server
	klog.LogToStderr(false)
	restoreFeatures(t)
	configuration := testConfiguration()
	// Fast has its own prober instead of the kubelet's, and changes nothing else that is private.
	realistic := contract.Realistic()
	configuration.Fidelity = &realistic
	configuration.Capacity["example.com/gpu"] = configuration.Capacity[corev1.ResourceCPU]
	n, err := newNode(configuration, testOptions(t, configuration))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	k, _, err := n.buildKubelet(ctx, &rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	validate, err := getField[func(net.IP) error](k, nodeIPValidator)
	if err != nil || validate(net.IPv4(127, 0, 0, 1)) != nil {
		t.Errorf("a loopback address is refused: %v", err)
	}
	manager, err := getField[volumemanager.VolumeManager](k, volumeManager)
	if _, paced := manager.(pacedVolumes); err != nil || !paced {
		t.Errorf("the volume manager is %T, %v", manager, err)
	}
	checkSandboxStatusIsOrdered(t, k)
	checkPressure(t, k, n.disruption)
	checkWorkQueueIsWatched(t, k, n.runtime.Gate())
	checkHooksAreKept(t, k)
	checkProbesAreKept(t, k, n.runtime)
	checkAPI(ctx, t, n, k) // The last one: logs hide what the others look at.
	if !utilfeature.DefaultFeatureGate.Enabled(features.PodCertificateRequest) {
		t.Error("the kubelet does not watch PodCertificateRequests, which the configuration asks for")
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.UserNamespacesSupport) {
		t.Error("the kubelet has user namespaces, for which it reads /etc/passwd")
	}
}

// checkAPI fails if the kubelet's server cannot be made, or answers anyone.
func checkAPI(ctx context.Context, t *testing.T, n *node, k *kubelet.Kubelet) {
	t.Helper()
	if err := wrapLogs(k, n.runtime); err != nil {
		t.Error(err)
	}
	handler, err := n.newAPIHandler(ctx, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/pods", "/metrics", "/metrics/resource", "/stats/summary", "/healthz", "/logs/", "/debug/pprof/", "/exec/a/b/c"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != http.StatusUnauthorized {
			t.Errorf("%s answers an unknown caller with %d", path, answer.Code)
		}
	}
}

// restoreFeatures turns all features on again at the end of the test: with one that is locked and off, the kubelet's
// defaults cannot be computed.
func restoreFeatures(t *testing.T) {
	t.Helper()
	field, err := enabledFeatures.fieldOf(utilfeature.DefaultMutableFeatureGate)
	if err != nil {
		t.Fatal(err)
	}
	enabled := field.Addr().Interface().(*atomic.Value)
	before := enabled.Load()
	t.Cleanup(func() { enabled.Store(before) })
}

// checkHooksAreKept fails if an HTTP hook is sent to the pod's address.
func checkHooksAreKept(t *testing.T, k *kubelet.Kubelet) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)
	runner, err := getField[kubecontainer.HandlerRunner](k, hookRunner)
	if err != nil {
		t.Fatal(err)
	}
	hook := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: address.IP.String(), Port: intstr.FromInt(address.Port)}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hooked", UID: "2"}}
	if _, err := runner.Run(t.Context(), kubecontainer.ContainerID{}, pod, &corev1.Container{Name: "c"}, hook); err != nil {
		t.Errorf("an HTTP hook fails: %v", err)
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("an HTTP hook sent %d requests out of the process", n)
	}
}

// checkProbesAreKept fails if the kubelet's prober does not make a container ready, or does so by a request to the pod.
func checkProbesAreKept(t *testing.T, k *kubelet.Kubelet, runtime *fakecri.Runtime) {
	t.Helper()
	probes, err := getField[prober.Manager](k, probeManager)
	if err != nil {
		t.Fatal(err)
	}
	statuses, err := getField[status.Manager](k, statusManager)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)
	handler := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: address.IP.String(), Port: intstr.FromInt(address.Port)}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probed", UID: "3"}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", ReadinessProbe: &corev1.Probe{
		ProbeHandler: handler, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}}}
	probed := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "c", ContainerID: "hollow://" + runContainer(t, runtime, pod),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}, Started: new(true),
	}}}
	statuses.SetPodStatus(klog.Background(), pod, probed)
	probes.AddPod(t.Context(), pod)
	defer probes.RemovePod(pod)
	if probes.UpdatePodStatus(t.Context(), pod, &probed); probed.ContainerStatuses[0].Ready {
		t.Error("a container is ready before its first probe")
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		probes.UpdatePodStatus(ctx, pod, &probed)
		return probed.ContainerStatuses[0].Ready, nil
	})
	if err != nil {
		t.Errorf("the container is not ready: %v", err)
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("a probe sent %d requests out of the process", n)
	}
}

// runContainer runs the first container of a pod without a kubelet, and returns its ID.
func runContainer(t *testing.T, runtime *fakecri.Runtime, pod *corev1.Pod) string {
	t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID)},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}},
	}
	sandbox, err := runtime.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	id, err := runtime.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: pod.Spec.Containers[0].Name}, Image: &runtimeapi.ImageSpec{Image: "x"},
	}, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// checkSandboxStatusIsOrdered fails if what the kubelet says of a ready sandbox can come after what it says of
// the containers in it.
func checkSandboxStatusIsOrdered(t *testing.T, k *kubelet.Kubelet) {
	t.Helper()
	statuses, err := getField[status.Manager](k, statusManager)
	if err != nil {
		t.Fatal(err)
	}
	helper, err := getField[kubecontainer.RuntimeHelper](k, runtimeHelper)
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
		t.Errorf("the sandbox is not reported as ready before the kubelet continues: %+v", reported.Conditions)
	}
	if before.Conditions[0].Status != corev1.ConditionFalse {
		t.Error("a status that another caller has read was changed")
	}
}

func TestFieldsThatAreNotThereAreErrors(t *testing.T) {
	type inner struct{ number int }
	target := &struct{ in *inner }{&inner{1}}
	number := private{"in.number", "of a test"}
	if err := setField(target, number, 2); err != nil || target.in.number != 2 {
		t.Fatalf("setting a private field: %v, %+v", err, target.in)
	}
	for want, set := range map[string]func() error{
		"no field nothing: a hollow kubelet needs it, because of a test": func() error { return setField(target, private{"nothing", "of a test"}, 2) },
		"no struct":  func() error { return setField(target, private{"in.number.deeper", "of a test"}, 2) },
		"want a int": func() error { return setField(target, number, "2") },
		"got a int": func() error {
			_, err := getField[string](target, number)
			return err
		},
	} {
		if err := set(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestPrivateFieldsAreInOnePlace keeps the work that a new version of Kubernetes makes in one file: no other one reaches past
// Go's rules, but one that turns metrics of work queues off, and one that lets an API server have one connection to etcd.
// Edge case: Private Kubernetes fields were used everywhere. Also: TestFieldsThatAreNotThereAreErrors, TestKubelet.
func TestPrivateFieldsAreInOnePlace(t *testing.T) {
	var found []string
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imported := range file.Imports {
			if imported.Path.Value == `"unsafe"` {
				found = append(found, filepath.ToSlash(path))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"../../internal/hollownode/private.go", "../../internal/plane/etcdclient.go", "../../internal/plane/routes.go", "../../internal/queuemetrics/queuemetrics.go",
		"../../minors/v1.36/devices.go", "../../minors/v1.36/shutdown.go", "../../minors/v1.37/devices.go", "../../minors/v1.37/shutdown.go",
	}
	if !slices.Equal(found, want) {
		t.Errorf("package unsafe is imported by %q, want %q", found, want)
	}
}
