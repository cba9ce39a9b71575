package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fresh is a Machine as the API server gives it out first.
func fresh() *v1alpha1.Machine {
	machine := &v1alpha1.Machine{}
	machine.Generation = 1
	machine.Status.Phase = v1alpha1.MachinePending
	machine.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: "x"}}
	return machine
}

func nodeThat(ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1", UID: "u1", Labels: map[string]string{v1alpha1.KubeletCodeLabel: "v1.37.0"}}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: "says the node"}}
	}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.37.1", ContainerRuntimeVersion: "hollow://1", OSImage: "Hollow Linux"}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	return n
}

// input is a Machine that is all well, before change.
func input(machine *v1alpha1.Machine, change func(*Input)) Input {
	machine.Spec.ProviderID = ptr.To("id")
	in := Input{Now: now, Observation: Observation{
		Machine: machine, InstanceKnown: true, NodeKnown: true,
		Instance: &Instance{State: Running, UpToDate: true}, Node: nodeThat(corev1.ConditionTrue),
		Limits: LimitsOf(machine, nil),
	}}
	change(&in)
	return in
}

// readyMachine is a Machine whose status says that all is well.
func readyMachine() *v1alpha1.Machine {
	machine := fresh()
	machine.Status = Compute(input(machine, func(*Input) {}))
	return machine
}

// summary is what the tables below compare: phase and "status/reason" of each condition.
func summary(s v1alpha1.MachineStatus) string {
	text := string(s.Phase)
	for _, conditionType := range []string{
		v1alpha1.MachineConfigurationValidCondition, v1alpha1.MachinePodRunningCondition,
		v1alpha1.MachineNodeReadyCondition, v1alpha1.ReadyCondition,
	} {
		c := meta.FindStatusCondition(s.Conditions, conditionType)
		text += fmt.Sprintf(" %s/%s", c.Status, c.Reason)
	}
	return text
}

func TestComputeOnTheWay(t *testing.T) {
	unjoined := func(in *Input) { in.Machine.Spec.ProviderID, in.Node = nil, nil }
	tests := map[string]struct {
		change func(*Input)
		want   string
	}{
		"nothing made yet":  {func(in *Input) { unjoined(in); in.Instance = nil }, "Pending True/Valid False/PodMissing False/NodeNotFound False/PodMissing"},
		"frozen":            {func(in *Input) { unjoined(in); in.Instance, in.Frozen = nil, true }, "Pending True/Valid False/PodMissing False/NodeNotFound False/PodMissing"},
		"pod pending":       {func(in *Input) { unjoined(in); in.Instance.State = Pending }, "Provisioning True/Valid False/PodPending False/NodeNotFound False/PodPending"},
		"pod running":       {unjoined, "Provisioning True/Valid True/PodRunning False/NodeNotFound False/NodeNotFound"},
		"pod crashing":      {func(in *Input) { unjoined(in); in.Instance.State = Failing }, "Provisioning True/Valid False/PodFailed False/NodeNotFound False/PodFailed"},
		"node without word": {func(in *Input) { in.Node = nodeThat("") }, "Provisioning True/Valid True/PodRunning Unknown/NodeStatusUnknown Unknown/NodeStatusUnknown"},
		"node not ready":    {func(in *Input) { in.Node = nodeThat(corev1.ConditionFalse) }, "Provisioning True/Valid True/PodRunning False/NodeNotReady False/NodeNotReady"},
		"node ready, not yet tied": {
			func(in *Input) { in.Machine.Spec.ProviderID = nil }, "Provisioning True/Valid True/PodRunning False/NodeNotReady False/NodeNotReady",
		},
		"node ready, pod not": {func(in *Input) { in.Instance.State = Pending }, "Running True/Valid False/PodPending True/NodeReady False/PodPending"},
		"all well":            {func(*Input) {}, "Running True/Valid True/PodRunning True/NodeReady True/Ready"},
		"another's node": {
			func(in *Input) { in.Node, in.NodeConflict = nil, "a Node exists" },
			"Provisioning True/Valid True/PodRunning False/NodeNameConflict False/NodeNameConflict",
		},
		"another's node, and no pod": {
			func(in *Input) { unjoined(in); in.Instance, in.NodeConflict = nil, "a Node exists" },
			"Pending True/Valid False/NodeNameConflict False/NodeNameConflict False/NodeNameConflict",
		},
		"cannot see the pod":  {func(in *Input) { unjoined(in); in.Instance, in.InstanceKnown = nil, false }, "Pending True/Valid Unknown/Unknown False/NodeNotFound False/NodeNotFound"},
		"cannot see the node": {func(in *Input) { in.Node, in.NodeKnown = nil, false }, "Provisioning True/Valid True/PodRunning Unknown/Unknown Unknown/Unknown"},
		"invalid": {
			func(in *Input) {
				unjoined(in)
				in.Instance, in.Terminal = nil, &Terminal{Reason: "UnknownProvider", Message: "m"}
			},
			"Failed False/UnknownProvider False/PodMissing False/NodeNotFound False/UnknownProvider",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := summary(Compute(input(fresh(), test.change))); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAMissingInstanceIsCalledWhatItIs(t *testing.T) {
	for provider, want := range map[string]string{"": "there is no pod yet", "hollow": "there is no pod yet", "kwok": "there is no Node yet", "cloud": "there is no instance yet"} {
		status := Compute(input(fresh(), func(in *Input) {
			in.Machine.Spec.ProviderID, in.Node, in.Instance, in.Provider = nil, nil, nil, provider
		}))
		if got := meta.FindStatusCondition(status.Conditions, v1alpha1.MachinePodRunningCondition).Message; got != want {
			t.Errorf("%s: got %q, want %q", provider, got, want)
		}
	}
}

// Claim: Unknown is not False. Broken: what cannot be seen becomes False.
func TestComputeOfAMachineThatWasReady(t *testing.T) {
	deleted := metav1.NewTime(now)
	tests := map[string]struct {
		change func(*Input)
		want   string
	}{
		"node not ready":      {func(in *Input) { in.Node = nodeThat(corev1.ConditionFalse) }, "Running True/Valid True/PodRunning False/NodeNotReady False/NodeNotReady"},
		"node unknown":        {func(in *Input) { in.Node = nodeThat(corev1.ConditionUnknown) }, "Unknown True/Valid True/PodRunning Unknown/NodeStatusUnknown Unknown/NodeStatusUnknown"},
		"node gone":           {func(in *Input) { in.Node = nil }, "Running True/Valid True/PodRunning False/NodeNotFound False/NodeNotFound"},
		"pod gone":            {func(in *Input) { in.Instance = nil }, "Running True/Valid False/PodMissing True/NodeReady False/PodMissing"},
		"pod crashing":        {func(in *Input) { in.Instance.State = Failing }, "Running True/Valid False/PodFailed True/NodeReady False/PodFailed"},
		"cannot see the node": {func(in *Input) { in.Node, in.NodeKnown = nil, false }, "Running True/Valid True/PodRunning True/NodeReady True/Ready"},
		"cannot see the pod":  {func(in *Input) { in.Instance, in.InstanceKnown = nil, false }, "Running True/Valid True/PodRunning True/NodeReady True/Ready"},
		"class deleted": {
			func(in *Input) { in.Terminal = &Terminal{Reason: "MachineClassNotFound", Message: "m"} },
			"Running False/MachineClassNotFound True/PodRunning True/NodeReady True/Ready",
		},
		"class deleted and pod gone": {
			func(in *Input) {
				in.Instance, in.Terminal = nil, &Terminal{Reason: "MachineClassNotFound", Message: "m"}
			},
			"Failed False/MachineClassNotFound False/PodMissing True/NodeReady False/MachineClassNotFound",
		},
		"being deleted": {
			func(in *Input) { in.Machine.DeletionTimestamp, in.Instance = &deleted, nil },
			"Terminating True/Valid False/PodMissing True/NodeReady False/Deleting",
		},
		"to be deleted while frozen": {
			func(in *Input) {
				in.Machine.DeletionTimestamp, in.Frozen = &deleted, true
				in.Instance, in.InstanceKnown, in.Node, in.NodeKnown = nil, false, nil, false
			},
			"Terminating True/Valid True/PodRunning True/NodeReady False/AwaitingThaw",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := summary(Compute(input(readyMachine(), test.change))); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

// Claim: Status has addresses and observed versions. Broken: addresses not set.
func TestComputeFields(t *testing.T) {
	machine := readyMachine()
	want := v1alpha1.MachineStatus{
		ObservedGeneration: 1, Phase: v1alpha1.MachineRunning,
		NodeRef:   &v1alpha1.NodeReference{Kind: "Node", Name: "m1", UID: "u1"},
		Versions:  &v1alpha1.ObservedVersions{Kubelet: "v1.37.1", KubeletCode: "v1.37.0", ContainerRuntime: "hollow://1", OSImage: "Hollow Linux"},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
	}
	got := machine.Status
	got.Conditions, got.LastUpdated = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	gone := Compute(input(machine, func(in *Input) { in.Node = nil }))
	if gone.NodeRef == nil || gone.Versions == nil || len(gone.Addresses) == 0 {
		t.Errorf("what the node said last is lost with it: %+v", gone)
	}
}

func TestComputeChangesNothingTwice(t *testing.T) {
	machine := readyMachine()
	again := input(machine, func(in *Input) { in.Now = now.Add(time.Hour) })
	if diff := cmp.Diff(machine.Status, Compute(again)); diff != "" {
		t.Errorf("an hour later, with nothing changed (-before +after):\n%s", diff)
	}
}

// Claim: lastUpdated changes on transition only. Broken: set each time.
func TestLastUpdated(t *testing.T) {
	later := now.Add(time.Hour)
	machine := readyMachine()
	onlyMessage := input(machine, func(in *Input) { in.Now, in.Instance.Message = later, "new words" })
	if got := Compute(onlyMessage).LastUpdated; !got.Time.Equal(now) {
		t.Errorf("a new message moved lastUpdated to %s", got)
	}
	transition := input(machine, func(in *Input) { in.Now, in.Node = later, nodeThat(corev1.ConditionFalse) })
	if got := Compute(transition).LastUpdated; !got.Time.Equal(later) {
		t.Errorf("lastUpdated is %s after a transition at %s", got, later)
	}
}

func TestErrorsComeAndGo(t *testing.T) {
	machine := fresh()
	machine.Status = Compute(input(machine, func(in *Input) {
		in.Instance, in.Node, in.Terminal = nil, nil, &Terminal{Reason: "InvalidConfiguration", Message: "field: remedy"}
	}))
	if s := machine.Status; s.ErrorReason != "InvalidConfiguration" || s.ErrorMessage != "field: remedy" || s.FailureMessage != s.ErrorMessage {
		t.Errorf("got %q, %q, %q", s.ErrorReason, s.ErrorMessage, s.FailureMessage)
	}
	if s := Compute(input(machine, func(*Input) {})); s.ErrorReason != "" || s.ErrorMessage != "" || s.FailureMessage != "" {
		t.Errorf("the error stays after the user has put it right: %+v", s)
	}
}

func TestAnothersConditionStays(t *testing.T) {
	machine := readyMachine()
	machine.Status.Conditions = append(machine.Status.Conditions, metav1.Condition{Type: "OfTheHub", Status: metav1.ConditionTrue, Reason: "R"})
	if got := Compute(input(machine, func(*Input) {})); meta.FindStatusCondition(got.Conditions, "OfTheHub") == nil {
		t.Error("the hub's condition is gone")
	}
}

func TestUrgent(t *testing.T) {
	deleted := metav1.NewTime(now)
	unjoined := func(in *Input) { in.Machine.Spec.ProviderID, in.Node = nil, nil }
	tests := map[string]struct {
		before *v1alpha1.Machine
		change func(*Input)
		want   bool
	}{
		"should hold back a pending pod":           {fresh(), func(in *Input) { unjoined(in); in.Instance.State = Pending }, false},
		"should hold back a node on its way":       {fresh(), func(in *Input) { in.Node = nodeThat(corev1.ConditionFalse) }, false},
		"should write Ready at once":               {fresh(), func(*Input) {}, true},
		"should write a terminal error at once":    {fresh(), func(in *Input) { unjoined(in); in.Instance, in.Terminal = nil, &Terminal{Reason: "R"} }, true},
		"should write a crash at once":             {fresh(), func(in *Input) { unjoined(in); in.Instance.State = Failing }, true},
		"should write lost readiness at once":      {readyMachine(), func(in *Input) { in.Node = nodeThat(corev1.ConditionFalse) }, true},
		"should write unknown readiness at once":   {readyMachine(), func(in *Input) { in.Node = nodeThat(corev1.ConditionUnknown) }, true},
		"should write a ready node's news at once": {readyMachine(), func(in *Input) { in.Node.Status.NodeInfo.KubeletVersion = "v2" }, true},
		"should hold back a deletion":              {readyMachine(), func(in *Input) { in.Machine.DeletionTimestamp = &deleted }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := *test.before.Status.DeepCopy()
			if got := Urgent(before, Compute(input(test.before, test.change))); got != test.want {
				t.Errorf("Urgent = %t, want %t", got, test.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	pending := func(message string) v1alpha1.MachineStatus {
		return Compute(input(fresh(), func(in *Input) {
			in.Machine.Spec.ProviderID, in.Node = nil, nil
			in.Instance.State, in.Instance.Message = Pending, message
		}))
	}
	running := Compute(input(fresh(), func(in *Input) { in.Machine.Spec.ProviderID, in.Node = nil, nil }))
	if Progress(pending("a")) != Progress(pending("b")) {
		t.Error("another message counts as a step")
	}
	stale := pending("a")
	meta.SetStatusCondition(&stale.Conditions, metav1.Condition{Type: v1alpha1.MachineStaleCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAgentSilent})
	if Progress(stale) != Progress(pending("a")) {
		t.Error("the hub's marker counts as a step")
	}
	if Progress(pending("a")) == Progress(running) {
		t.Error("a pod that runs does not count as a step")
	}
}

// The hub's API server refuses a status with more than this, and a Machine without a status looks as if nothing was known.
// Edge case: A Node's words made a status refused.
func TestWhatANodeSaysIsCut(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	got := Compute(input(fresh(), func(in *Input) {
		in.Node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: long, ContainerRuntimeVersion: long, OSImage: long}
		in.Node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: long}}
		for range 100 {
			in.Node.Status.Addresses = append(in.Node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.1"})
		}
		in.Terminal = &Terminal{Reason: "InvalidConfiguration", Message: long}
	}))
	for name, text := range map[string]string{
		"kubelet": got.Versions.Kubelet, "containerRuntime": got.Versions.ContainerRuntime, "osImage": got.Versions.OSImage,
	} {
		if n := utf8.RuneCountInString(text); n != maxText || !utf8.ValidString(text) {
			t.Errorf("%s: %d characters", name, n)
		}
	}
	if n := utf8.RuneCountInString(got.ErrorMessage); n != conditions.MaxMessage || got.FailureMessage != got.ErrorMessage {
		t.Errorf("errorMessage: %d characters", n)
	}
	if n := len(got.Addresses); n != maxAddresses-1 {
		t.Errorf("%d addresses, want all of the first 64 that are one", n)
	}
}
