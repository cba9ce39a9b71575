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

// Claim: Health endpoint. Broken: a stuck loop is healthy.
// Claim: Readiness endpoint. Broken: ready without certificate.
func TestHealth(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	gate := &fakecri.Gate{}
	h := &health{gate: gate}
	check := func(times int) {
		for range times {
			h.checkSyncLoop()
		}
	}
	expect := func(what string, alive, ready bool) {
		t.Helper()
		if err := h.checkAlive(); (err == nil) != alive {
			t.Errorf("%s: alive: %v", what, err)
		}
		if err := h.checkReady(context.Background()); (err == nil) != ready {
			t.Errorf("%s: ready: %v", what, err)
		}
	}
	check(10 * stuckChecks)
	expect("waiting for the certificate", true, false)

	k := &observedKubelet{err: errors.New("not found")}
	h.useKubelet(k)
	check(1)
	expect("kubelet started", true, false)
	k.err = nil
	k.last = start
	check(1)
	expect("registered", true, true)
	check(stuckChecks)
	expect("loop at the limit", true, true)
	check(1)
	expect("loop stuck", false, true)
	gate.Fail(runtimeapi.RuntimeReady, fakecri.Failure{})
	expect("runtime made to fail", true, true)
	check(1)
	gate.Restore(runtimeapi.RuntimeReady)
	expect("runtime restored", true, true)
	check(stuckChecks + 1)
	expect("loop still stuck", false, true)
	k.last = start.Add(time.Second)
	check(1)
	expect("loop goes round again", true, true)
}

// A process that gets no processor time makes few checks, however old its sync loop's last round is.
func TestAStarvedKubeletIsAlive(t *testing.T) {
	h := &health{gate: &fakecri.Gate{}}
	h.useKubelet(&observedKubelet{last: time.Now().Add(-time.Hour)})
	for range 2 {
		h.checkSyncLoop()
	}
	if err := h.checkAlive(); err != nil {
		t.Errorf("a kubelet that could not run for an hour: %v", err)
	}
}

func TestAKubeletThatNeverLoopsIsNotAliveForEver(t *testing.T) {
	h := &health{gate: &fakecri.Gate{}}
	h.useKubelet(&observedKubelet{})
	for range stuckChecks + 1 {
		h.checkSyncLoop()
	}
	if h.checkAlive() == nil {
		t.Error("a kubelet whose loop never went round counts as alive")
	}
}
