package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestEventsTellOfTurnsAndOfNothingUsual(t *testing.T) {
	status := func(phase v1alpha1.MachinePhase, healthy metav1.ConditionStatus, reason string) v1alpha1.MachineStatus {
		return v1alpha1.MachineStatus{Phase: phase, Conditions: []metav1.Condition{
			{Type: v1alpha1.MachineHealthyCondition, Status: healthy, Reason: reason},
		}}
	}
	const running, unknown, updating = v1alpha1.MachineRunning, v1alpha1.MachineUnknown, v1alpha1.MachineUpdating
	well := status(running, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	failed := status(v1alpha1.MachineFailed, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady)
	failed.ErrorReason = v1alpha1.ErrorHealthTimeout
	tests := map[string]struct {
		before, after v1alpha1.MachineStatus
		want          string
	}{
		"coming up for the first time":  {status(v1alpha1.MachineProvisioning, metav1.ConditionUnknown, v1alpha1.ReasonPending), well, ""},
		"staying well":                  {well, well, ""},
		"not ready any more":            {well, status(running, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady), "Warning NodeNotReady"},
		"heard of no more":              {well, status(unknown, metav1.ConditionFalse, v1alpha1.ReasonNodeStatusUnknown), "Warning NodeStatusUnknown"},
		"a listed condition":            {well, status(running, metav1.ConditionFalse, v1alpha1.ReasonUnhealthyNodeCondition), "Warning UnhealthyNodeCondition"},
		"ready again":                   {status(unknown, metav1.ConditionFalse, v1alpha1.ReasonNodeStatusUnknown), well, "Normal Healthy"},
		"too late":                      {status(unknown, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady), failed, "Warning HealthTimeout"},
		"ready again although too late": {failed, well, "Normal Recovered"},
		"taken away by an update":       {well, status(updating, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady), ""},
		"given back by an update":       {status(updating, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady), well, ""},
		"going":                         {well, status(v1alpha1.MachineTerminating, metav1.ConditionTrue, v1alpha1.ReasonHealthy), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, e := range storyOf(test.before, test.after) {
				got += e.Type + " " + e.Reason
			}
			if got != test.want {
				t.Errorf("tells %q, want %q", got, test.want)
			}
		})
	}
}

func TestEventsAreBoundedAndTheDroppedOnesCounted(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	fake, metrics := events.NewFakeRecorder(1000), NewMetrics(prometheus.NewRegistry())
	r := newRecorder(fake, clock, metrics)
	sent := func() int {
		n := len(fake.Events)
		for range n {
			<-fake.Events
		}
		return n
	}
	machine := func(uid string) *v1alpha1.Machine {
		m := &v1alpha1.Machine{}
		m.UID = types.UID(uid)
		return m
	}
	warning := reconciler.WarningEvent(v1alpha1.ReasonNodeNotReady, "Observe", "x")
	usual := reconciler.NormalEvent(v1alpha1.ReasonDraining, "Drain", "x")
	dropped := func(kind string) float64 { return testutil.ToFloat64(metrics.droppedEvents.WithLabelValues(kind)) }

	for range 40 {
		r.sendEvent(machine("flaps"), warning)
	}
	g.Expect(sent()).To(Equal(turnsBurstOfOne))
	g.Expect(dropped(corev1.EventTypeWarning)).To(Equal(40.0 - turnsBurstOfOne))
	for range 40 {
		r.sendEvent(machine("drains"), usual)
	}
	g.Expect(sent()).To(Equal(usualBurst))
	g.Expect(dropped(corev1.EventTypeNormal)).To(Equal(40.0 - usualBurst))
	r.sendEvent(machine("fails"), warning)
	g.Expect(sent()).To(Equal(1), "neither one that flaps nor drains keep a warning of another back")

	clock.SetTime(clock.Now().Add(time.Minute))
	for range 2 {
		r.sendEvent(machine("flaps"), warning)
	}
	g.Expect(sent()).To(Equal(1), "one a minute")
	for i := range 300 {
		r.sendEvent(machine(string(rune('a'+i))), warning)
	}
	g.Expect(sent()).To(Equal(turnsBurst-1), "a host that is lost with all its machines")
	r.forgetMachine("flaps")
	_, found := r.ofOne.Load(types.UID("flaps"))
	g.Expect(found).To(BeFalse())
}
