package disrupt_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
)

func TestStatesOfFaults(t *testing.T) {
	path := planPath(t)
	writePlan(t, path,
		entryOf(plan.Fault{Type: plan.FreezeHeartbeat}),
		entryOf(plan.Fault{Type: plan.Pressure, Pressure: &plan.PressureParameters{Resources: []plan.PressureResource{"PID", "Memory"}}}),
		entryOf(plan.Fault{Type: plan.Pressure, Pressure: &plan.PressureParameters{Resources: []plan.PressureResource{"Memory", "Disk"}}}, func(e *plan.Entry) { e.Index = 1 }),
		entryOf(plan.Fault{Type: plan.Condition, Condition: &plan.ConditionParameters{Type: "KernelDeadlock", Message: "it hangs"}}),
		entryOf(plan.Fault{Type: plan.Condition, Condition: &plan.ConditionParameters{Type: "KernelDeadlock", Status: "False"}}, func(e *plan.Entry) { e.Index = 1 }),
		entryOf(plan.Fault{Type: plan.SlowAPI, SlowAPI: &plan.SlowAPIParameters{Latency: metav1.Duration{Duration: time.Second}}}),
		entryOf(plan.Fault{Type: plan.APIErrors}),
	)
	f := follow(t, path, 0)
	f.goTo(10)
	got := f.state()
	if !got.FrozenLease || !got.FrozenStatus || len(got.API) != 2 || got.NotReady != "" {
		t.Errorf("got %+v", got)
	}
	if want := []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure}; !slices.Equal(got.Pressure, want) {
		t.Errorf("pressure %v, want %v", got.Pressure, want)
	}
	want := corev1.NodeCondition{Type: "KernelDeadlock", Status: "True", Reason: "NodeDisruption", Message: "it hangs (disrupted by outage)"}
	if len(got.Conditions) != 1 || got.Conditions[0] != want {
		t.Errorf("conditions %+v, want %+v", got.Conditions, want)
	}
	for message, marked := range map[string]bool{
		want.Message: true, "(disrupted by a.b-1)": true, "it hangs": false, "": false,
		"(disrupted by outage) and more": false, "(disrupted by the weather and more)": false,
	} {
		if disrupt.IsMarked(message) != marked {
			t.Errorf("%q: marked %t", message, !marked)
		}
	}
	f.goTo(20)
	if got := f.state(); !slices.Equal(got.Pressure, nil) || len(got.Conditions)+len(got.API) != 0 || got.FrozenLease {
		t.Errorf("after the end: %+v", got)
	}
}

func TestFlapIsNotReadyInTurn(t *testing.T) {
	path := planPath(t)
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	writePlan(t, path, entryOf(plan.Fault{Type: plan.Flap, Flap: &plan.FlapParameters{NotReadyFor: seconds(20), ReadyFor: seconds(15)}},
		func(e *plan.Entry) { e.End.Time = start.Add(time.Minute) }))
	f := follow(t, path, 0)
	for _, step := range []struct {
		at   float64
		down bool
	}{{9, false}, {10, true}, {29.9, true}, {30, false}, {44.9, false}, {45, true}, {60, false}} {
		f.goTo(step.at)
		if got := f.state().NotReady != ""; got != step.down {
			t.Errorf("after %.1fs: not ready %t", step.at, got)
		}
	}
}
