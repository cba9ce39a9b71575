package hollownode

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

type observedKubelet struct {
	last time.Time
	err  error
}

func (k *observedKubelet) LatestLoopEntryTime() time.Time { return k.last }
func (k *observedKubelet) GetNode(context.Context) (*corev1.Node, error) {
	return &corev1.Node{}, k.err
}

func TestHealth(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	gate := &fakecri.Gate{}
	h := &health{gate: gate, now: func() time.Time { return now }}
	expect := func(what string, alive, ready bool) {
		t.Helper()
		if err := h.alive(); (err == nil) != alive {
			t.Errorf("%s: alive: %v", what, err)
		}
		if err := h.ready(context.Background()); (err == nil) != ready {
			t.Errorf("%s: ready: %v", what, err)
		}
	}
	now = start.Add(time.Hour)
	expect("waiting for the certificate", true, false)

	k := &observedKubelet{err: errors.New("not found")}
	h.watch(k)
	expect("kubelet started", true, false)
	k.err = nil
	k.last = now
	expect("registered", true, true)
	now = now.Add(syncLoopPatience)
	expect("loop at the limit", true, true)
	now = now.Add(time.Second)
	expect("loop stuck", false, true)
	gate.Fail(runtimeapi.RuntimeReady, fakecri.Failure{})
	expect("runtime made to fail", true, true)
	gate.Restore(runtimeapi.RuntimeReady)
	expect("runtime restored, loop still stuck", false, true)
	k.last = now
	expect("loop goes round again", true, true)
}

func TestAKubeletThatNeverLoopsIsNotAliveForEver(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	h := &health{gate: &fakecri.Gate{}, now: func() time.Time { return now }}
	h.watch(&observedKubelet{})
	now = now.Add(syncLoopPatience + time.Second)
	if h.alive() == nil {
		t.Error("a kubelet whose loop never went round counts as alive")
	}
}
