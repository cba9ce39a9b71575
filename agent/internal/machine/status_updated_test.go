package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func outdated(in *Input) { in.Instance.UpToDate = false }

func draining(in *Input) {
	outdated(in)
	in.Drain = &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, Message: "waiting"}
}

// after is a Machine that was Ready before the looks at it.
func after(looks ...func(*Input)) *v1alpha1.Machine {
	machine := readyMachine()
	for _, look := range looks {
		machine.Status = Compute(input(machine, look))
	}
	return machine
}

func TestUpdated(t *testing.T) {
	updating := func(in *Input) { outdated(in); in.Updating = true }
	gone := func(in *Input) { in.Instance = nil }
	cordoned := func(in *Input) { in.Update.Cordoned = true }
	deleted := metav1.NewTime(now)
	tests := map[string]struct {
		machine *v1alpha1.Machine
		change  func(*Input)
		want    string
		phase   v1alpha1.MachinePhase
	}{
		"should be True from the first":                 {fresh(), unready, "True/UpToDate", v1alpha1.MachineProvisioning},
		"should be absent before there is an instance":  {fresh(), func(in *Input) { in.Instance, in.Node = nil, nil }, "none", v1alpha1.MachinePending},
		"should stay while the instance cannot be seen": {after(draining), func(in *Input) { in.Instance, in.InstanceKnown = nil, false }, "False/Draining", v1alpha1.MachineUpdating},
		"should wait for its turn":                      {after(), func(in *Input) { outdated(in); in.Update.Waiting = "others" }, "False/AwaitingUpdate", v1alpha1.MachineRunning},
		"should wait for the thaw":                      {after(), func(in *Input) { outdated(in); in.Frozen = true }, "False/AwaitingUpdate", v1alpha1.MachineRunning},
		"should drain":                                  {after(), draining, "False/Draining", v1alpha1.MachineUpdating},
		"should stay when it freezes in a drain":        {after(draining), func(in *Input) { outdated(in); in.Frozen = true }, "False/Draining", v1alpha1.MachineUpdating},
		"should update":                                 {after(draining), updating, "False/Updating", v1alpha1.MachineUpdating},
		"should continue while the instance is gone":    {after(draining, updating), gone, "False/Updating", v1alpha1.MachineUpdating},
		"should not take a lost instance for an update": {after(), gone, "True/UpToDate", v1alpha1.MachineRunning},
		"should wait until the node is Ready":           {after(draining, updating, gone), unready, "False/Updating", v1alpha1.MachineUpdating},
		"should wait until the version is the new one": {
			after(draining, updating), func(in *Input) { in.Machine.Spec.Versions.Kubelet = "v1.36.0" }, "False/Updating", v1alpha1.MachineUpdating,
		},
		"should wait until the node is given back":   {after(draining, updating), cordoned, "False/Updating", v1alpha1.MachineUpdating},
		"should be through":                          {after(draining, updating), func(*Input) {}, "True/UpToDate", v1alpha1.MachineRunning},
		"should be through without a drain":          {after(updating), func(*Input) {}, "True/UpToDate", v1alpha1.MachineRunning},
		"should say that it cannot be done in place": {after(), func(in *Input) { outdated(in); in.Update.Unsupported = "no way" }, "False/InPlaceUnsupported", v1alpha1.MachineRunning},
		"should say that it has failed":              {after(draining), func(in *Input) { outdated(in); in.UpdateProblem = "no" }, "False/UpdateFailed", v1alpha1.MachineUpdating},
		"should say what is invalid":                 {after(), func(in *Input) { outdated(in); in.Terminal = &Terminal{Reason: "R"} }, "False/AwaitingUpdate", v1alpha1.MachineRunning},
		"should say what turned invalid":             {after(draining), func(in *Input) { outdated(in); in.Terminal = &Terminal{Reason: "R"} }, "False/UpdateFailed", v1alpha1.MachineUpdating},
		"should stay when it is deleted meanwhile": {
			after(draining), func(in *Input) { outdated(in); in.Machine.DeletionTimestamp = &deleted }, "False/Draining", v1alpha1.MachineTerminating,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Compute(input(test.machine, test.change))
			if shown := shown(got, v1alpha1.MachineUpdatedCondition); shown != test.want || got.Phase != test.phase {
				t.Errorf("Updated is %s in phase %s, want %s in phase %s", shown, got.Phase, test.want, test.phase)
			}
		})
	}
}

// What the machine was last seen to be in line with reports whether an update was ordered for it or for all of its class.
func TestUpdatedRemembersTheGeneration(t *testing.T) {
	generation := func(machine *v1alpha1.Machine) int64 {
		return meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition).ObservedGeneration
	}
	machine := after()
	machine.Generation = 2
	if !Ordered(machine) {
		t.Error("a change of the machine itself does not count as ordered")
	}
	machine.Status = Compute(input(machine, func(in *Input) { outdated(in); in.Frozen = true }))
	if generation(machine) != 1 || !Ordered(machine) {
		t.Error("the order is forgotten while the agent is frozen")
	}
	machine.Status = Compute(input(machine, draining))
	if generation(machine) != 2 {
		t.Error("a drain is not for the present generation")
	}
	waiting := after(func(in *Input) { outdated(in); in.Update.Waiting = "others" })
	if Ordered(waiting) {
		t.Error("a change of the class counts as ordered")
	}
}

func TestDrainedComesAndGoes(t *testing.T) {
	machine := after(draining)
	started := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition)
	if started == nil || started.Reason != v1alpha1.ReasonDraining || !started.LastTransitionTime.Time.Equal(now) {
		t.Fatalf("while draining: %+v", started)
	}
	machine.Status = Compute(input(machine, func(in *Input) { draining(in); in.Now = now.Add(time.Hour); in.Drain.Message = "less" }))
	if since := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition).LastTransitionTime; !since.Time.Equal(now) {
		t.Errorf("the drain's beginning moved to %s", since)
	}
	machine.Status = Compute(input(machine, func(in *Input) {
		outdated(in)
		in.Updating, in.Drain = true, &drain.Report{Over: true, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained}
	}))
	if got := shown(machine.Status, v1alpha1.MachineDrainedCondition); got != "True/Drained" {
		t.Errorf("drained: %s", got)
	}
	machine.Status = Compute(input(machine, func(*Input) {}))
	if got := shown(machine.Status, v1alpha1.MachineDrainedCondition); got != "none" {
		t.Errorf("after the update: %s", got)
	}
	deleted := metav1.NewTime(now)
	machine = after(func(in *Input) { in.Machine.DeletionTimestamp = &deleted; draining(in) }, func(in *Input) { in.Frozen = true })
	if got := shown(machine.Status, v1alpha1.MachineDrainedCondition); got != "False/Draining" {
		t.Errorf("when it freezes in the drain before a deletion: %s", got)
	}
}

func TestUrgentNewsOfDrainsAndUpdates(t *testing.T) {
	deleted := metav1.NewTime(now)
	drained := func(reason string) func(*Input) {
		return func(in *Input) {
			in.Machine.DeletionTimestamp = &deleted
			in.Drain = &drain.Report{Status: metav1.ConditionFalse, Reason: reason, Message: reason}
		}
	}
	tests := map[string]struct {
		before *v1alpha1.Machine
		change func(*Input)
		want   bool
	}{
		"should hold back a drain before a deletion":       {after(), drained(v1alpha1.ReasonDraining), false},
		"should hold back a hook":                          {after(), drained(v1alpha1.ReasonAwaitingHook), false},
		"should write a misconfigured budget at once":      {after(drained(v1alpha1.ReasonDraining)), drained(v1alpha1.ReasonMisconfiguredBudget), true},
		"should write a misconfigured budget at once only": {after(drained(v1alpha1.ReasonMisconfiguredBudget)), drained(v1alpha1.ReasonMisconfiguredBudget), false},
		"should write a drain that timed out at once":      {after(drained(v1alpha1.ReasonDraining)), drained(v1alpha1.ReasonDrainTimedOut), true},
		"should write the beginning of an update at once":  {unhealthySince(), func(in *Input) { unready(in); draining(in) }, true},
		"should write that a node is unhealthy at once":    {failingPod(), func(in *Input) { in.Instance.State = Failing; unready(in) }, true},
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

// failingPod is not Ready because of its pod; its Node has not noticed yet.
func failingPod() *v1alpha1.Machine {
	return after(func(in *Input) { in.Instance.State = Failing })
}

// The walk goes through the table at phaseOf, one look after the other, on one machine.
func TestPhasesOfALife(t *testing.T) {
	deleted := metav1.NewTime(now)
	none := func(in *Input) { in.Instance, in.Node, in.Machine.Spec.ProviderID = nil, nil, nil }
	late := func(in *Input) { unready(in); in.Elapsed = Elapsed{Creation: time.Hour, Unhealthy: time.Hour} }
	machine := fresh()
	for i, step := range []struct {
		what  string
		look  func(*Input)
		phase v1alpha1.MachinePhase
	}{
		{"nothing is there", none, v1alpha1.MachinePending},
		{"its configuration is invalid", func(in *Input) { none(in); in.Terminal = &Terminal{Reason: "R"} }, v1alpha1.MachineFailed},
		{"it is put right", none, v1alpha1.MachinePending},
		{"the instance is made", func(in *Input) { none(in); in.Instance = &Instance{State: Pending, UpToDate: true} }, v1alpha1.MachineProvisioning},
		{"the node registers", unready, v1alpha1.MachineProvisioning},
		{"the node takes too long", late, v1alpha1.MachineFailed},
		{"the node is Ready after all", func(*Input) {}, v1alpha1.MachineRunning},
		{"the node says that it is not Ready", unready, v1alpha1.MachineRunning},
		{"the node is silent", func(in *Input) { in.Node = nodeThat(corev1.ConditionUnknown) }, v1alpha1.MachineUnknown},
		{"it is silent for too long", func(in *Input) { late(in); in.Node = nodeThat(corev1.ConditionUnknown) }, v1alpha1.MachineFailed},
		{"it is still silent", func(in *Input) { in.Node = nodeThat(corev1.ConditionUnknown) }, v1alpha1.MachineFailed},
		{"it comes back", func(*Input) {}, v1alpha1.MachineRunning},
		{"a detector complains", deadlocked, v1alpha1.MachineRunning},
		{"a detector complains for too long", func(in *Input) { deadlocked(in); in.Elapsed.Unhealthy = time.Hour }, v1alpha1.MachineFailed},
		{"the detector is content", func(*Input) {}, v1alpha1.MachineRunning},
		{"an update waits for its turn", func(in *Input) { outdated(in); in.Update.Waiting = "others" }, v1alpha1.MachineRunning},
		{"the node is drained for the update", draining, v1alpha1.MachineUpdating},
		{"the instance is updated", func(in *Input) { outdated(in); in.Updating = true }, v1alpha1.MachineUpdating},
		{"the instance is recreated", func(in *Input) { in.Instance = nil; unready(in) }, v1alpha1.MachineUpdating},
		{"the update takes too long", late, v1alpha1.MachineFailed},
		{"the node is Ready with the update", func(*Input) {}, v1alpha1.MachineRunning},
		{"it is deleted", func(in *Input) { in.Machine.DeletionTimestamp = &deleted }, v1alpha1.MachineTerminating},
	} {
		in := input(machine, step.look)
		in.Now = now.Add(time.Duration(i) * time.Minute)
		machine.Status = Compute(in)
		if machine.Status.Phase != step.phase {
			t.Fatalf("when %s the phase is %s, want %s", step.what, machine.Status.Phase, step.phase)
		}
		if step.phase == v1alpha1.MachineTerminating && Compute(in).Phase != step.phase {
			t.Fatal("a machine that is deleted has another phase at the second look")
		}
	}
}
