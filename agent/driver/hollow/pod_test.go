package hollow

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

var update = flag.Bool("update", false, "write the golden files")

// Claim: Hollow nodes' pods never run on hollow nodes. Broken: affinity turned round.
// Claim: Hollow-node pods are unprivileged, without host mounts. Broken: runAsNonRoot off.
// Claim: Hollow-node pods request resources. Broken: no requests.
func TestRenderPod(t *testing.T) {
	want, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf(`{` + head + `,"podResources":{"memory":"100Mi"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	want.configurationHash, want.registrationHash = "configuration", "registration"
	got := goldenJSON(t, renderPod("c1", "hollowfleet", "m1", "hollowfleet/hollow-node", want))
	file := filepath.Join("testdata", "pod.json")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if diff := cmp.Diff(string(golden), got); diff != "" {
		t.Errorf("the pod differs from %s (-want +got):\n%s", file, diff)
	}
}

// An agent that is upgraded meets pods without the volume of the plan, and lets them run.
// Claim: A pod without the plan's volume is not replaced. Broken: it counts as one that can be disrupted.
func TestAPodWithoutAPlanIsUpToDateAndCannotBeDisrupted(t *testing.T) {
	want, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf("")})
	if err != nil {
		t.Fatal(err)
	}
	pod := renderPod("c1", "hollowfleet", "m1", "hollowfleet/hollow-node", want)
	if !matchesDesired(pod, want, testMachine()) || !Disruptable(pod) {
		t.Error("a new pod is outdated or cannot be disrupted")
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.DownwardAPI != nil })
	if !matchesDesired(pod, want, testMachine()) {
		t.Error("a pod without the volume is replaced")
	}
	if Disruptable(pod) {
		t.Error("a pod without the volume counts as one that can be disrupted")
	}
}

// A restart of a hollow-node is a reboot of its Node. What a probe cannot get for minutes because the machine is busy must
// not cause one, nor a start that takes long.
// Edge case: Starved hollow-nodes were restarted. Also: agent/simulator/internal/hollownode TestAStarvedKubeletIsAlive.
func TestProbesBearAStarvedProcess(t *testing.T) {
	want, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf(`{` + head + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	container := renderPod("c1", "hollowfleet", "m1", "hollowfleet/hollow-node", want).Spec.Containers[0]
	if p := container.LivenessProbe; p.PeriodSeconds*p.FailureThreshold < 300 || p.TimeoutSeconds < 30 {
		t.Errorf("the liveness probe gives up after %d s of answers slower than %d s, want 5 minutes and 30 s",
			p.PeriodSeconds*p.FailureThreshold, p.TimeoutSeconds)
	}
	if p := container.StartupProbe; p == nil || time.Duration(p.PeriodSeconds*p.FailureThreshold)*time.Second <= maxStartupDelay {
		t.Errorf("the startup probe is %+v, want one that waits for the longest delay of a start", p)
	}
	if p := container.ReadinessProbe; p.PeriodSeconds < 30 {
		t.Errorf("a node that has joined is asked every %d s whether it is ready, by each of thousands", p.PeriodSeconds)
	}
}

func TestStateOf(t *testing.T) {
	status := func(phase corev1.PodPhase, ready corev1.ConditionStatus, state corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{
			Phase:             phase,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{State: state, RestartCount: 2}},
		}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}
	}
	now := metav1.Now()
	tests := map[string]struct {
		pod     corev1.Pod
		state   driver.State
		message string
	}{
		"new":       {corev1.Pod{}, driver.Pending, "the pod is being started"},
		"starting":  {corev1.Pod{Status: status(corev1.PodPending, corev1.ConditionFalse, waiting("ContainerCreating"))}, driver.Pending, "the pod is being started"},
		"not ready": {corev1.Pod{Status: status(corev1.PodRunning, corev1.ConditionFalse, running)}, driver.Pending, "the hollow-node is running and not ready yet"},
		"ready":     {corev1.Pod{Status: status(corev1.PodRunning, corev1.ConditionTrue, running)}, driver.Running, ""},
		"unschedulable": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"},
		}}}, driver.Pending, "the pod is not scheduled: Unschedulable: 0/1 nodes"},
		"crashing":      {corev1.Pod{Status: status(corev1.PodRunning, corev1.ConditionFalse, waiting("CrashLoopBackOff"))}, driver.Failing, "the hollow-node is not running (2 restarts): CrashLoopBackOff: why"},
		"no image":      {corev1.Pod{Status: status(corev1.PodPending, corev1.ConditionFalse, waiting("ErrImagePull"))}, driver.Failing, "the hollow-node is not running (2 restarts): ErrImagePull: why"},
		"refused":       {corev1.Pod{Status: status(corev1.PodPending, corev1.ConditionFalse, waiting("Unsupported"))}, driver.Failing, "the hollow-node is not running (2 restarts): Unsupported: why"},
		"just ended":    {corev1.Pod{Status: status(corev1.PodRunning, corev1.ConditionFalse, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}})}, driver.Failing, "the hollow-node ended with exit code 137 and will be restarted: Error"},
		"evicted":       {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}}, driver.Failed, "the pod has ended: Evicted: low on memory"},
		"succeeded":     {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, driver.Failed, "the pod has ended"},
		"being deleted": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: status(corev1.PodRunning, corev1.ConditionTrue, running)}, driver.Deleting, "the pod is being deleted"},
		"held": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{"example.com/a", "example.com/b"}}}, driver.Deleting,
			"the pod is being deleted: it is kept by the finalizers of others: example.com/a, example.com/b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state, message := stateOf(&test.pod)
			if state != test.state || message != test.message {
				t.Errorf("got %s %q, want %s %q", state, message, test.state, test.message)
			}
		})
	}
}
