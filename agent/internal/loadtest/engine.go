package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// mostAtOnce is how many requests of a phase are under way at most.
	mostAtOnce = 100
	// lateAfter is how long after its time a request is late.
	lateAfter = time.Second
	// breachPeriod is how often thresholds are looked at while a run continues, if it ends with the first that is crossed.
	breachPeriod = time.Second
	// fewestForBreach is how many measurements have to be behind a quantile that ends a run.
	fewestForBreach = 100
)

// engine puts the load of one run on the API server, under one context.
type engine struct {
	deps Deps
	load *clients.Load
	run  *v1alpha1.LoadTestRun
	// namespaces are those of the run, and templates its templates by name.
	namespaces []string
	templates  map[string]*template.Template
	// Meter measures what comes of it.
	*measurement.Meter
	// end ends the run.
	end context.CancelCauseFunc

	mu sync.Mutex
	// step is what is being done, and done how many steps are over, their iterations counted.
	step string
	done int32
}

// stepsTotal is how many steps a load has, their iterations counted.
func stepsTotal(load *v1alpha1.Load) int32 {
	var total int32
	for i := range load.Steps {
		total += max(load.Steps[i].Iterations, 1)
	}
	return total
}

// runSteps carries all steps out. Its error says why they were not.
func (e *engine) runSteps(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := e.run.Spec.Timeout.Duration
	if timeout <= 0 {
		timeout = 15 * time.Minute
	}
	bounded, release := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("timeout: the steps did not finish within %s", timeout))
	defer release()
	if e.run.Spec.AbortOnBreach {
		go e.watchThresholds(bounded, cancel)
	}
	for i := range e.run.Spec.Steps {
		step := &e.run.Spec.Steps[i]
		for iteration := range int(max(step.Iterations, 1)) {
			name := step.Name
			if step.Iterations > 1 {
				name = fmt.Sprintf("%s (%d/%d)", step.Name, iteration+1, step.Iterations)
			}
			e.enterStep(name)
			if err := e.doStep(bounded, i, iteration); err != nil {
				return fmt.Errorf("in step %s: %w", name, err)
			}
			e.leaveStep()
		}
	}
	return nil
}

func (e *engine) enterStep(step string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.step = step
}

func (e *engine) leaveStep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done++
}

// currentProgress is how far the run is.
func (e *engine) currentProgress() v1alpha1.LoadProgress {
	created, ready := e.Pods.CountPods()
	e.mu.Lock()
	defer e.mu.Unlock()
	return v1alpha1.LoadProgress{
		Step: e.step, Steps: e.done, StepsTotal: stepsTotal(&e.run.Spec.Load),
		Requests: e.Recorder.Requests.Load(), Failed: e.Recorder.Failed.Load(), Throttled: e.Recorder.Throttled.Load(),
		Delayed: e.Recorder.Delayed.Load(), Skipped: e.Recorder.Skipped.Load(), PodsCreated: created, PodsReady: ready,
	}
}

// doStep does the phases of a step side by side, and returns when all are over. One that fails ends the others.
func (e *engine) doStep(ctx context.Context, step, iteration int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for i := range e.run.Spec.Steps[step].Phases {
		p := &phase{engine: e, spec: &e.run.Spec.Steps[step].Phases[i], iteration: iteration, id: uint64(step)<<32 | uint64(iteration)<<8 | uint64(i)}
		p.template = e.templates[p.spec.Template]
		p.slots = make(chan struct{}, mostAtOnce)
		p.offset = offsetPart(uint64(e.run.Spec.Seed), uint64(step)<<32|uint64(iteration), i, len(e.run.Spec.Steps[step].Phases))
		group.Go(func() {
			if err := p.runPhase(ctx); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// watchThresholds ends the run when one is crossed.
func (e *engine) watchThresholds(ctx context.Context, end context.CancelCauseFunc) {
	for sleepFor(ctx, e.deps, breachPeriod) == nil {
		if breach := firstBreach(e.Recorder.EvaluateThresholds(e.run.Spec.Thresholds)); breach != "" {
			end(errors.New(breach))
			return
		}
	}
}

// firstBreach says which threshold is crossed; empty for none that has enough measurements behind it.
func firstBreach(results []v1alpha1.LoadThresholdResult) string {
	for i, result := range results {
		if result.Met || result.Count < fewestForBreach {
			continue
		}
		if result.Measured != nil && result.Max != nil {
			return fmt.Sprintf("thresholds[%d] is crossed and has abortOnBreach: %s of %s is %s, at most %s is allowed",
				i, result.Quantile, result.Measurement, result.Measured.Duration.Round(time.Microsecond), result.Max.Duration)
		}
		if result.MaxPercent != nil {
			return fmt.Sprintf("thresholds[%d] is crossed and has abortOnBreach: %s of 100 requests failed, at most %d are allowed", i, result.MeasuredPercent, *result.MaxPercent)
		}
	}
	return ""
}

// sleepFor waits, and returns why ctx has ended if it did before.
func sleepFor(ctx context.Context, deps Deps, d time.Duration) error {
	if d > 0 {
		timer := deps.Clock.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
	}
	return context.Cause(ctx)
}
