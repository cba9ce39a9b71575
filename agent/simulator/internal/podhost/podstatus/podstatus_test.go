package podstatus

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

var (
	creating  = corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	running   = corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	succeeded = ended(0)
	failed    = ended(1)
	crashing  = corev1.ContainerStatus{State: creating.State, LastTerminationState: failed.State}
)

func ended(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func TestPhase(t *testing.T) {
	for name, test := range map[string]struct {
		containers []corev1.ContainerStatus
		want       corev1.PodPhase
	}{
		"new":                 {[]corev1.ContainerStatus{creating}, corev1.PodPending},
		"runs":                {[]corev1.ContainerStatus{running}, corev1.PodRunning},
		"one of two runs":     {[]corev1.ContainerStatus{running, creating}, corev1.PodPending},
		"crashes":             {[]corev1.ContainerStatus{crashing}, corev1.PodRunning},
		"ended, is restarted": {[]corev1.ContainerStatus{succeeded}, corev1.PodRunning},
	} {
		if got := phase(Input{Containers: test.containers}); got != test.want {
			t.Errorf("%s: the phase is %s, want %s", name, got, test.want)
		}
	}
}

func TestConditionsKeepTheirTime(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	ready := running
	ready.Name, ready.Ready = "main", true
	unready := running
	unready.Name = "main"
	first, second := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))

	status := Compute(Input{Pod: pod, Previous: &corev1.PodStatus{}, Containers: []corev1.ContainerStatus{ready}, IP: "127.64.0.2", Now: first})
	later := Compute(Input{Pod: pod, Previous: &status, Containers: []corev1.ContainerStatus{unready}, IP: "127.64.0.2", Now: second})
	for kind, want := range map[corev1.PodConditionType]struct {
		status corev1.ConditionStatus
		time   metav1.Time
	}{
		corev1.PodReady:                  {corev1.ConditionFalse, second},
		corev1.ContainersReady:           {corev1.ConditionFalse, second},
		corev1.PodInitialized:            {corev1.ConditionTrue, first},
		corev1.PodReadyToStartContainers: {corev1.ConditionTrue, first},
		corev1.PodScheduled:              {corev1.ConditionTrue, first},
	} {
		_, got := podutil.GetPodCondition(&later, kind)
		if got == nil || got.Status != want.status || !got.LastTransitionTime.Equal(&want.time) {
			t.Errorf("%s is %+v, want %+v", kind, got, want)
		}
	}
	if _, got := podutil.GetPodCondition(&status, corev1.PodReady); got.Status != corev1.ConditionTrue {
		t.Errorf("a ready pod is %+v", got)
	}
}

func TestTerminatedPodHasFinalPhase(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}}
	for want, regular := range map[corev1.PodPhase][]corev1.ContainerStatus{
		corev1.PodSucceeded: {succeeded},
		corev1.PodFailed:    {succeeded, failed},
	} {
		if got := Compute(Input{Pod: pod, Previous: &corev1.PodStatus{}, Containers: regular, Terminated: true}).Phase; got != want {
			t.Errorf("the phase is %s, want %s", got, want)
		}
	}
}

func TestMergeKeepsWhatBelongsToOthers(t *testing.T) {
	current := corev1.PodStatus{
		Phase:             corev1.PodPending,
		QOSClass:          corev1.PodQOSBurstable,
		NominatedNodeName: "n",
		Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		},
	}
	merged := Merge(corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
	}}, current)
	if merged.Phase != corev1.PodRunning || merged.QOSClass != corev1.PodQOSBurstable || merged.NominatedNodeName != "n" {
		t.Errorf("merged to %+v", merged)
	}
	want := map[corev1.PodConditionType]corev1.ConditionStatus{corev1.DisruptionTarget: "True", corev1.PodReady: "True", corev1.ContainersReady: "True"}
	for _, condition := range merged.Conditions {
		if want[condition.Type] != condition.Status {
			t.Errorf("%s is %s", condition.Type, condition.Status)
		}
		delete(want, condition.Type)
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
	if _, kept := podutil.GetPodCondition(&current, corev1.PodReady); kept.Status != corev1.ConditionFalse {
		t.Error("the current status was changed")
	}
}
