package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// pod returns a pod that is bound to the node.
func (p *process) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name + "-" + name, Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeName:   p.name,
			Containers: []corev1.Container{{Name: "main", Image: "nginx:1.27"}},
		},
	}
	for _, apply := range change {
		apply(pod)
	}
	return pod
}

// create makes the pod and returns it when the check accepts it.
func (p *process) create(t *testing.T, pod *corev1.Pod, check func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	pods := p.client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var found *corev1.Pod
	eventually(t, "pod "+pod.Name, time.Minute, func(ctx context.Context) error {
		var err error
		if found, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err := check(found); err != nil {
			return fmt.Errorf("%w: %+v", err, found.Status)
		}
		return nil
	})
	return found
}

func isReady(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning {
			return nil
		}
	}
	return errors.New("not running and ready")
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("want phase %s", phase)
		}
		return nil
	}
}

func TestPodsRunWithAddressesOfTheNode(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("pods"), goodToken)
	node := p.join(t)
	cidr, err := netip.ParsePrefix(node.Spec.PodCIDR)
	if err != nil {
		t.Fatalf("pod CIDR of the node: %v", err)
	}
	seen := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		ip := p.create(t, p.pod(name), isReady).Status.PodIP
		address, err := netip.ParseAddr(ip)
		if err != nil || !cidr.Contains(address) || seen[ip] {
			t.Errorf("pod %s: address %q is not a new one of %s", name, ip, cidr)
		}
		seen[ip] = true
	}
	onHost := p.create(t, p.pod("host", func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }), isReady)
	if onHost.Status.PodIP != nodeAddress {
		t.Errorf("pod on the host network: want the node's address %s, got %s", nodeAddress, onHost.Status.PodIP)
	}

	p.deleteAndWait(t, p.name+"-a")
	eventually(t, "events of the pod are recorded", time.Minute, func(ctx context.Context) error {
		list, err := p.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.name + "-a"})
		if err != nil {
			return err
		}
		reasons := map[string]bool{}
		for _, event := range list.Items {
			reasons[event.Reason] = true
		}
		for _, want := range []string{"Pulled", "Created", "Started", "Killing"} {
			if !reasons[want] {
				return fmt.Errorf("no event %s among %v", want, reasons)
			}
		}
		return nil
	})
}

func (p *process) deleteAndWait(t *testing.T, name string) {
	t.Helper()
	pods := p.client.CoreV1().Pods("default")
	if err := pods.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", time.Minute, func(ctx context.Context) error {
		if _, err := pods.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("want it not found, got %s", fmt.Sprint(err))
		}
		return nil
	})
}

func TestPodsEndAsTheirAnnotationsSay(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("ends"), goodToken)
	p.join(t)
	ending := func(code string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			pod.Annotations = map[string]string{"hollowfleet.io/exit-after": "1s", "hollowfleet.io/exit-code": code}
		}
	}
	p.create(t, p.pod("succeeds", ending("0")), inPhase(corev1.PodSucceeded))
	failed := p.create(t, p.pod("fails", ending("7")), inPhase(corev1.PodFailed))
	if code := failed.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 7 {
		t.Errorf("want exit code 7, got %d", code)
	}
}

// TestAPodWithEverything has what pods in real clusters have: init containers, a sidecar, probes, hooks, a
// user and group of its own, and volumes.
func TestAPodWithEverything(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("everything"), goodToken)
	p.join(t)
	ctx := context.Background()
	if _, err := p.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"}, Data: map[string]string{"of-config-map": "x"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"}, StringData: map[string]string{"of-secret": "x"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := p.create(t, p.pod("pod", everything), isReady)
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if status.RestartCount != 0 {
			t.Errorf("container %s was restarted %d times", status.Name, status.RestartCount)
		}
	}
	files := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(p.stateDir(), "kubelet", "pods", string(pod.UID)), func(path string, _ fs.DirEntry, err error) error {
		files[filepath.Base(path)] = true
		return err
	})
	for _, want := range []string{"of-config-map", "of-secret", "of-pod", "token"} {
		if err != nil || !files[want] {
			t.Errorf("no file %s of the pod's volumes below the state directory: %v", want, err)
		}
	}
	p.deleteAndWait(t, pod.Name)
}

func everything(pod *corev1.Pod) {
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1000)), FSGroup: ptr.To(int64(2000))}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(3))
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: "busybox"},
		{Name: "sidecar", Image: "busybox", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	probe.TCPSocket.Port.IntVal = 80
	hook := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	main := &pod.Spec.Containers[0]
	main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = probe, probe.DeepCopy(), probe.DeepCopy()
	main.Lifecycle = &corev1.Lifecycle{PostStart: hook, PreStop: hook}
	main.Resources.Limits = corev1.ResourceList{"example.com/gpu": *newQuantity(1)}
	for name, source := range map[string]corev1.VolumeSource{
		"config": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "everything"}}},
		"secret": {Secret: &corev1.SecretVolumeSource{SecretName: "everything"}},
		"disk":   {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		"memory": {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		"host":   {HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere/at/all", Type: ptr.To(corev1.HostPathFile)}},
		"api": {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "of-pod", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
		}}}},
	} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name, SubPath: subPath(name)})
	}
}

func subPath(volume string) string {
	if volume == "disk" {
		return "below"
	}
	return ""
}
