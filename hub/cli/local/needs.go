//go:build linux

package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/local/preflight"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// defaultTimeout is more than a fleet takes on a machine that has what it needs.
func defaultTimeout(clusters, machines int) time.Duration {
	return 5*time.Minute + time.Duration(clusters)*20*time.Second + time.Duration(clusters*machines)*time.Second
}

// size is the fleet as far as its needs depend on it.
func (o *upOptions) size() preflight.Fleet {
	return preflight.Fleet{
		Clusters: o.clusters, Machines: o.workers.machines, NodesPerPack: o.NodesPerPack, ClustersPerGroup: localfleet.ClustersPerGroup,
		Shared: o.Isolation == localfleet.IsolationShared, SlowHeartbeats: o.Heartbeats == localfleet.HeartbeatsSlow, Host: true,
	}
}

// chooseHeartbeats gives a large fleet slow heartbeats, if the user has not decided.
func (o *upOptions) chooseHeartbeats() {
	if o.Heartbeats == "" && o.size().SavesWithSlowHeartbeats(preflight.ThisMachine.Available(o.dir)) {
		o.Heartbeats, o.slowByDefault = localfleet.HeartbeatsSlow, true
	}
}

// checkNeeds prints what the fleet needs and what this machine has, and refuses a fleet that does not fit.
func (o *upOptions) checkNeeds() error {
	if o.slowByDefault {
		fmt.Fprintln(o.progress, "Nodes report every 30 s, because with 10 s the fleet would take most of the processors at rest: --heartbeats normal or slow decides it")
	}
	report := preflight.Check(o.size(), preflight.ThisMachine.Available(o.dir), o.ignored...)
	if o.dryRun && o.output.isStructured() {
		if err := printStructured(o.hub.Out, report, o.output); err != nil {
			return err
		}
	} else {
		report.Print(o.progress)
	}
	for _, problem := range report.Warnings {
		fmt.Fprintln(o.hub.ErrOut, "Warning: "+problem.Message)
	}
	if len(report.Errors) == 0 {
		return nil
	}
	var names []string
	for _, problem := range report.Errors {
		names = append(names, problem.Check)
	}
	return cmdutil.Refusal("this machine does not hold the fleet, and nothing was started:\n%s\nTo start it all the same, use --%s=%s", preflight.Lines(report.Errors), ignoreFlag, strings.Join(names, ","))
}
