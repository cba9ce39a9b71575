package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// heartbeatAge is older than the Lease of a node that is well can be: it is renewed every 10 seconds.
const heartbeatAge = 20 * time.Second

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

// lasting is a fault from now on, for so long.
func lasting(length time.Duration, fault plan.Fault) plan.Entry {
	now := time.Now().Truncate(time.Second)
	e := plan.Entry{Run: "outage", UID: "u-" + strings.ToLower(string(fault.Type)), Fault: fault, Seed: 1}
	e.Start, e.End = metav1.NewTime(now), metav1.NewTime(now.Add(length))
	return e
}

// disrupt gives the node a plan with just these entries, as the volume of its pod does.
func (p *process) disrupt(t *testing.T, entries ...plan.Entry) {
	t.Helper()
	text, err := plan.Encode(plan.Plan{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.planPath()+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.planPath()+".new", p.planPath()); err != nil {
		t.Fatal(err)
	}
}

// activeFaults are the types of the faults that the node says are there.
func (p *process) activeFaults() ([]plan.FaultType, error) {
	code, text := p.probe("/disruptions")
	var status struct {
		Active []struct{ Type plan.FaultType }
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil || code != 200 {
		return nil, errors.Join(fmt.Errorf("/disruptions: %d: %s", code, text), err)
	}
	var types []plan.FaultType
	for _, one := range status.Active {
		types = append(types, one.Type)
	}
	return types, nil
}

// expectFaults succeeds when just these faults are there.
func (p *process) expectFaults(want ...plan.FaultType) error {
	if got, err := p.activeFaults(); err != nil || !slices.Equal(got, want) {
		return errors.Join(fmt.Errorf("active: %v, want %v", got, want), err)
	}
	return nil
}

// condition expects a condition of the Node, with a message that contains a text; no status means that there is none.
func (p *process) condition(name corev1.NodeConditionType, status corev1.ConditionStatus, message string) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == name && (c.Status != status || !strings.Contains(c.Message, message)) {
				return fmt.Errorf("%s is %s, want %q with %q: %s", name, c.Status, status, message, c.Message)
			} else if c.Type == name {
				return nil
			}
		}
		if status != "" {
			return fmt.Errorf("there is no condition %s", name)
		}
		return nil
	}
}

// leaseAge is how long ago the Lease was renewed.
func (p *process) leaseAge(ctx context.Context) (time.Duration, error) {
	lease, err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, p.name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return time.Since(lease.Spec.RenewTime.Time), nil
}

// leaseFrozen expects a Lease that is not renewed, or is.
func (p *process) leaseFrozen(frozen bool) func(context.Context) error {
	return func(ctx context.Context) error {
		age, err := p.leaseAge(ctx)
		if err == nil && (age > heartbeatAge) != frozen {
			err = fmt.Errorf("the Lease was renewed %s ago", age)
		}
		return err
	}
}

// podWaits expects a pod that has not started.
func (p *process) podWaits(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := p.client.CoreV1().Pods("default").Get(ctx, p.name+"-"+name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return waitsFor("ContainerCreating")(pod)
	}
}

// podReady expects a pod that is ready.
func (p *process) podReady(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := p.client.CoreV1().Pods("default").Get(ctx, p.name+"-"+name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return isReady(pod)
	}
}

type seen struct {
	what string
	is   func(context.Context) error
}

// faultTest is faults that are there together, and how they are seen.
type faultTest struct {
	name   string
	faults []plan.Fault
	// prepare is called when the faults are there.
	prepare             func(t *testing.T)
	injected, recovered []seen
}

// run disrupts the node, and takes the plan away when everything has been seen.
func (f faultTest) run(t *testing.T, p *process) {
	t.Helper()
	t.Run(f.name, func(t *testing.T) {
		var entries []plan.Entry
		var types []plan.FaultType
		for _, fault := range f.faults {
			entries, types = append(entries, lasting(10*time.Minute, fault)), append(types, fault.Type)
		}
		p.disrupt(t, entries...)
		eventually(t, "the plan is followed", 10*time.Second, func(context.Context) error { return p.expectFaults(types...) })
		if f.prepare != nil {
			f.prepare(t)
		}
		for _, one := range f.injected {
			eventually(t, one.what, time.Minute, one.is)
		}
		p.disrupt(t)
		for _, one := range f.recovered {
			eventually(t, "recovered: "+one.what, time.Minute, one.is)
		}
		eventually(t, "no fault is there", 10*time.Second, func(context.Context) error { return p.expectFaults() })
		p.readyNode(t)
	})
}

// One node has one fault after the other, so that each also shows that the one before has left nothing behind.
// Claim: Faults show at the API server and end. Broken: NotReady makes no state. Also: agent/simulator/internal/disrupt TestStatesOfFaults, TestAFaultIsThereInItsWindowOnly.
func TestFaults(t *testing.T) { //nolint:tparallel // see above
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("disrupted"), goodToken)
	p.join(t)
	eventually(t, "there is a Lease", time.Minute, p.leaseFrozen(false))
	faultTest{
		name: "FreezeHeartbeat and PodStartFail", faults: []plan.Fault{{Type: plan.FreezeHeartbeat}, {Type: plan.PodStartFail}},
		prepare: func(t *testing.T) { p.submit(t, p.pod("fails")) },
		injected: []seen{
			{"the Lease is not renewed", p.leaseFrozen(true)},
			{"the pod does not start", p.podWaits("fails")},
			{"the event says why", p.hasEvent("fails", "disrupted by outage")},
		},
		recovered: []seen{{"the Lease is renewed", p.leaseFrozen(false)}, {"the pod starts", p.podReady("fails")}},
	}.run(t, p)
	faultTest{
		name: "NotReady", faults: []plan.Fault{{Type: plan.NotReady}},
		injected: []seen{
			{"the Node is not ready", p.condition(corev1.NodeReady, corev1.ConditionFalse, "disrupted by outage")},
			{"the process is alive", func(context.Context) error { return p.expectProbe("/healthz", 200) }},
		},
		recovered: []seen{{"the Node is ready", p.condition(corev1.NodeReady, corev1.ConditionTrue, "")}},
	}.run(t, p)
	if testing.Short() {
		return
	}
	for _, test := range p.longFaults() {
		test.run(t, p)
	}
}

func (p *process) longFaults() []faultTest {
	frozenStatus := plan.Fault{Type: plan.FreezeHeartbeat, FreezeHeartbeat: &plan.FreezeHeartbeatParameters{Heartbeat: plan.HeartbeatStatus}}
	frozenLease := plan.Fault{Type: plan.FreezeHeartbeat, FreezeHeartbeat: &plan.FreezeHeartbeatParameters{Heartbeat: plan.HeartbeatLease}}
	deadlock := plan.Fault{Type: plan.Condition, Condition: &plan.ConditionParameters{Type: "KernelDeadlock", Reason: "DockerHung", Message: "task docker:7 blocked"}}
	all := []plan.PressureResource{plan.PressureMemory, plan.PressureDisk, plan.PressurePID}
	var rejected string
	return []faultTest{
		{
			name: "Pressure", faults: []plan.Fault{{Type: plan.Pressure, Pressure: &plan.PressureParameters{Resources: all}}},
			prepare: func(t *testing.T) {
				rejected = p.name + "-rejected"
				p.submit(t, p.pod("rejected"))
			},
			injected: []seen{
				{"memory", p.condition(corev1.NodeMemoryPressure, corev1.ConditionTrue, "")},
				{"disk", p.condition(corev1.NodeDiskPressure, corev1.ConditionTrue, "")},
				{"PID", p.condition(corev1.NodePIDPressure, corev1.ConditionTrue, "")},
				{"a pod is rejected", func(ctx context.Context) error {
					pod, err := p.client.CoreV1().Pods("default").Get(ctx, rejected, metav1.GetOptions{})
					if err == nil && (pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted") {
						err = fmt.Errorf("the pod is %+v", pod.Status)
					}
					return err
				}},
			},
			recovered: []seen{
				{"memory", p.condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "")},
				{"disk", p.condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "")},
				{"PID", p.condition(corev1.NodePIDPressure, corev1.ConditionFalse, "")},
			},
		},
		{
			name: "Condition", faults: []plan.Fault{deadlock},
			injected:  []seen{{"KernelDeadlock", p.condition("KernelDeadlock", corev1.ConditionTrue, "task docker:7 blocked (disrupted by outage)")}},
			recovered: []seen{{"KernelDeadlock", p.condition("KernelDeadlock", "", "")}},
		},
		{
			name: "FreezeHeartbeat of the status", faults: []plan.Fault{frozenStatus, deadlock},
			prepare: func(t *testing.T) {
				throughout(t, "the status is frozen", 25*time.Second, p.condition("KernelDeadlock", "", ""))
			},
			injected: []seen{{"the Lease is renewed", p.leaseFrozen(false)}},
		},
		{
			name: "FreezeHeartbeat of the Lease", faults: []plan.Fault{frozenLease, deadlock},
			injected: []seen{
				{"the Lease is not renewed", p.leaseFrozen(true)},
				{"the status is reported", p.condition("KernelDeadlock", corev1.ConditionTrue, "")},
			},
			recovered: []seen{{"the Lease is renewed", p.leaseFrozen(false)}, {"KernelDeadlock", p.condition("KernelDeadlock", "", "")}},
		},
		{
			name: "PodStartDelay", faults: []plan.Fault{{Type: plan.PodStartDelay, PodStartDelay: &plan.PodStartDelayParameters{Delay: seconds(8)}}},
			prepare: func(t *testing.T) {
				p.submit(t, p.pod("delayed"))
				throughout(t, "the pod waits", 6*time.Second, p.podHasNotStarted("delayed"))
			},
			injected: []seen{{"the pod starts in the end", p.podReady("delayed")}},
		},
		{
			name: "SlowAPI", faults: []plan.Fault{{Type: plan.SlowAPI, SlowAPI: &plan.SlowAPIParameters{Latency: seconds(8), Clients: []plan.APIClient{plan.ClientMain}}}},
			prepare: func(t *testing.T) {
				p.submit(t, p.pod("slow"))
				throughout(t, "the status of the pod comes late", 6*time.Second, p.podHasNotStarted("slow"))
			},
			injected: []seen{{"it comes", p.podReady("slow")}, {"the Lease is renewed", p.leaseFrozen(false)}},
		},
		{
			name: "APIErrors", faults: []plan.Fault{{Type: plan.APIErrors, APIErrors: &plan.APIErrorsParameters{StatusCode: 500, Clients: []plan.APIClient{plan.ClientMain}}}},
			prepare: func(t *testing.T) {
				p.submit(t, p.pod("unreported"))
				throughout(t, "the status of the pod does not come", 15*time.Second, p.podHasNotStarted("unreported"))
			},
			injected:  []seen{{"the Lease is renewed", p.leaseFrozen(false)}},
			recovered: []seen{{"the pod is reported", p.podReady("unreported")}},
		},
		{
			name: "Flap", faults: []plan.Fault{{Type: plan.Flap, Flap: &plan.FlapParameters{NotReadyFor: seconds(20), ReadyFor: seconds(20)}}},
			injected: []seen{
				{"not ready", p.condition(corev1.NodeReady, corev1.ConditionFalse, "disrupted by outage")},
				{"ready", p.condition(corev1.NodeReady, corev1.ConditionTrue, "")},
				{"not ready again", p.condition(corev1.NodeReady, corev1.ConditionFalse, "disrupted by outage")},
			},
		},
	}
}

// podHasNotStarted expects a pod of which the API server does not know that it runs.
func (p *process) podHasNotStarted(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if p.podReady(name)(ctx) == nil {
			return errors.New("the pod is ready")
		}
		return nil
	}
}

// hasEvent expects an event of a pod whose message contains a text.
func (p *process) hasEvent(name, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := p.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.name + "-" + name})
		if err != nil {
			return err
		}
		for _, event := range list.Items {
			if strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("%d events, none with %q", len(list.Items), text)
	}
}
