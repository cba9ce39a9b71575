package pods

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

// pending is a pod as the API server has it before anything of it runs.
func pending() *corev1.Pod {
	requests := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: rendering.ControlPlaneContainer, Resources: requests("40m", "320Mi")}},
		Containers:     []corev1.Container{{Name: rendering.AgentContainer, Resources: requests("10m", "64Mi")}},
	}}
	pod.Name = rendering.PodName
	return pod
}

func unscheduled(message string) *corev1.Pod {
	pod := pending()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}
	return pod
}

func controlPlane(state, last corev1.ContainerState) *corev1.Pod {
	pod := pending()
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: rendering.ControlPlaneContainer, State: state, LastTerminationState: last}}
	return pod
}

// Claim: A full host names what pods request; ended containers say why. Broken: the requests left out; the end before a back-off left out.
func TestDescribePod(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: "starting\nsimcluster: cannot go back to 1.36\n"}}
	long := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: strings.Repeat("ä", longestLine)}}
	for _, test := range []struct {
		name      string
		pod       *corev1.Pod
		want      string
		isFailing bool
	}{
		{"missing", nil, "its pod is missing: kubectl describe statefulset says why", false},
		{
			"no room", unscheduled("0/1 nodes are available: 1 Insufficient cpu."),
			"pod simcluster-0 is not scheduled: the host has no room for the 50m of CPU and 384Mi of memory that it requests, lower spec.resources.requests, give the host more nodes or remove simulated clusters: 0/1 nodes are available: 1 Insufficient cpu.", true,
		},
		{"no volume", unscheduled("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."), "pod simcluster-0 is not scheduled: 0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", true},
		{"ended", controlPlane(ended, corev1.ContainerState{}), "container simcluster has ended with status 2: Error: simcluster: cannot go back to 1.36", false},
		{
			"back-off", controlPlane(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}, ended),
			"container simcluster waits: CrashLoopBackOff: back-off 10s; container simcluster has ended with status 2: Error: simcluster: cannot go back to 1.36", true,
		},
		{
			"out of memory", controlPlane(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}, corev1.ContainerState{}),
			"container simcluster has ended with status 137: OOMKilled: raise spec.resources.limits.memory, or give the host nodes with more memory", false,
		},
		{"long", controlPlane(long, corev1.ContainerState{}), "container simcluster has ended with status 1: Error: " + strings.Repeat("ä", longestLine/2) + "…", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, state := NewWithT(t), describePod(test.pod)
			g.Expect(strings.Join(state.problems, "; ")).To(Equal(test.want))
			g.Expect(state.isFailing).To(Equal(test.isFailing))
		})
	}
}
