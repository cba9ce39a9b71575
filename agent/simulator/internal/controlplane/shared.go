package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

// SharedProcess is a process in which components of several clusters run as functions.
type SharedProcess interface {
	// Launch starts one run of a component. The log takes what the component says.
	Launch(ctx context.Context, cluster, component string, args []string, log io.Writer) (SharedRun, error)
	// Dir is the directory of its group.
	Dir() string
	// KillWait is how long a component may take to end when nothing of it is waited for any more.
	KillWait() time.Duration
}

// SharedRun is one run of a component in a shared process.
type SharedRun interface {
	process.Instance
	// Healthy returns nil if the component does its job.
	Healthy(ctx context.Context) error
}

const (
	// IsolationProcess is a cluster each of whose components has a process of its own.
	IsolationProcess = "process"
	// IsolationShared is a cluster whose components share a process with those of other clusters.
	IsolationShared = "shared"
)

// requirementPatience is how long a component waits for the one that it needs. It must not start without: an API server gives up
// after a while by ending its process.
const requirementPatience = 10 * time.Second

// sharedActions are what can be done to a component that has no process of its own.
var sharedActions = []Action{ActionStart, ActionStop}

// killWait is how long to wait for the end of a component that was killed, 0 for the usual time.
func (o *Options) killWait() time.Duration {
	if o.Shared == nil {
		return 0
	}
	return o.Shared.KillWait()
}

// isolationMode is what the cluster's components share.
func (o *Options) isolationMode() string {
	if o.Shared == nil {
		return IsolationProcess
	}
	return IsolationShared
}

// groupDir is the directory of the group, empty for a cluster of processes of its own.
func (o *Options) groupDir() string {
	if o.Shared == nil {
		return ""
	}
	return o.Shared.Dir()
}

// checkAction refuses what only a process can suffer.
func (o *Options) checkAction(component string, action Action) error {
	if o.Shared == nil || slices.Contains(sharedActions, action) {
		return nil
	}
	return fmt.Errorf("%s of this cluster shares a process with other clusters, so %s would hit those too: use stop and start, or start the cluster in processes of its own (without --group; kubectl hollow local up --isolation=%s)", component, action, IsolationProcess)
}

// launchShared starts a component in the shared process when the one that it needs is healthy.
func (s *supervisor) launchShared(component string, flags func() []string) process.Launch {
	return func(ctx context.Context) (process.Instance, error) {
		if err := s.checkRoom(component); err != nil {
			return nil, err
		}
		// A podhost waits for its API server itself.
		if needed, ok := s.units[requirements[component]]; ok && component != Podhost {
			waiting, cancel := context.WithTimeout(ctx, requirementPatience)
			defer cancel()
			if err := needed.WaitHealthy(waiting); err != nil {
				return nil, err
			}
		}
		run, err := s.options.Shared.Launch(ctx, s.cluster.Name, component, flags(), s.logs[component])
		if err != nil {
			return nil, err
		}
		s.sharedRuns.Store(component, run)
		return run, nil
	}
}

// checkShared asks the shared process about the component's present run.
func (s *supervisor) checkShared(component string) healthCheck {
	return func(ctx context.Context) error {
		run, ok := s.sharedRuns.Load(component)
		if !ok {
			return errors.New("it has not started")
		}
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		return run.(SharedRun).Healthy(ctx) //nolint:forcetypeassert // Nothing else is stored there.
	}
}
