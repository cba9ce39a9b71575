package loadtest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

const (
	// heartbeatPeriod is how often heartbeats are looked at.
	heartbeatPeriod = 10 * time.Second
	// defaultLease is how long a Node's Lease is valid unless it says otherwise.
	defaultLease = 40 * time.Second
	// lastHeartbeats bounds the last look at them.
	lastHeartbeats = 5 * time.Second
	// processorPeriod is how often the processors are looked at.
	processorPeriod = 2 * time.Second
)

// simulator is how the simulator itself was during a run.
type simulator struct {
	mu sync.Mutex
	// late says of each Node with heartbeats whether one was late. Nodes that a disruption was on are not in it, but in disrupted.
	late, disrupted map[string]bool
	processors      processors
	agent           time.Duration
	// pulse is that of the agent.
	pulse pulse
}

func newSimulator(clock clock.PassiveClock) *simulator {
	return &simulator{late: map[string]bool{}, disrupted: map[string]bool{}, pulse: pulse{clock: clock}}
}

// observeLeases takes in the Leases of Nodes. Hollow are the names of hollow Nodes, and planned those that have a plan of
// disruptions now. A Node that once had one does not count any more: it may take its time until it is healthy again.
func (s *simulator) observeLeases(leases []coordinationv1.Lease, hollow, planned map[string]bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range planned {
		s.disrupted[name] = true
		delete(s.late, name)
	}
	for i := range leases {
		name, renewed := leases[i].Name, leases[i].Spec.RenewTime
		if renewed == nil || !hollow[name] || s.disrupted[name] {
			continue
		}
		s.late[name] = s.late[name] || now.Sub(renewed.Time) > lateHeartbeat(leases[i].Spec.LeaseDurationSeconds)
	}
}

// lateHeartbeat is how old the heartbeat of a Node may be: half the duration of its Lease, which its kubelet renews after a quarter.
func lateHeartbeat(leaseSeconds *int32) time.Duration {
	if leaseSeconds == nil || *leaseSeconds <= 0 {
		return defaultLease / 2
	}
	return time.Duration(*leaseSeconds) * time.Second / 2
}

// processorsAt takes in what the machine's processors have done until now.
func (s *simulator) processorsAt(total, idle uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processors.addSample(total, idle, at)
}

// hadDisruption are the Nodes that a disruption was on.
func (s *simulator) hadDisruption() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.disrupted)
}

// countUndisrupted counts the Nodes that no disruption was on.
func (s *simulator) countUndisrupted(nodes map[string]bool) (count int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range nodes {
		if !s.disrupted[name] {
			count++
		}
	}
	return count
}

// simulatorReport is how the simulator was, and what the validity of the run rests on.
func (x *execution) simulatorReport() (v1alpha1.LoadSimulator, simulatorFacts) {
	e := x.engine
	report, facts := x.simulator.report(e.Nodes.LateKubelets(), e.Recorder.Requests.Load(), e.Recorder.Late.Load())
	interruptions, lag, unexplained := e.WatchHealth()
	facts.Interruptions, facts.WatchLag = interruptions, unexplained
	facts.Unseen = x.simulator.countUndisrupted(e.Nodes.HollowNodes())
	report.WatchInterruptions, report.LongestWatchLag.Duration = interruptions, lag.Round(time.Millisecond)
	report.Doubts = listDoubts(facts)
	return report, facts
}

// report is how the simulator was, as far as it knows itself. Late kubelets and requests are counted elsewhere.
func (s *simulator) report(lateKubelets map[string]measurement.LateKubelet, requests, lateRequests int64) (v1alpha1.LoadSimulator, simulatorFacts) {
	stalls, longest := s.pulse.countStalls()
	s.mu.Lock()
	defer s.mu.Unlock()
	var late int32
	for _, l := range s.late {
		if l {
			late++
		}
	}
	var kubelets, queues, starved int32
	for name, late := range lateKubelets {
		if s.disrupted[name] {
			continue
		}
		kubelets++
		if late.Queue {
			queues++
		}
		if late.Starved {
			starved++
		}
	}
	busy, saturated, watched := s.processors.percentBusy()
	return v1alpha1.LoadSimulator{
			Nodes: int32(len(s.late)), LateHeartbeats: late, LateKubelets: kubelets, LateRequests: lateRequests,
			CPUBusyPercent: int32(busy + 0.5), CPUSaturatedPercent: int32(saturated + 0.5), AgentCPUMilliseconds: s.agent.Milliseconds(),
			Stalls: stalls, LongestStall: metav1.Duration{Duration: longest.Round(time.Millisecond)},
		}, simulatorFacts{
			Stalls: stalls, LongestStall: longest, BusyPercent: busy,
			Nodes: int32(len(s.late)), LateNodes: late, LateQueues: queues, StarvedKubelets: starved, Requests: requests, LateRequests: lateRequests,
			CPUSeconds: watched.Seconds(), SaturatedPercent: saturated,
		}
}

// observe measures the simulator until ctx ends. What it returns is called then, with the context of the run: as long as that continues,
// it looks at heartbeats once more, because a short run has looked once only, and what was late since would not be seen.
func (x *execution) observe(ctx context.Context) (finish func(context.Context)) {
	begun := agentTime()
	var group sync.WaitGroup
	group.Go(func() { x.callEvery(ctx, heartbeatPeriod, x.readHeartbeats) })
	group.Go(func() { x.callEvery(ctx, processorPeriod, x.readProcessors) })
	group.Go(func() { x.simulator.pulse.watchClock(ctx, x.deps) })
	return func(run context.Context) {
		group.Wait()
		if run.Err() == nil {
			bounded, cancel := context.WithTimeout(run, lastHeartbeats)
			defer cancel()
			x.readHeartbeats(bounded)
		}
		x.simulator.mu.Lock()
		x.simulator.agent = agentTime() - begun
		x.simulator.mu.Unlock()
	}
}

// callEvery calls look now and once a period, until ctx ends.
func (x *execution) callEvery(ctx context.Context, period time.Duration, look func(context.Context)) {
	for ctx.Err() == nil {
		look(ctx)
		_ = sleepFor(ctx, x.deps, period)
	}
}

// readHeartbeats looks at the heartbeats of hollow Nodes. The API server answers from its cache, which may be a little behind.
func (x *execution) readHeartbeats(ctx context.Context) {
	asked := x.deps.Clock.Now()
	leases, err := x.engine.load.Clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	x.engine.Recorder.AddAnswerTime(x.deps.Clock.Now(), x.deps.Clock.Since(asked))
	if err != nil {
		if ctx.Err() == nil {
			x.addNote("heartbeats were not watched: " + shortenError(withRights(fmt.Errorf("listing Leases: %w", err))))
		}
		return
	}
	pods := &corev1.PodList{}
	if err := x.deps.Host.List(ctx, pods, client.InNamespace(x.deps.Host.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		x.addNote("heartbeats were not watched: " + shortenError(fmt.Errorf("listing the pods of hollow nodes: %w", err)))
		return
	}
	planned := map[string]bool{}
	for i := range pods.Items {
		if name := pods.Items[i].Labels[v1alpha1.MachineNameLabel]; name != "" && pods.Items[i].Annotations[disrupt.Annotation] != "" {
			planned[name] = true
		}
	}
	x.simulator.observeLeases(leases.Items, x.engine.Nodes.HollowNodes(), planned, x.deps.Clock.Now())
}

// readProcessors looks at the processors of the agent's machine. Where they cannot be read, nothing is known of them.
func (x *execution) readProcessors(context.Context) {
	if total, idle, err := machineTime(); err == nil {
		x.simulator.processorsAt(total, idle, x.deps.Clock.Now())
	}
}

// pulsePeriod is how often the agent looks at its clock, and longestPulse how long it may take until it does so again.
const pulsePeriod, longestPulse = 100 * time.Millisecond, time.Second

// pulse notices that this process stood still: because it was stopped, got no processor, or collected garbage.
type pulse struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	last    time.Time
	stalls  int32
	longest time.Duration
}

// checkClock looks at the clock.
func (p *pulse) checkClock() {
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap := now.Sub(p.last); !p.last.IsZero() && gap > longestPulse {
		p.stalls++
		p.longest = max(p.longest, gap)
	}
	p.last = now
}

// countStalls is how many times the process stood still, and for how long at most.
func (p *pulse) countStalls() (stalls int32, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalls, p.longest
}

// watchClock beats until ctx ends.
func (p *pulse) watchClock(ctx context.Context, deps Deps) {
	p.checkClock()
	for sleepFor(ctx, deps, pulsePeriod) == nil {
		p.checkClock()
	}
	p.checkClock()
}

const (
	// lateNodePercent, lateRequestPercent and saturatedPercent are how much of 100 makes a run invalid, if it is more.
	lateNodePercent, lateRequestPercent, saturatedPercent = 5, 5, 90
	// fewestLateNodes is the number below which late heartbeats and work queues do not matter: one of several may be ill for its own reasons.
	fewestLateNodes = 2
	// starvedPercent is how much of 100 hollow nodes may be starved: on a machine that is busy with many of them those that get most pods
	// are for a while, and what is measured is still the load on the cluster.
	starvedPercent = 25
	// busyPercent and doubtfulPercent are how busy processors, or in which part of the time saturated ones, leave a doubt.
	busyPercent, doubtfulPercent = 90, 50
	// shortestSaturation is how long processors have to be watched, in seconds.
	shortestSaturation = 30
)

// simulatorFacts are what the validity of a run rests on.
type simulatorFacts struct {
	Nodes, LateNodes int32
	// Unseen are hollow Nodes, while not one heartbeat was seen.
	Unseen                      int32
	LateQueues, StarvedKubelets int32
	Requests, LateRequests      int64
	// CPUSeconds is how long the processors were watched, and SaturatedPercent the part of it in which they were saturated.
	CPUSeconds       float64
	SaturatedPercent float64
	// BusyPercent is how busy they were on average.
	BusyPercent float64
	// Stalls is how many times the agent stood still, and LongestStall for how long at most.
	Stalls       int32
	LongestStall time.Duration
	// Interruptions is how many times its watches were interrupted. WatchLag is how late they were at most while requests were answered in
	// time: what is late as a whole is the API server.
	Interruptions int32
	WatchLag      time.Duration
}

// invalidReasons says why a run says nothing about its cluster; empty for a valid one. It is invalid if
//   - more than 5 % of the Nodes, and at least two or the only one, had late heartbeats: the hollow nodes could not keep up;
//   - no heartbeat of them was seen at all, so it is unknown whether they did;
//   - the kubelets of as many were late with their work queues, for the same reason;
//   - those of more than 25 % waited for a processor all the time: their machines, or their cgroups, gave them too little;
//   - more than 5 % of the requests were made more than a second late: the agent could not keep up;
//   - the agent stood still for more than a second, or its watches were interrupted or late: what it has measured meanwhile is not true;
//   - the agent's processors were saturated in more than 90 % of at least 30 seconds, and a heartbeat, a work queue or a request was late.
//     Saturation alone says nothing: small machines are always busy while pods start.
func invalidReasons(f simulatorFacts) []string {
	reasons := nodeReasons(f)
	if f.Stalls > 0 {
		reasons = append(reasons, fmt.Sprintf("the agent stalled %s, for up to %s: it was stopped, or got no CPU. Give it more CPU, or use a larger machine", howOften(f.Stalls), measure.Round(f.LongestStall)))
	}
	if f.Interruptions > 0 {
		reasons = append(reasons, fmt.Sprintf("a watch of the agent was interrupted %s, so events in that time have wrong timestamps. Check the network between agent and API server", howOften(f.Interruptions)))
	}
	if f.WatchLag > measurement.LongestLag {
		reasons = append(reasons, fmt.Sprintf("the agent's watch of pods was up to %s behind while requests were answered in time, so the measurements of pods are wrong. Give the agent more CPU, or check the network", measure.Round(f.WatchLag)))
	}
	if f.LateRequests*100 > f.Requests*lateRequestPercent {
		reasons = append(reasons, fmt.Sprintf("%d of %d requests were made more than a second after their time: the agent did not keep up. Use a lower rate, or a larger machine", f.LateRequests, f.Requests))
	}
	if f.SaturatedPercent > saturatedPercent && f.CPUSeconds >= shortestSaturation && (f.LateNodes > 0 || f.LateQueues > 0 || f.LateRequests > 0) {
		reasons = append(reasons, fmt.Sprintf("the processors of the agent's machine were saturated for %.0f %% of the time, and %d heartbeats, %d work queues and %d requests were late", f.SaturatedPercent, f.LateNodes, f.LateQueues, f.LateRequests))
	}
	return reasons
}

// nodeReasons says why hollow nodes make a run invalid.
func nodeReasons(f simulatorFacts) []string {
	var reasons []string
	tooMany := func(late int32) bool {
		return (late >= fewestLateNodes || late == f.Nodes) && int64(late)*100 > int64(f.Nodes)*lateNodePercent
	}
	if tooMany(f.LateNodes) {
		reasons = append(reasons, fmt.Sprintf("%d of %d Nodes had late heartbeats: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateNodes, f.Nodes))
	}
	if f.Nodes == 0 && f.Unseen > 0 {
		reasons = append(reasons, fmt.Sprintf("no heartbeat of %d hollow Nodes was seen, so whether they kept up is unknown. Let the agent list Leases in %s", f.Unseen, corev1.NamespaceNodeLease))
	}
	if tooMany(f.LateQueues) {
		reasons = append(reasons, fmt.Sprintf("the kubelets of %d of %d Nodes were late with pods that were due: the hollow nodes did not keep up. Use fewer of them, or a larger machine", f.LateQueues, f.Nodes))
	}
	if int64(f.StarvedKubelets)*100 > int64(f.Nodes)*starvedPercent {
		reasons = append(reasons, fmt.Sprintf("the kubelets of %d of %d Nodes waited for a processor throughout: the hollow nodes did not keep up. Use fewer of them, give them more, or use a larger machine", f.StarvedKubelets, f.Nodes))
	}
	return reasons
}

// listDoubts say what makes it possible that the simulator was the bottleneck, although too little for an invalid run.
func listDoubts(f simulatorFacts) []string {
	var list []string
	if f.CPUSeconds > 0 && (f.BusyPercent >= busyPercent || f.SaturatedPercent >= doubtfulPercent) {
		list = append(list, fmt.Sprintf("the processors of the agent's machine were busy for %.0f %%, and saturated in %.0f %% of the time: hollow nodes, or a control plane beside them, may have waited for one", f.BusyPercent, f.SaturatedPercent))
	}
	if f.LateNodes > 0 {
		list = append(list, fmt.Sprintf("%d of %d Nodes had late heartbeats", f.LateNodes, f.Nodes))
	}
	if f.LateQueues > 0 {
		list = append(list, fmt.Sprintf("the kubelets of %d of %d Nodes were late with pods that were due", f.LateQueues, f.Nodes))
	}
	if f.StarvedKubelets > 0 {
		list = append(list, fmt.Sprintf("the kubelets of %d of %d Nodes waited for a processor all the time", f.StarvedKubelets, f.Nodes))
	}
	if f.LateRequests > 0 {
		list = append(list, fmt.Sprintf("%d of %d requests were made more than a second after their time by the agent", f.LateRequests, f.Requests))
	}
	return list
}

// howOften says how many times something was.
func howOften(count int32) string {
	if count == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", count)
}
