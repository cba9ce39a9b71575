package localfleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// hostedCheck is how often to look whether a hosted cluster still runs in its group.
const hostedCheck = 5 * time.Second

// hosted is a hosted cluster of which the keeper takes care.
type hosted struct {
	fleet *Fleet
	name  string
	// wake lets the keeper look at once.
	wake chan struct{}
	// start is nil when it does not start. Only run uses it.
	start *start

	mutex sync.Mutex
	// member is what runs of it, and startedVersion the ControlPlaneVersion that its control plane was started with.
	member         Member
	startedVersion string
	// upgrading is what is being done to the components of the control plane, one after the other; empty if nothing is.
	upgrading string
	// waiting is why it has not been started; empty if it has.
	waiting string
	// isRenewed is that the agent has to start again, because of what it starts with.
	isRenewed bool
	// problem is why it does not run, or is not gone.
	problem string
	proof   proof
}

func (f *Fleet) addHosted(name string) *hosted {
	f.hosting.mutex.Lock()
	defer f.hosting.mutex.Unlock()
	cluster := &hosted{fleet: f, name: name, wake: make(chan struct{}, 1), member: Member{Name: name}}
	if f.hosting.clusters == nil {
		f.hosting.clusters, f.hosting.ending = map[string]*hosted{}, map[string]bool{}
		f.hosting.starting = make(chan struct{}, startsAtATime())
	}
	f.hosting.clusters[name] = cluster
	return cluster
}

func (h *hosted) current() Member {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.member
}

// noteChange lets the keeper look at the cluster again. isRenewed is that its agent has to start again.
func (h *hosted) noteChange(isRenewed bool) {
	h.mutex.Lock()
	h.isRenewed = h.isRenewed || isRenewed
	h.mutex.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hosted) setProblem(err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.problem = ""; err != nil {
		h.problem = err.Error()
	}
}

// errGone is how the care for a cluster ends of which nothing is left.
var errGone = errors.New("nothing is left of it")

// run brings the cluster to what its record says, and keeps it there, until ctx ends or nothing is left of it.
func (h *hosted) run(ctx context.Context) {
	defer h.endStart()
	wait, failed := firstRestart, time.Time{}
	for ctx.Err() == nil {
		err := h.step(ctx)
		switch {
		case errors.Is(err, errGone):
			h.fleet.reportProgress("%s: removed", h.name)
			return
		case errors.Is(err, errChanged):
			continue
		}
		h.setProblem(err)
		pause := hostedCheck
		var ended []<-chan struct{}
		if err != nil {
			h.endStart()
			if time.Since(failed) > steady {
				wait = firstRestart
			}
			h.fleet.reportProgress("%s: %v; trying again in %s", h.name, err, wait)
			pause, wait, failed = wait, min(2*wait, lastRestart), time.Now()
		} else {
			if h.followStart(ctx); h.start != nil {
				pause = startCheck
			}
			ended = h.endings()
		}
		h.await(ctx, pause, ended)
	}
}

// endings are closed when something of the cluster has ended.
func (h *hosted) endings() []<-chan struct{} {
	member := h.current()
	ended := []<-chan struct{}{nil, nil}
	if member.Cluster != nil {
		ended[0] = member.Cluster.Process.Done()
	}
	if member.Agent != nil {
		ended[1] = member.Agent.Done()
	}
	return ended
}

func (h *hosted) await(ctx context.Context, pause time.Duration, ended []<-chan struct{}) {
	ended = append(ended, nil, nil)
	select {
	case <-ctx.Done():
	case <-h.wake:
	case <-ended[0]:
	case <-ended[1]:
	case <-time.After(pause):
	}
}

// step does what is missing.
func (h *hosted) step(ctx context.Context) error {
	record, there := h.fleet.hostedRecord(h.name)
	if !there {
		return errGone
	}
	if record.Removing {
		return h.remove(ctx, record)
	}
	if err := h.ensurePlane(ctx, record); err != nil {
		return err
	}
	if record.FormerGroup != "" {
		if err := h.leaveGroup(record); err != nil {
			return err
		}
	}
	return h.ensureAgent(ctx)
}

// ensurePlane starts the control plane, also again, and with another version.
func (h *hosted) ensurePlane(ctx context.Context, record HostedCluster) error {
	member := h.current()
	if member.Cluster != nil && runsPlane(member.Cluster) && h.startedVersion == record.ControlPlaneVersion {
		return nil
	}
	if isUpgradable(member, record) {
		return h.upgradePlane(ctx, member, record)
	}
	if member.Cluster != nil {
		h.fleet.reportProgress("%s: starting its control plane again", h.name)
		if err := h.stopPlane(member); err != nil { //nolint:contextcheck // It is stopped as a whole, also when the fleet ends.
			return err
		}
	}
	if err := h.beginStart(ctx); err != nil {
		return err
	}
	f := h.fleet
	own, err := f.programVersion()
	if err != nil {
		return err
	}
	wanted := plane{name: h.name, dir: hostedDir(f.options.Dir, h.name), isHosted: true}
	if wanted.minor, err = emulatedMinor(record.ControlPlaneVersion, own); err != nil {
		return err
	}
	if record.Group != "" {
		if wanted.group, err = f.ensureGroup(ctx, record.Group, wanted.minor); err != nil {
			return err
		}
	}
	started, c, err := f.startControlPlane(ctx, wanted)
	h.mutex.Lock()
	h.member.Cluster, h.member.Client, h.startedVersion, h.proof = started, c, record.ControlPlaneVersion, proof{}
	h.mutex.Unlock()
	return err
}

// stopPlane ends the control plane; its data stays.
func (h *hosted) stopPlane(member Member) error {
	if member.Cluster == nil {
		return nil
	}
	if err := member.Cluster.Stop(); err != nil {
		return fmt.Errorf("stopping the control plane of %s: %w", h.name, err)
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.member.Cluster, h.member.Client, h.proof = nil, nil, proof{}
	return nil
}

// runsPlane reports whether a control plane runs: its own supervisor, or its group's and the group has it.
func runsPlane(cluster *process.Cluster) bool {
	if isDone(cluster.Process) {
		return false
	}
	group := cluster.Group()
	if group == nil {
		return true
	}
	status, err := process.ReadGroup(group.Dir)
	return err != nil || slices.Contains(status.Clusters, cluster.Dir())
}

// ensureAgent starts the agent, also again.
func (h *hosted) ensureAgent(ctx context.Context) error {
	member := h.current()
	h.mutex.Lock()
	isRenewed := h.isRenewed
	h.isRenewed = false
	h.mutex.Unlock()
	if member.Agent != nil && isDone(member.Agent) {
		h.setAgent(nil)
		return fmt.Errorf("its agent has ended; the end of its log %s:\n%s", member.Agent.LogFile(), process.Tail(member.Agent.LogFile(), 3))
	}
	if member.Agent != nil && !isRenewed {
		return nil
	}
	if err := h.stopAgent(member); err != nil {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		h.isRenewed = isRenewed
		return err
	}
	if err := grantMember(ctx, member.Client); err != nil {
		return err
	}
	if err := h.fleet.StartAgent(ctx, &member); err != nil {
		return err
	}
	h.setAgent(member.Agent)
	return nil
}

func (h *hosted) setAgent(agent *process.Process) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.member.Agent = agent
}

func (h *hosted) stopAgent(member Member) error {
	if member.Agent == nil {
		return nil
	}
	if err := member.Agent.Stop(stopGrace); err != nil && !isDone(member.Agent) {
		return err
	}
	h.setAgent(nil)
	return nil
}
