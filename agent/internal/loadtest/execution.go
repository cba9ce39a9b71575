package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// freezePeriod is how often a run asks whether the agent is frozen. Requests are refused at once in any case.
	freezePeriod = 200 * time.Millisecond
	// mostFailure is how long a failure may be.
	mostFailure = 1024
	// mostNotes and mostNote are how many notes a status has, and how long each is.
	mostNotes, mostNote = 8, 512
	// explainTimeout bounds the reading of events at the end.
	explainTimeout = 20 * time.Second
)

// Why runs end early.
var (
	errStopped   = errors.New("stopped: spec.stopped was set")
	errDeleted   = errors.New("the run was deleted")
	errVanished  = errors.New("the run no longer exists on the hub")
	errRestarted = errors.New("the agent was restarted during the run")
)

// execution is a run that continues in this process.
type execution struct {
	deps   Deps
	engine *engine
	end    context.CancelCauseFunc
	// over is closed when nothing continues any more.
	over chan struct{}
	// startRequest receives when the first step is to start.
	startRequest chan time.Time

	simulator *simulator

	mu          sync.Mutex
	environment *v1alpha1.LoadEnvironment
	phase       v1alpha1.LoadTestRunPhase
	start, ask  time.Time
	finish      time.Time
	failure     string
	notes       []string
}

// startExecution starts to carry a run out, until ctx ends.
func startExecution(ctx context.Context, deps Deps, run *v1alpha1.LoadTestRun) (*execution, error) {
	e, err := newEngine(deps, run)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	e.end = end
	x := &execution{
		deps: deps, engine: e, end: end, over: make(chan struct{}), startRequest: make(chan time.Time, 1), phase: v1alpha1.LoadTestRunPhasePreparing,
		simulator: newSimulator(deps.Clock),
	}
	go x.watchFreeze(ctx)
	go func() {
		defer close(x.over)
		defer end(nil)
		err := x.runToEnd(ctx)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.finish = deps.Clock.Now()
		if err != nil {
			x.failure = failureOf(err)
		}
	}()
	return x, nil
}

// failureOf is what a status says of why a run was not carried out in full.
func failureOf(err error) string {
	message := err.Error()
	var frozen *freeze.Error
	if errors.As(err, &frozen) {
		message = fmt.Sprintf("frozen: %s: %s", frozen.Reason, frozen.Message)
	}
	return conditions.Shorten(message, mostFailure)
}

// runToEnd carries the run out.
func (x *execution) runToEnd(ctx context.Context) error {
	if err := x.engine.prepareRun(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	environment := x.readEnvironment(ctx)
	server, err := x.awaitStart(ctx)
	if err != nil {
		return err
	}
	measured, stop := context.WithCancel(ctx)
	defer stop()
	x.mu.Lock()
	x.environment = environment
	x.phase, x.start = v1alpha1.LoadTestRunPhaseRunning, x.deps.Clock.Now()
	x.mu.Unlock()
	x.engine.Recorder.StartSeries(x.start)
	finish := x.observe(measured)
	err = x.engine.runSteps(ctx)
	ended := x.deps.Clock.Now()
	stop()
	finish(ctx)
	x.engine.RecordUnfinished(x.simulator.hadDisruption(), ended)
	x.explainUnready(ctx)
	x.scrapeAfter(context.WithoutCancel(ctx), server)
	return err
}

// explainUnready finds out why pods were never Ready that do not say it themselves.
func (x *execution) explainUnready(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	if err := x.engine.ExplainUnready(ctx); err != nil {
		x.addNote("the events of pods that were never Ready were not read: " + shortenError(withRights(err)))
	}
}

// awaitStart waits until the run is to start. It returns what the API server has counted until shortly before.
func (x *execution) awaitStart(ctx context.Context) (measurement.ServerCounts, error) {
	x.mu.Lock()
	x.phase = v1alpha1.LoadTestRunPhasePrepared
	x.mu.Unlock()
	at := x.deps.Clock.Now()
	if x.engine.run.Spec.WithStartTime {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case at = <-x.startRequest:
		}
	}
	counts := x.scrapeBefore(ctx)
	// What is left of the time; nothing if reading the counts has taken longer.
	err := sleepFor(ctx, x.deps, at.Sub(x.deps.Clock.Now()))
	return counts, err
}

// startAt says when the first step is to start. Only the first time counts.
func (x *execution) startAt(at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ask.IsZero() {
		x.ask = at
		x.startRequest <- at
	}
}

// watchFreeze ends the run when the agent freezes.
func (x *execution) watchFreeze(ctx context.Context) {
	for sleepFor(ctx, x.deps, freezePeriod) == nil {
		if err := x.deps.Freeze.Check(); err != nil {
			x.end(err)
			return
		}
	}
}

// isOver reports whether nothing continues any more.
func (x *execution) isOver() bool {
	select {
	case <-x.over:
		return true
	default:
		return false
	}
}

func (x *execution) scrapeBefore(ctx context.Context) measurement.ServerCounts {
	counts, err := x.engine.ScrapeServer(ctx)
	if err != nil && ctx.Err() == nil {
		text := fmt.Sprintf("%s is missing: %s", v1alpha1.LoadAPIServerRequest, err)
		if apierrors.IsForbidden(err) {
			text = fmt.Sprintf("%s is missing: the agent may not read /metrics: %s", v1alpha1.LoadAPIServerRequest, rights)
		}
		x.addNote(conditions.Shorten(text, mostNote))
	}
	return counts
}

func (x *execution) scrapeAfter(ctx context.Context, before measurement.ServerCounts) {
	if before == nil {
		return
	}
	after, err := x.engine.ScrapeServer(ctx)
	if err != nil {
		x.addNote(conditions.Shorten(fmt.Sprintf("%s is missing: %s", v1alpha1.LoadAPIServerRequest, withRights(err)), mostNote))
		return
	}
	x.engine.RecordServer(before, after)
}

// addNote adds to the run's notes, once.
func (x *execution) addNote(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.notes) < mostNotes && !slices.Contains(x.notes, text) {
		x.notes = append(x.notes, text)
	}
}

// shortenError is an error as a note has it.
func shortenError(err error) string { return conditions.Shorten(err.Error(), mostNote/2) }
