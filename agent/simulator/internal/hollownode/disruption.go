package hollownode

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/utils/clock"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

const (
	// exitCodeKilled is what a killed process leaves behind.
	exitCodeKilled = 128 + int(syscall.SIGKILL)
	// turnFile, in the state directory, has the time from which the node's own configuration counts.
	turnFile = "first-start"
)

// disruption is where the parts of a hollow node are made to fail.
type disruption struct {
	node string
	gate *fakecri.Gate
	api  *disrupt.API
	life *life
	// devices and claims are those of the machine, nil without any.
	devices *devices
	claims  *claims
	// evicts: the kubelet has thresholds at which it evicts pods.
	evicts bool
	logind *logind

	mu         sync.Mutex
	pressure   *pressure // nil before there is a kubelet
	state      disrupt.State
	conditions conditions
}

func newDisruption(node string, gate *fakecri.Gate, l *life, evicts bool, powerOff func(run string)) *disruption {
	api := disrupt.NewAPI(node, clock.RealClock{})
	return &disruption{node: node, gate: gate, api: api, life: l, evicts: evicts, logind: newLogind(l, powerOff)}
}

// applyState brings all parts into a state.
func (d *disruption) applyState(state disrupt.State) {
	if state.NotReady != "" {
		d.gate.Fail(runtimeapi.RuntimeReady, fakecri.Failure{Reason: plan.DefaultReason, Message: "disrupted by " + state.NotReady})
	} else {
		d.gate.Restore(runtimeapi.RuntimeReady)
	}
	var podStart fakecri.PodStart
	if len(state.PodStarts) > 0 {
		podStart = func(uid string) (time.Duration, string) { return state.PodStart(d.node, uid) }
	}
	d.gate.DisturbPodStarts(podStart)
	d.api.Set(state)
	d.logind.setShutdown(state.ShuttingDown)
	d.devices.applyState(state)
	d.claims.applyState(state)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = state
	if d.pressure != nil {
		d.pressure.setConditions(state.Pressure)
	}
}

// attachTo reaches into a kubelet that does not run yet.
func (d *disruption) attachTo(k *kubelet.Kubelet) error {
	pressure, err := pressureOf(k)
	if err != nil {
		return err
	}
	if err := addStatusSetter(k, d.setConditions); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pressure = pressure
	pressure.setConditions(d.state.Pressure)
	return guardEvictions(k, d.life, d.evicts) // From here on, what was reached in it is behind another manager.
}

// setConditions is called by the kubelet with its Node before it reports the status.
func (d *disruption) setConditions(_ context.Context, node *corev1.Node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.evicts {
		d.pressure.setConditions(d.state.Pressure)
	}
	d.conditions.setConditions(node, d.state.Conditions, time.Now())
	return nil
}

// endForDisruption ends the node as if its process were killed, or only its kubelet.
func (n *node) endForDisruption(run string, fault plan.FaultType) {
	if fault == plan.RestartKubelet {
		klog.Background().Info("Restarting the kubelet for a disruption", "node", n.configuration.NodeName, "run", run)
		n.restarts.Store(true)
		n.life.endNode()
		return
	}
	if n.options.KillProcess {
		killProcess(run, fault)
	}
	klog.Background().Info("Ending the node for a disruption", "node", n.configuration.NodeName, "run", run, "fault", fault)
	n.life.endNode()
}

// killProcess ends the process as if it were killed. The first process of a container cannot kill itself.
func killProcess(run string, fault plan.FaultType) {
	klog.Background().Info("Ending the process for a disruption", "run", run, "fault", fault)
	klog.Flush()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	os.Exit(exitCodeKilled)
}

// ownEntry is what the node's own configuration lets go wrong, if anything. It counts from the first start of a kubelet on
// the state directory, so that a restarted process continues where it was.
func ownEntry(c contract.Configuration, stateDir string, now time.Time) (plan.Entry, bool, error) {
	if c.Unhealthy == nil {
		return plan.Entry{}, false, nil
	}
	path := filepath.Join(stateDir, turnFile)
	begun := now.UTC()
	if data, err := os.ReadFile(path); err == nil && begun.UnmarshalText(data) == nil {
		return plan.Own(begun, c.Unhealthy.HealthyFor.Duration, c.Unhealthy.UnhealthyFor.Duration), true, nil
	}
	text, err := now.UTC().MarshalText()
	if err == nil {
		err = atomicfile.Write(path, text, 0o600)
	}
	if err != nil {
		return plan.Entry{}, false, fmt.Errorf("noting when the node first started: %w", err)
	}
	return plan.Own(now.UTC(), c.Unhealthy.HealthyFor.Duration, c.Unhealthy.UnhealthyFor.Duration), true, nil
}

// followPlan starts carrying out the plan of the node's disruptions, and serves its health until stop is called.
func (n *node) followPlan(ctx context.Context, monitor *health) (follower *disrupt.Follower, stop func(), err error) {
	follower = disrupt.New(ctx, disrupt.Options{
		Node: n.configuration.NodeName, Path: n.options.DisruptionsFile, Apply: n.disruption.applyState, Die: n.endForDisruption,
	})
	if stop, err = monitor.serveHealth(n.options, serveStatus(follower)); err != nil {
		return nil, nil, err
	}
	go follower.Run(ctx)
	return follower, stop, nil
}

// turnUnhealthy adds what the node's own configuration lets go wrong.
func (n *node) turnUnhealthy(follower *disrupt.Follower) error {
	own, has, err := ownEntry(n.configuration, n.options.StateDir, time.Now())
	if has {
		follower.SetOwn(own)
	}
	return err
}

// serveStatus answers with what a Follower knows and does.
func serveStatus(follower *disrupt.Follower) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(follower.Status()) // The client has gone if this fails.
	}
}
