package hollownode

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

func rolesPod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "init"},
			{Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		},
		Containers: []corev1.Container{{Name: "main"}},
	}}
}

func TestProbesFollowTheContainers(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	exited := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	for name, test := range map[string]struct {
		container      string
		state          corev1.ContainerState
		ready, started bool
	}{
		"running main":    {"main", running, true, true},
		"exited main":     {"main", exited(0), false, false},
		"waiting main":    {"main", corev1.ContainerState{}, false, false},
		"running init":    {"init", running, false, true},
		"succeeded init":  {"init", exited(0), true, false},
		"failed init":     {"init", exited(1), false, false},
		"running sidecar": {"sidecar", running, true, true},
		"exited sidecar":  {"sidecar", exited(0), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			given := corev1.ContainerStatus{Name: test.container, State: test.state}
			status := &corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{given}}
			got := &status.InitContainerStatuses[0]
			if test.container == "main" {
				status = &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{given}}
				got = &status.ContainerStatuses[0]
			}
			succeedingProbes{}.UpdatePodStatus(context.Background(), rolesPod(), status)
			if got.Ready != test.ready || got.Started == nil || *got.Started != test.started {
				t.Errorf("want ready %t, started %t; got %t, %v", test.ready, test.started, got.Ready, got.Started)
			}
		})
	}
}

// Whatever a probe would do, it becomes a command that the runtime answers; its times and thresholds stay.
func TestProbesAreKeptInTheProcess(t *testing.T) {
	probe := func(handler corev1.ProbeHandler) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: handler, InitialDelaySeconds: 3, PeriodSeconds: 7, FailureThreshold: 2, TerminationGracePeriodSeconds: ptr.To[int64](9)}
	}
	pod := rolesPod()
	pod.Spec.InitContainers[1].StartupProbe = probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}})
	pod.Spec.Containers[0].ReadinessProbe = probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.0.0.7"}})
	pod.Spec.Containers[0].LivenessProbe = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "10.0.0.7"}})
	pod.Spec.Containers[0].StartupProbe = probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}})
	before := pod.DeepCopy()
	kept := withKeptProbes(pod)
	if !equality.Semantic.DeepEqual(pod, before) {
		t.Error("the kubelet's own pod was changed")
	}
	for _, test := range []struct {
		probe *corev1.Probe
		kind  fakecri.Probe
	}{
		{kept.Spec.InitContainers[1].StartupProbe, fakecri.StartupProbe},
		{kept.Spec.Containers[0].StartupProbe, fakecri.StartupProbe},
		{kept.Spec.Containers[0].ReadinessProbe, fakecri.ReadinessProbe},
		{kept.Spec.Containers[0].LivenessProbe, fakecri.LivenessProbe},
	} {
		want := probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: test.kind.Command()}})
		if !equality.Semantic.DeepEqual(test.probe, want) {
			t.Errorf("%s probe: got %+v, want %+v", test.kind, test.probe, want)
		}
	}
	if init := kept.Spec.InitContainers[0]; init.StartupProbe != nil || init.ReadinessProbe != nil || init.LivenessProbe != nil {
		t.Error("a container without probes got one")
	}
}

func TestRoles(t *testing.T) {
	pods := &podIndex{}
	if got := pods.roleOf("ns", "p", "init"); got != fakecri.MainContainer {
		t.Errorf("without a kubelet: role %v", got)
	}
	pods.useLookup(func(namespace, name string) (*corev1.Pod, bool) {
		return rolesPod(), namespace == "ns" && name == "p"
	})
	for container, want := range map[string]fakecri.Role{
		"main": fakecri.MainContainer, "init": fakecri.InitContainer, "sidecar": fakecri.Sidecar,
	} {
		if got := pods.roleOf("ns", "p", container); got != want {
			t.Errorf("%s: want role %v, got %v", container, want, got)
		}
	}
	if got := pods.roleOf("ns", "gone", "init"); got != fakecri.MainContainer {
		t.Errorf("of a pod that is gone: role %v", got)
	}
}
