package fleettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/test/wire"
)

// Way is how something is broken.
type Way string

// The ways. A network that is cut refuses, or swallows what is sent: both directions, the requests alone (up) or the
// answers alone (down). A slow network works; one that crawls answers no probe in time.
const (
	Kill          Way = "kill"
	Stop          Way = "stop"
	Refuse        Way = "refuse"
	BlackHole     Way = "black-hole"
	BlackHoleUp   Way = "black-hole requests of"
	BlackHoleDown Way = "black-hole answers to"
	Slow          Way = "delay"
	Crawl         Way = "delay beyond use"
)

const (
	slowness  = 150 * time.Millisecond
	crawlness = 6 * time.Second
)

// Kind is the kind of fault that a way belongs to.
type Kind string

// Kinds are all kinds of faults.
var Kinds = []Kind{"SIGKILL", "SIGSTOP", "refuse", "black-hole", "delay"}

// Kind that w belongs to.
func (w Way) Kind() Kind {
	switch w {
	case Kill:
		return "SIGKILL"
	case Stop:
		return "SIGSTOP"
	case Refuse:
		return "refuse"
	case Slow, Crawl:
		return "delay"
	default:
		return "black-hole"
	}
}

// Part is what is broken: a process, or with a way of networks the connections of that process.
type Part string

// The parts. Those of the hub are there once, the others once for each cluster.
const (
	Hub           Part = "the hub"
	HubServer     Part = "the hub's API server"
	HubEtcd       Part = "the hub's etcd"
	HubManager    Part = "the hub's controller manager"
	Agent         Part = "the agent"
	TargetServer  Part = "the target's API server"
	TargetEtcd    Part = "the target's etcd"
	TargetManager Part = "the target's controller manager"
	// Group is the process that the control planes of all clusters share, if they do, and Pack one with hollow nodes of a cluster.
	Group Part = "the shared control planes"
	Pack  Part = "a pack of hollow nodes"
	// HostLink is the agent's connection to the API server that has the pods; there is no process of that name.
	HostLink Part = "the agent's connections to the host"
)

// Shared reports whether all clusters have the same p.
func (p Part) Shared() bool {
	return slices.Contains([]Part{Hub, HubServer, HubEtcd, HubManager, Group}, p)
}

// Fault is one way to break one part.
type Fault struct {
	Way  Way
	Part Part
}

func (f Fault) String() string { return fmt.Sprintf("%s %s", f.Way, f.Part) }

// Mend ends a fault.
type Mend func(ctx context.Context) error

// Break starts a fault. That of a part which is not shared is one of member. What has ended already cannot be broken,
// which is an error.
func (f *Fleet) Break(ctx context.Context, fault Fault, member *localfleet.Member) (Mend, error) {
	fault.Part = f.breakablePart(fault)
	if fault.Way != Kill && fault.Way != Stop {
		return f.cut(fault, member)
	}
	switch fault.Part {
	case Hub:
		return signal(f.HubProcess, fault.Way)
	case Agent:
		return signal(member.Agent, fault.Way)
	case HubServer:
		return breakComponent(ctx, f.Hub, "kube-apiserver", fault.Way)
	case HubEtcd:
		return breakComponent(ctx, f.Hub, "etcd", fault.Way)
	case HubManager:
		return breakComponent(ctx, f.Hub, "kube-controller-manager", fault.Way)
	case TargetServer:
		return breakComponent(ctx, member.Cluster, "kube-apiserver", fault.Way)
	case TargetEtcd:
		return breakComponent(ctx, member.Cluster, "etcd", fault.Way)
	case TargetManager:
		return breakComponent(ctx, member.Cluster, "kube-controller-manager", fault.Way)
	case Group, Pack:
		pid, err := findShared(fault.Part, member)
		if err != nil {
			return nil, err
		}
		return signalPID(pid, fault)
	default:
		return nil, fmt.Errorf("there is no process to %s", fault)
	}
}

// breakablePart is what is broken for the part of a fault: where control planes share a process, that process for a component of one,
// and its API server's connections for those of its etcd.
func (f *Fleet) breakablePart(fault Fault) Part {
	ofTarget := slices.Contains([]Part{TargetServer, TargetEtcd, TargetManager}, fault.Part)
	switch {
	case !ofTarget || f.Isolation() != localfleet.IsolationShared:
		return fault.Part
	case fault.Way == Kill || fault.Way == Stop:
		return Group
	default:
		return TargetServer
	}
}

// findShared returns the process of a part that several clusters or nodes share, 0 if there is none.
func findShared(part Part, member *localfleet.Member) (int, error) {
	ready, err := member.Cluster.Ready()
	if err != nil {
		return 0, err
	}
	if part == Group {
		status, err := process.ReadGroup(ready.Group)
		return status.Process.PID, err
	}
	for _, pid := range ready.HollowNodes() {
		return pid, nil
	}
	return 0, nil
}

// signalPID breaks a process that another one starts again.
func signalPID(pid int, fault Fault) (Mend, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("%s: it does not run", fault)
	}
	if fault.Way == Kill {
		return func(context.Context) error { return nil }, syscall.Kill(pid, syscall.SIGKILL)
	}
	mend := func(context.Context) error {
		if err := syscall.Kill(pid, syscall.SIGCONT); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil // Another fault has killed it meanwhile.
	}
	return mend, syscall.Kill(pid, syscall.SIGSTOP)
}

// signal breaks a process of ours. One that has ended is started again by Supervise, whenever that is called.
func signal(victim *process.Process, way Way) (Mend, error) {
	if !Running(victim) {
		return nil, fmt.Errorf("%s has ended already", victim.Name())
	}
	if way == Kill {
		if err := victim.Signal(syscall.SIGKILL); err != nil {
			return nil, err
		}
		<-victim.Done()
		return func(context.Context) error { return nil }, nil
	}
	return func(context.Context) error { return victim.Signal(syscall.SIGCONT) }, victim.Signal(syscall.SIGSTOP)
}

// breakComponent breaks a process of a control plane, which starts again by itself what was killed.
func breakComponent(ctx context.Context, cluster *process.Cluster, component string, way Way) (Mend, error) {
	if way == Kill {
		return func(context.Context) error { return nil }, cluster.Component(ctx, "kill", component)
	}
	return func(ctx context.Context) error { return cluster.Component(ctx, "resume", component) },
		cluster.Component(ctx, "pause", component)
}

// linksOf are the connections of a part.
func (f *Fleet) linksOf(part Part, member *localfleet.Member) []localfleet.Link {
	hub := localfleet.Link{From: localfleet.FromHub, To: localfleet.HubServer}
	switch part {
	case Hub:
		return []localfleet.Link{hub}
	case HubServer:
		links := []localfleet.Link{hub}
		for _, one := range f.Members {
			links = append(links, localfleet.Link{From: one.Name, To: localfleet.HubServer})
		}
		return links
	case Agent:
		return []localfleet.Link{{From: member.Name, To: localfleet.HubServer}}
	case TargetServer:
		return []localfleet.Link{{From: member.Name, To: localfleet.TargetServer}, {From: member.Name, To: localfleet.HostServer}}
	case HostLink:
		return []localfleet.Link{{From: member.Name, To: localfleet.HostServer}}
	case HubEtcd:
		return []localfleet.Link{{From: localfleet.FromHub, To: etcd}}
	case TargetEtcd:
		return []localfleet.Link{{From: member.Name, To: etcd}}
	default:
		return nil
	}
}

// cut breaks the connections of a part. The agent of a cluster loses the hub alone.
func (f *Fleet) cut(fault Fault, member *localfleet.Member) (Mend, error) {
	var wires []*wire.Wire
	for _, link := range f.linksOf(fault.Part, member) {
		found, err := f.cables.of(link)
		if err != nil {
			return nil, err
		}
		wires = append(wires, found)
	}
	if len(wires) == 0 {
		return nil, fmt.Errorf("there is no cable to %s", fault)
	}
	for _, one := range wires {
		switch fault.Way {
		case Refuse:
			one.Refuse()
		case BlackHole:
			one.Silence(wire.Up, wire.Down)
		case BlackHoleUp:
			one.Silence(wire.Up)
		case BlackHoleDown:
			one.Silence(wire.Down)
		case Slow:
			one.Slow(slowness)
		default:
			one.Slow(crawlness)
		}
	}
	return func(context.Context) error {
		var problems []error
		for _, one := range wires {
			problems = append(problems, one.Mend())
		}
		return errors.Join(problems...)
	}, nil
}

// Running reports whether a process has not ended.
func Running(p *process.Process) bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// Supervise starts hub and agents again when they have ended, as their Deployments would do.
func (f *Fleet) Supervise(ctx context.Context) error {
	problems := []error{f.SuperviseHub(ctx)}
	for _, member := range f.Members {
		if !Running(member.Agent) {
			problems = append(problems, f.StartAgent(ctx, member))
		}
	}
	return errors.Join(problems...)
}

// SuperviseHub starts the hub again when it has ended. It ends whenever it cannot renew its lease in time, also because the
// machine is too busy.
func (f *Fleet) SuperviseHub(ctx context.Context) error {
	if Running(f.HubProcess) {
		return nil
	}
	return f.StartHubProcess(ctx)
}
