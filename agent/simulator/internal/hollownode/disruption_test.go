package hollownode

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

func TestConditionsComeAndGo(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	earlier, later := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now)
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: earlier}
	wanted := corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue, Reason: "Hung", Message: "it hangs (disrupted by outage)"}
	was := corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionFalse, Reason: "Fine", Message: "no deadlock", LastTransitionTime: earlier}
	there := wanted
	there.LastTransitionTime = earlier
	for name, test := range map[string]struct {
		// before is what the Node has, during what it has with the disruption, and after when that is over.
		before, during, after []corev1.NodeCondition
		restarted             bool
	}{
		"a new one": {
			[]corev1.NodeCondition{ready}, []corev1.NodeCondition{ready, at(wanted, later)}, []corev1.NodeCondition{ready}, false,
		},
		"one that was there": {
			[]corev1.NodeCondition{was, ready}, []corev1.NodeCondition{at(wanted, later), ready}, []corev1.NodeCondition{at(was, later), ready}, false,
		},
		"one of an earlier process": {
			[]corev1.NodeCondition{ready, there}, []corev1.NodeCondition{ready, there}, []corev1.NodeCondition{ready}, false,
		},
		"the process is restarted": {
			[]corev1.NodeCondition{ready}, []corev1.NodeCondition{ready, at(wanted, later)}, []corev1.NodeCondition{ready}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &conditions{}
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: slices.Clone(test.before)}}
			for range 2 { // The kubelet asks again and again.
				c.setConditions(node, []corev1.NodeCondition{wanted}, now)
				if got := withoutHeartbeats(node); !slices.Equal(got, withTransitions(test.during)) {
					t.Fatalf("during: got  %+v\nwant %+v", got, test.during)
				}
			}
			if test.restarted {
				c = &conditions{}
			}
			for range 2 {
				c.setConditions(node, nil, now)
				if got := withoutHeartbeats(node); !slices.Equal(got, withTransitions(test.after)) {
					t.Fatalf("after: got  %+v\nwant %+v", got, test.after)
				}
			}
		})
	}
}

func at(c corev1.NodeCondition, transition metav1.Time) corev1.NodeCondition {
	c.LastTransitionTime = transition
	return c
}

func withoutHeartbeats(node *corev1.Node) []corev1.NodeCondition {
	return withTransitions(node.Status.Conditions)
}

func withTransitions(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	cleared := slices.Clone(conditions)
	for i := range cleared {
		cleared[i].LastHeartbeatTime = metav1.Time{}
	}
	return cleared
}

func TestTheOwnEntryCountsFromTheFirstStart(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, has, err := ownEntry(contract.Configuration{}, dir, now); has || err != nil {
		t.Errorf("without configuration: %t, %v", has, err)
	}
	c := contract.Configuration{Unhealthy: &contract.Unhealthy{HealthyFor: metav1.Duration{Duration: time.Minute}}}
	for _, later := range []time.Duration{0, 90 * time.Second} { // A process that is restarted is no younger.
		own, has, err := ownEntry(c, dir, now.Add(later))
		if err != nil || !has || !own.Start.Time.Equal(now) {
			t.Fatalf("%s later: %+v, %t, %v", later, own, has, err)
		}
		if _, within, _ := own.At("n", now.Add(later)); within != (later > time.Minute) {
			t.Errorf("%s later: within the window: %t", later, within)
		}
	}
}

func TestStatesReachTheRuntime(t *testing.T) {
	gate := &fakecri.Gate{}
	d := newDisruption("n1", gate, newLife(), false, nil)
	d.applyState(disrupt.State{NotReady: "outage"})
	if !gate.Failed(runtimeapi.RuntimeReady) {
		t.Error("the runtime is up")
	}
	d.applyState(disrupt.State{})
	if gate.Failed(runtimeapi.RuntimeReady) {
		t.Error("the runtime is down after the end")
	}
}

// checkPressure shows that the kubelet's own eviction manager reports and admits by what a disruption says.
func checkPressure(t *testing.T, k *kubelet.Kubelet, d *disruption) {
	t.Helper()
	manager, err := getField[eviction.Manager](k, evictionManager)
	if err != nil {
		t.Fatal(err)
	}
	if resting, ok := manager.(restingEvictions); ok {
		manager = resting.Manager
	}
	admits := func() bool {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		return minor.Admit(t.Context(), manager.(lifecycle.PodAdmitHandler), &lifecycle.PodAdmitAttributes{Pod: pod}).Admit
	}
	for _, pressed := range []bool{true, false} {
		state := disrupt.State{}
		if pressed {
			state.Pressure = []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodePIDPressure}
		}
		d.applyState(state)
		if manager.IsUnderDiskPressure() != pressed || manager.IsUnderPIDPressure() != pressed || manager.IsUnderMemoryPressure() || admits() == pressed {
			t.Errorf("with pressure %v: disk %t, PID %t, memory %t, admits %t", state.Pressure,
				manager.IsUnderDiskPressure(), manager.IsUnderPIDPressure(), manager.IsUnderMemoryPressure(), admits())
		}
	}
}

// A manager with thresholds writes back what it has read before a disruption came, or ended.
func TestThePressureOfADisruptionOutlivesTheManagersLooks(t *testing.T) {
	type observations map[corev1.NodeConditionType]time.Time
	var lock sync.RWMutex
	var conditions []corev1.NodeConditionType
	observed := observations{corev1.NodeMemoryPressure: time.Now()}
	p := &pressure{lock: &lock, conditions: &conditions, observed: reflect.ValueOf(&observed).Elem()}
	expect := func(when string, disk bool) {
		t.Helper()
		at, there := observed[corev1.NodeDiskPressure]
		if there != disk || disk && time.Until(at) < ages || slices.Contains(conditions, corev1.NodeDiskPressure) != disk {
			t.Errorf("%s: observed %v, conditions %v", when, observed, conditions)
		}
		if _, kept := observed[corev1.NodeMemoryPressure]; !kept {
			t.Errorf("%s: what the manager has observed is gone", when)
		}
	}
	before := observed
	for range 2 {
		p.setConditions([]corev1.NodeConditionType{corev1.NodeDiskPressure})
		expect("during", true)
		observed, conditions = before, nil
	}
	p.setConditions([]corev1.NodeConditionType{corev1.NodeDiskPressure})
	before = observed
	for range 2 {
		p.setConditions(nil)
		expect("after", false)
		observed = before
	}
}
