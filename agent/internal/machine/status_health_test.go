package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func shown(s v1alpha1.MachineStatus, conditionType string) string {
	c := meta.FindStatusCondition(s.Conditions, conditionType)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s/%s", c.Status, c.Reason)
}

// with adds a condition that is True to the Node.
func with(in *Input, conditionType string) {
	in.Node.Status.Conditions = append(in.Node.Status.Conditions,
		corev1.NodeCondition{Type: corev1.NodeConditionType(conditionType), Status: corev1.ConditionTrue, Message: "says a detector"})
}

func unready(in *Input) { in.Node = nodeThat(corev1.ConditionFalse) }

func TestHealthy(t *testing.T) {
	deleted := metav1.NewTime(now)
	tests := map[string]struct {
		machine *v1alpha1.Machine
		change  func(*Input)
		want    string
	}{
		"should be Unknown before the node was ever Ready": {fresh(), unready, "Unknown/Pending"},
		"should be Unknown while the node cannot be read":  {fresh(), func(in *Input) { in.Node, in.NodeKnown = nil, false }, "Unknown/Unknown"},
		"should be True when the node is Ready":            {fresh(), func(*Input) {}, "True/Healthy"},
		"should be False when it is not Ready any more":    {readyMachine(), unready, "False/NodeNotReady"},
		"should be False when the kubelet is silent":       {readyMachine(), func(in *Input) { in.Node = nodeThat(corev1.ConditionUnknown) }, "False/NodeStatusUnknown"},
		"should be False when the node is gone":            {readyMachine(), func(in *Input) { in.Node = nil }, "False/NodeNotFound"},
		"should stay when the node cannot be seen":         {readyMachine(), func(in *Input) { in.Node, in.NodeKnown = nil, false }, "True/Healthy"},
		"should stay while the machine is being deleted":   {readyMachine(), func(in *Input) { in.Machine.DeletionTimestamp = &deleted; unready(in) }, "True/Healthy"},
		"should not mind a condition that is not listed":   {readyMachine(), func(in *Input) { with(in, "KernelDeadlock") }, "True/Healthy"},
		"should mind a condition that is listed":           {readyMachine(), deadlocked, "False/UnhealthyNodeCondition"},
		"should not mind a listed condition that is not True": {
			readyMachine(), func(in *Input) { in.Limits.UnhealthyNodeConditions = []string{"KernelDeadlock"} }, "True/Healthy",
		},
		"should judge a machine that an older agent made Ready": {
			&v1alpha1.Machine{Status: v1alpha1.MachineStatus{Phase: v1alpha1.MachineRunning}}, unready, "False/NodeNotReady",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := shown(Compute(input(test.machine, test.change)), v1alpha1.MachineHealthyCondition); got != test.want {
				t.Errorf("Healthy is %s, want %s", got, test.want)
			}
		})
	}
}

func deadlocked(in *Input) {
	in.Limits.UnhealthyNodeConditions = []string{"KernelDeadlock"}
	with(in, "KernelDeadlock")
}

// Unknown is not False, but a node that says what is wrong with it is of no use.
func TestReadyFollowsHealth(t *testing.T) {
	if got := shown(Compute(input(readyMachine(), deadlocked)), v1alpha1.ReadyCondition); got != "False/UnhealthyNodeCondition" {
		t.Errorf("with a listed condition Ready is %s", got)
	}
	silent := Compute(input(readyMachine(), func(in *Input) { in.Node = nodeThat(corev1.ConditionUnknown) }))
	if got := shown(silent, v1alpha1.ReadyCondition); got != "Unknown/NodeStatusUnknown" {
		t.Errorf("with a silent node Ready is %s", got)
	}
}

// unhealthySince is a Machine whose hub knows that it is unhealthy.
func unhealthySince() *v1alpha1.Machine {
	machine := readyMachine()
	machine.Status = Compute(input(machine, unready))
	return machine
}

// failed is a Machine that has run into a timeout.
func failed(machine *v1alpha1.Machine) *v1alpha1.Machine {
	machine.Status = Compute(input(machine, func(in *Input) {
		unready(in)
		in.Elapsed = Elapsed{Creation: time.Hour, Unhealthy: time.Hour}
	}))
	return machine
}

func TestTimeouts(t *testing.T) {
	late := func(in *Input) { in.Elapsed = Elapsed{Creation: 20 * time.Minute, Unhealthy: 10 * time.Minute} }
	soon := func(in *Input) {
		in.Elapsed = Elapsed{Creation: 20*time.Minute - time.Second, Unhealthy: 10*time.Minute - time.Second}
	}
	deleted := metav1.NewTime(now)
	tests := map[string]struct {
		machine *v1alpha1.Machine
		change  func(*Input)
		reason  string
		phase   v1alpha1.MachinePhase
	}{
		"should not fail a second too soon while it starts":   {fresh(), func(in *Input) { unready(in); soon(in) }, "", v1alpha1.MachineProvisioning},
		"should fail what does not become Ready":              {fresh(), func(in *Input) { unready(in); late(in) }, v1alpha1.ErrorCreationTimeout, v1alpha1.MachineFailed},
		"should fail what cannot even be made":                {fresh(), func(in *Input) { in.Node, in.Instance = nil, nil; late(in) }, v1alpha1.ErrorCreationTimeout, v1alpha1.MachineFailed},
		"should not fail a second too soon while unhealthy":   {unhealthySince(), func(in *Input) { unready(in); soon(in) }, "", v1alpha1.MachineRunning},
		"should fail what stays unhealthy":                    {unhealthySince(), func(in *Input) { unready(in); late(in) }, v1alpha1.ErrorHealthTimeout, v1alpha1.MachineFailed},
		"should count only from when the hub knows":           {readyMachine(), func(in *Input) { unready(in); late(in) }, "", v1alpha1.MachineRunning},
		"should fail what a listed condition makes unhealthy": {unhealthySince(), func(in *Input) { deadlocked(in); late(in) }, v1alpha1.ErrorHealthTimeout, v1alpha1.MachineFailed},
		"should not fail what is Ready, however old it is":    {readyMachine(), late, "", v1alpha1.MachineRunning},
		"should fail nothing while frozen":                    {unhealthySince(), func(in *Input) { unready(in); late(in); in.Frozen = true }, "", v1alpha1.MachineRunning},
		"should not fail for lack of sight":                   {readyMachine(), func(in *Input) { in.Node, in.NodeKnown = nil, false; late(in) }, "", v1alpha1.MachineRunning},
		"should take the user's timeouts":                     {fresh(), func(in *Input) { unready(in); in.Limits.Creation, in.Elapsed.Creation = time.Minute, time.Minute }, v1alpha1.ErrorCreationTimeout, v1alpha1.MachineFailed},
		"should keep the error while frozen":                  {failed(unhealthySince()), func(in *Input) { unready(in); in.Frozen = true }, v1alpha1.ErrorHealthTimeout, v1alpha1.MachineFailed},
		"should keep the error over a restart of the agent":   {failed(unhealthySince()), unready, v1alpha1.ErrorHealthTimeout, v1alpha1.MachineFailed},
		"should keep the creation's error over a restart":     {failed(fresh()), unready, v1alpha1.ErrorCreationTimeout, v1alpha1.MachineFailed},
		"should keep the error while it is being deleted":     {failed(unhealthySince()), func(in *Input) { in.Machine.DeletionTimestamp = &deleted; in.Machine.Generation++ }, v1alpha1.ErrorHealthTimeout, v1alpha1.MachineTerminating},
		"should lose the error when it recovers":              {failed(unhealthySince()), func(*Input) {}, "", v1alpha1.MachineRunning},
		"should lose the creation's error when it is Ready":   {failed(fresh()), late, "", v1alpha1.MachineRunning},
		"should lose the error when the user gives it more time": {
			failed(fresh()), func(in *Input) {
				unready(in)
				in.Machine.Generation++
				in.Limits.Creation, in.Elapsed.Creation = 2*time.Hour, time.Hour
			}, "", v1alpha1.MachineProvisioning,
		},
		"should say what is invalid rather than that it is late": {
			fresh(), func(in *Input) {
				in.Node, in.Instance, in.Terminal = nil, nil, &Terminal{Reason: "UnknownProvider"}
				late(in)
			}, "UnknownProvider", v1alpha1.MachineFailed,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Compute(input(test.machine, test.change))
			if got.ErrorReason != test.reason || got.Phase != test.phase {
				t.Errorf("got %q in phase %s, want %q in phase %s", got.ErrorReason, got.Phase, test.reason, test.phase)
			}
			if got.FailureMessage != got.ErrorMessage || (got.ErrorMessage == "") != (test.reason == "" || test.reason == "UnknownProvider") {
				t.Errorf("messages %q and %q", got.ErrorMessage, got.FailureMessage)
			}
		})
	}
}

func TestTimeoutsSayWhatIsWrong(t *testing.T) {
	if got := failed(unhealthySince()).Status.ErrorMessage; got != "the machine was unhealthy for 10m0s: NodeNotReady; says the node" {
		t.Error(got)
	}
	if got := failed(fresh()).Status.ErrorMessage; !strings.HasPrefix(got, "the node was not Ready within 20m0s of the machine's creation: NodeReady: ") {
		t.Error(got)
	}
}

func TestDeadlineIsExact(t *testing.T) {
	tests := map[string]struct {
		machine *v1alpha1.Machine
		change  func(*Input)
		want    time.Duration
	}{
		"should be none when all is well":              {readyMachine(), func(*Input) {}, 0},
		"should be that of the creation":               {fresh(), func(in *Input) { unready(in); in.Elapsed.Creation = 5 * time.Minute }, 15 * time.Minute},
		"should be the whole of it at first":           {readyMachine(), func(in *Input) { unready(in); in.Elapsed.Unhealthy = time.Hour }, 10 * time.Minute},
		"should be what is left of it":                 {unhealthySince(), func(in *Input) { unready(in); in.Elapsed.Unhealthy = 4 * time.Minute }, 6 * time.Minute},
		"should be none while frozen":                  {unhealthySince(), func(in *Input) { unready(in); in.Frozen = true }, 0},
		"should be none once it has failed":            {failed(unhealthySince()), unready, 0},
		"should be none with an invalid configuration": {fresh(), func(in *Input) { in.Node, in.Instance, in.Terminal = nil, nil, &Terminal{Reason: "R"} }, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := input(test.machine, test.change)
			if got := Deadline(Compute(in), in); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The creation timeout counts from the machine's birth, and again from when the user has put its configuration right.
func TestConfigurationIsValidSinceTheCreation(t *testing.T) {
	machine := fresh()
	machine.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	machine.Status = Compute(input(machine, unready))
	since := func() time.Time {
		return meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineConfigurationValidCondition).LastTransitionTime.Time
	}
	if !since().Equal(machine.CreationTimestamp.Time) {
		t.Errorf("valid since %s", since())
	}
	machine.Status = Compute(input(machine, func(in *Input) { in.Terminal = &Terminal{Reason: "R"} }))
	machine.Status = Compute(input(machine, func(in *Input) { in.Now = now.Add(time.Minute) }))
	if !since().Equal(now.Add(time.Minute)) {
		t.Errorf("put right, valid since %s", since())
	}
}

// A Machine fails only when its clock has really run out, and never while it cannot be read, whatever happens in
// whatever order; and one that is well has no timeout.
func TestNoMachineFailsBeforeItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machine := fresh()
		machine.CreationTimestamp = metav1.NewTime(now)
		clock := now
		elapsedSince := func(at time.Time) time.Duration { return clock.Sub(at) }
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			clock = clock.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
			in := input(machine, func(in *Input) {
				in.Now = clock
				in.Frozen = rapid.Bool().Draw(t, "frozen")
				in.NodeKnown = rapid.Bool().Draw(t, "seen")
				in.Node = nodeThat(rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}).Draw(t, "ready"))
				if !in.NodeKnown {
					in.Node = nil
				}
			})
			in.Elapsed.Creation = elapsedSince(now)
			before := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineHealthyCondition)
			if before != nil {
				in.Elapsed.Unhealthy = elapsedSince(before.LastTransitionTime.Time)
			}
			had := machine.Status.ErrorReason
			machine.Status = Compute(in)
			got := machine.Status.ErrorReason
			healthy := meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.MachineHealthyCondition)
			switch {
			case got != "" && healthy:
				t.Fatalf("a healthy machine has %s", got)
			case got == "" || got == had:
			case in.Frozen:
				t.Fatalf("%s while frozen", got)
			case got == v1alpha1.ErrorHealthTimeout && in.Elapsed.Unhealthy < in.Limits.Health,
				got == v1alpha1.ErrorCreationTimeout && in.Elapsed.Creation < in.Limits.Creation:
				t.Fatalf("%s after %+v", got, in.Elapsed)
			}
			if (machine.Status.Phase == v1alpha1.MachineFailed) != (got != "") {
				t.Fatalf("phase %s with error %q", machine.Status.Phase, got)
			}
		}
	})
}
