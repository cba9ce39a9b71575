package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// busyInterval is how often runs are listed while one is to be carried out: the start and the end that a user asks for have to be
	// found soon. Otherwise they are listed when one of them changes, and at least once an idleInterval; once a blindInterval if that
	// cannot be watched.
	busyInterval, blindInterval, idleInterval = time.Second, 5 * time.Second, poll.LongestSilence
	// longest bounds one round.
	longest = 30 * time.Second
	// progressPeriod and measurementPeriod are how often progress and measurements are written.
	progressPeriod, measurementPeriod = 5 * time.Second, 30 * time.Second
)

// Deps are what a Controller works with. All are required but Log.
type Deps struct {
	// Hub has the runs, whose status and finalizer are written.
	Hub clients.Hub
	// Watch watches them, or their metadata, while there is nothing to do.
	Watch poll.WatchFunc
	// Target makes and removes namespaces.
	Target kubernetes.Interface
	// Load makes the clients of one run, whose requests the function sees.
	Load func(observe func(http.RoundTripper) http.RoundTripper) (*clients.Load, error)
	// NodeInformers has the hollow Nodes of the target.
	NodeInformers cache.Informers
	// Host has the hollow-node pods, from the cache.
	Host clients.Host
	// Limits is what the administrator of the cluster lets runs do. Its zero value is the strictest.
	Limits confine.Limits
	Freeze freeze.Checker
	poll.Runtime
}

// Controller carries runs out, one at a time.
type Controller struct {
	Deps
	// known are the runs as they were read or written last, without the measurements of those that are over.
	known map[types.UID]*v1alpha1.LoadTestRun
	// active is the run that continues in this process, and written when its progress and its measurements were written last.
	active  *execution
	written struct{ progress, measurements time.Time }
	// listed are the runs that the hub has, also such as cannot be read; nil if it does not have the kind.
	listed map[types.UID]bool
	// version is that of the list of runs; empty if it could not be read.
	version string
	// busy is that a run is to be carried out, and settled that nothing is to be done for any of them until one changes.
	busy, settled bool
	// busyFor, blind and idle are how long it waits between rounds.
	busyFor, blind, idle time.Duration
	// turns is what keeps runs from being the next, and removalTurn how long a removal keeps the next one waiting.
	turns       turns
	removalTurn time.Duration
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if !deps.Hub.IsComplete() || deps.Watch == nil || deps.Target == nil || deps.Load == nil || deps.NodeInformers == nil ||
		deps.Host.Client == nil || deps.Host.Namespace == "" || deps.Freeze == nil || deps.Clock == nil {
		return nil, errors.New("load tests need the cluster's namespace, clients of hub, target and host, the Nodes, the host's namespace, the freeze state and a clock")
	}
	limits, err := deps.Limits.Complete()
	if err != nil {
		return nil, err
	}
	deps.Limits = limits
	return &Controller{Deps: deps, known: map[types.UID]*v1alpha1.LoadTestRun{}, busyFor: busyInterval, blind: blindInterval, idle: idleInterval, removalTurn: removalTurn}, nil
}

// Start works until ctx ends. It implements manager.Runnable.
func (c *Controller) Start(ctx context.Context) error {
	err := poll.Loop{
		Doing: "Carrying out load tests", Timeout: longest, Next: c.nextRound, Runtime: c.Runtime,
		Do: func(bounded context.Context) error { return c.advanceRuns(bounded, ctx) },
	}.Run(ctx)
	if c.active != nil {
		<-c.active.over
	}
	return err
}

// nextRound returns how long to wait for the next round. While nothing is to be done, it first waits for a change of a run.
func (c *Controller) nextRound(ctx context.Context) time.Duration {
	switch {
	case c.busy:
		return c.busyFor
	case c.settled && poll.AwaitChange(ctx, c.Watch, c.version, c.idle):
		return 0
	}
	return c.blind
}

// advanceRuns reads the runs, and does what is next for each of them. A run continues in its own goroutine, until life ends.
func (c *Controller) advanceRuns(ctx, life context.Context) error {
	c.settled = false
	runs, problems, err := c.readRuns(ctx)
	if err != nil {
		return err
	}
	frozen, bystander := c.frozenReason()
	if bystander {
		return nil
	}
	c.noteTurns(runs)
	first := c.nextRun(runs)
	c.endVanished()
	c.busy = first != nil || c.active != nil
	for _, run := range runs {
		if err := c.advanceRun(ctx, life, run, first, frozen); err != nil {
			c.passOver(run, err)
			problems = append(problems, fmt.Errorf("load test run %s: %w", run.Name, err))
		}
	}
	c.settled = c.version != "" && !c.busy && len(problems) == 0 && !slices.ContainsFunc(runs, c.isUnsettled)
	return errors.Join(problems...)
}

// frozenReason says why the agent is frozen; empty if it is not. A bystander is frozen because another agent works for the cluster: what
// that one writes must not be replaced.
func (c *Controller) frozenReason() (why string, bystander bool) {
	err := c.Freeze.Check()
	if err == nil {
		return "", false
	}
	return err.Error(), freeze.IsBystander(err)
}

// executionOf returns the execution of a run, nil if it does not continue in this process.
func (c *Controller) executionOf(run types.UID) *execution {
	if c.active != nil && c.active.engine.run.UID == run {
		return c.active
	}
	return nil
}
