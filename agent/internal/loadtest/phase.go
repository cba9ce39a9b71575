package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// emptyPause is how long a phase waits for objects where there are none.
	emptyPause = 200 * time.Millisecond
	// changePause bounds how often what is waited for is counted.
	changePause = 20 * time.Millisecond
	// patchAnnotation is what the action Patch writes.
	patchAnnotation = "hollowfleet.io/load-patch"
)

// phase is one phase of a step in one of its iterations.
type phase struct {
	*engine
	spec      *v1alpha1.LoadPhase
	template  *template.Template
	iteration int
	// id tells the random numbers of phases apart.
	id uint64
	// offset is at which part of the time between two requests the phase starts.
	offset float64

	// slots has one for each request that is under way, and answers those that are not answered.
	slots   chan struct{}
	answers sync.WaitGroup
	pacer   *pacer
	start   time.Time
	// free is when the last request started that had to wait for a slot. That wait is the API server's, not the agent's.
	free time.Time
	// pauses are the times since the start in which a Churn waited for its objects. What was due then is left out.
	pauses []pause
}

type pause struct{ from, to time.Duration }

// runPhase does the phase, and returns when its requests are answered and what it waits for is so.
func (p *phase) runPhase(ctx context.Context) error {
	p.start = p.deps.Clock.Now()
	var err error
	switch p.spec.Action {
	case v1alpha1.LoadCreate:
		err = p.createObjects(ctx)
	case v1alpha1.LoadDelete:
		err = p.deleteObjects(ctx)
	case v1alpha1.LoadChurn:
		err = p.churnObjects(ctx)
	case v1alpha1.LoadPatch, v1alpha1.LoadGet, v1alpha1.LoadList:
		err = p.repeatRequests(ctx)
	case v1alpha1.LoadWait:
		return sleepFor(ctx, p.deps, p.spec.Duration.Duration)
	default:
		return fmt.Errorf("phases: the agent does not know the action %s: it may be older than the hub", p.spec.Action)
	}
	p.answers.Wait()
	if err != nil {
		return err
	}
	return p.waitForObjects(ctx)
}

// setPace sets when the requests of the phase are due.
func (p *phase) setPace(total int) {
	var duration time.Duration
	if p.spec.Duration != nil {
		duration = p.spec.Duration.Duration
	}
	p.pacer = newPacer(p.spec.Tuning, uint64(p.run.Spec.Seed), p.id, total, duration).withOffset(p.offset)
}

// nextDue is when the next request is due.
func (p *phase) nextDue() time.Duration {
	due := p.pacer.nextDue()
	for len(p.pauses) > 0 && due >= p.pauses[0].from {
		if due >= p.pauses[0].to {
			p.pauses = p.pauses[1:]
			continue
		}
		due = p.pacer.nextDue()
	}
	return due
}

// sendWhenDue makes a request when the next one is due.
func (p *phase) sendWhenDue(ctx context.Context, due time.Duration, request func(context.Context, measurement.SentRequest)) error {
	at := p.start.Add(due)
	if err := sleepFor(ctx, p.deps, at.Sub(p.deps.Clock.Now())); err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
			p.free = p.deps.Clock.Now()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	sent := measurement.SentRequest{Due: at, Sent: p.deps.Clock.Now()}
	inTime := at
	if at.Before(p.free) {
		// It waited for those before it to be answered.
		inTime, sent.Waited = p.free, sent.Sent.Sub(at)
		p.Recorder.Delayed.Add(1)
	}
	if sent.Sent.Sub(inTime) > lateAfter {
		p.Recorder.Late.Add(1)
	}
	p.answers.Go(func() {
		defer func() { <-p.slots }()
		request(ctx, sent)
	})
	return nil
}

func (p *phase) createObjects(ctx context.Context) error {
	total := int(p.spec.Replicas) * len(p.namespaces)
	p.setPace(total)
	for i := range total {
		namespace := p.namespaces[i%len(p.namespaces)]
		if err := p.sendWhenDue(ctx, p.nextDue(), func(ctx context.Context, sent measurement.SentRequest) { p.createOne(ctx, sent, namespace) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *phase) deleteObjects(ctx context.Context) error {
	objects := p.Book.ObjectsInTurn(p.template.Name, p.namespaces, func(have int) int {
		if p.spec.Replicas > 0 {
			return int(p.spec.Replicas)
		}
		return have
	})
	// Where none is, there is nothing that could be measured.
	p.Recorder.Skipped.Add(int64(max(max(int(p.spec.Replicas)*len(p.namespaces), 1)-len(objects), 0)))
	p.setPace(max(len(objects), 1))
	for _, o := range objects {
		if err := p.sendWhenDue(ctx, p.nextDue(), func(ctx context.Context, sent measurement.SentRequest) { p.deleteOne(ctx, sent, o) }); err != nil {
			return err
		}
	}
	return nil
}

// churnObjects replaces objects, each by a new one, so that there are always about as many.
func (p *phase) churnObjects(ctx context.Context) error {
	p.setPace(0)
	for due := p.nextDue(); due < p.spec.Duration.Duration; {
		objects := p.Book.ObjectsInTurn(p.template.Name, p.namespaces, func(have int) int { return churnedPerRound(have, p.spec.ChurnPercent) })
		if len(objects) == 0 {
			if err := sleepFor(ctx, p.deps, emptyPause); err != nil {
				return err
			}
			for due < min(p.deps.Clock.Since(p.start), p.spec.Duration.Duration) {
				p.Recorder.Skipped.Add(1)
				due = p.nextDue()
			}
		}
		for _, o := range objects {
			if due >= p.spec.Duration.Duration {
				break
			}
			if err := p.sendWhenDue(ctx, due, func(ctx context.Context, sent measurement.SentRequest) { p.deleteOne(ctx, sent, o) }); err != nil {
				return err
			}
			if err := p.sendWhenDue(ctx, p.nextDue(), func(ctx context.Context, sent measurement.SentRequest) { p.createOne(ctx, sent, o.Namespace) }); err != nil {
				return err
			}
			due = p.nextDue()
		}
		p.answers.Wait()
		from := p.deps.Clock.Since(p.start)
		if err := p.waitForObjects(ctx); err != nil {
			return err
		}
		if p.spec.Wait == v1alpha1.LoadWaitNone || p.spec.Wait == "" {
			continue
		}
		// What is due while the phase waits for its objects is left out. What was due before that, and waited for answers, is not.
		p.pauses = append(p.pauses, pause{from, p.deps.Clock.Since(p.start)})
		if due >= from && due < p.deps.Clock.Since(p.start) {
			due = p.nextDue()
		}
	}
	return nil
}

// churnedPerRound is how many of the objects of a namespace one round of Churn replaces.
func churnedPerRound(have int, percent int32) int { return (have*int(percent) + 99) / 100 }

// repeatRequests makes the same kind of request for duration.
func (p *phase) repeatRequests(ctx context.Context) error {
	p.setPace(0)
	for n := 0; ; n++ {
		due := p.nextDue()
		if due >= p.spec.Duration.Duration {
			return nil
		}
		request := p.nthRequest(n)
		if request == nil {
			p.Recorder.Skipped.Add(1)
			if err := sleepFor(ctx, p.deps, p.start.Add(due).Sub(p.deps.Clock.Now())); err != nil {
				return err
			}
			continue
		}
		if err := p.sendWhenDue(ctx, due, request); err != nil {
			return err
		}
	}
}

// nthRequest is the n-th request of Get, List or Patch; nil where there is no object for it.
func (p *phase) nthRequest(n int) func(context.Context, measurement.SentRequest) {
	if p.spec.Action == v1alpha1.LoadList {
		namespace := p.namespaces[n%len(p.namespaces)]
		return func(ctx context.Context, sent measurement.SentRequest) { p.listOne(ctx, sent, namespace) }
	}
	o := p.Book.NthObject(p.template.Name, n)
	if o == nil {
		return nil
	}
	if p.spec.Action == v1alpha1.LoadPatch {
		return func(ctx context.Context, sent measurement.SentRequest) { p.patchOne(ctx, sent, o, n) }
	}
	return func(ctx context.Context, sent measurement.SentRequest) { p.getOne(ctx, sent, o) }
}

// waitForObjects waits for what the phase is to wait for.
func (p *phase) waitForObjects(ctx context.Context) error {
	if p.spec.Wait != v1alpha1.LoadWaitReady && p.spec.Wait != v1alpha1.LoadWaitGone {
		return context.Cause(ctx)
	}
	for {
		left, changed := p.Book.CountPending(p.template.Name, p.spec.Wait == v1alpha1.LoadWaitGone)
		if left == 0 {
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s of template %s not %s", context.Cause(ctx), plural.Count(left, "object"), p.template.Name, map[v1alpha1.LoadWaitFor]string{
				v1alpha1.LoadWaitReady: "ready", v1alpha1.LoadWaitGone: "gone",
			}[p.spec.Wait])
		case <-changed:
		}
		_ = sleepFor(ctx, p.deps, changePause)
	}
}

func (p *phase) createOne(ctx context.Context, sent measurement.SentRequest, namespace string) {
	o := p.Book.RegisterObject(p.template, namespace)
	content, err := p.renderObject(o)
	if err == nil {
		err = p.measureRequest(ctx, sent, "POST", func(ctx context.Context) error {
			return discardAnswer(ctx, p.load.Requests.Post().AbsPath(p.template.APIPath(namespace, "")...).SetHeader("Content-Type", "application/json").Body(content))
		})
	} else {
		p.endIfRefused(err)
		p.Recorder.RecordAnswer("POST", p.template.Resource.Resource, sent, measurement.TemplateError{Err: err}, p.deps.Clock.Now())
	}
	if err != nil {
		p.Book.RemoveObject(o)
		return
	}
	p.MarkCreated(o, p.deps.Clock.Now())
}

// renderObject is the object as it is sent.
func (p *phase) renderObject(o *measurement.Object) ([]byte, error) {
	rendered, err := p.template.Object(o.Namespace, o.Index, p.iteration)
	if err != nil {
		return nil, err
	}
	p.Book.NoteLack(o, rendered, p.deps.Clock.Now())
	return json.Marshal(rendered.Object)
}

func (p *phase) deleteOne(ctx context.Context, sent measurement.SentRequest, o *measurement.Object) {
	waited, was := p.Book.MarkDeleting(o, p.deps.Clock.Now())
	if !was {
		p.Recorder.Skipped.Add(1)
		return
	}
	err := p.measureRequest(ctx, sent, "DELETE", func(ctx context.Context) error {
		return discardAnswer(ctx, p.load.Requests.Delete().AbsPath(p.template.APIPath(o.Namespace, o.Name)...).SetHeader("Content-Type", "application/json").
			Body([]byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)))
	})
	p.MarkDeleted(o, waited, err, p.deps.Clock.Now())
}

func (p *phase) getOne(ctx context.Context, sent measurement.SentRequest, o *measurement.Object) {
	err := p.measureRequest(ctx, sent, "GET", func(ctx context.Context) error {
		return discardAnswer(ctx, p.load.Requests.Get().AbsPath(p.template.APIPath(o.Namespace, o.Name)...))
	})
	p.forgetGone(o, err)
}

// forgetGone forgets an object that the API server does not have any more: the next requests are for others. Where none is left, they
// are not made, and the run says so. The watch does that for some kinds only.
func (p *phase) forgetGone(o *measurement.Object, err error) {
	if apierrors.IsNotFound(err) {
		p.Book.RemoveObject(o)
	}
}

func (p *phase) listOne(ctx context.Context, sent measurement.SentRequest, namespace string) {
	_ = p.measureRequest(ctx, sent, "LIST", func(ctx context.Context) error {
		return discardAnswer(ctx, p.load.Requests.Get().AbsPath(p.template.APIPath(namespace, "")...).Param("labelSelector", p.template.LabelSelector()))
	})
}

func (p *phase) patchOne(ctx context.Context, sent measurement.SentRequest, o *measurement.Object, n int) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, patchAnnotation, n)
	err := p.measureRequest(ctx, sent, "PATCH", func(ctx context.Context) error {
		return discardAnswer(ctx, p.load.Requests.Patch(types.MergePatchType).AbsPath(p.template.APIPath(o.Namespace, o.Name)...).Body(patch))
	})
	p.forgetGone(o, err)
}

// measureRequest makes a request, and records how long after its time it was answered: with the times in between, if the API server asked to
// come again. One that the end of the run has broken off, or that a freeze has refused, was not made.
func (p *phase) measureRequest(ctx context.Context, sent measurement.SentRequest, verb string, request func(context.Context) error) error {
	err := request(ctx)
	end := p.deps.Clock.Now()
	var frozen *freeze.Error
	if errors.As(err, &frozen) || err != nil && ctx.Err() != nil {
		return err
	}
	counts := err
	if apierrors.IsNotFound(err) && verb != "POST" && verb != "LIST" {
		// Another phase, or a controller, has removed the object in the meantime. The API server has answered as it should.
		counts = nil
	}
	p.Recorder.RecordAnswer(verb, p.template.Resource.Resource, sent, counts, end)
	return err
}

// endIfRefused ends the run if an object of a template must not be sent. That one is not, and none after it.
func (p *phase) endIfRefused(err error) {
	var refused *confine.Error
	if errors.As(err, &refused) {
		p.end(fmt.Errorf("template %s: %w", p.template.Name, err))
	}
}

// discardAnswer makes a request, and reads its answer to the end without keeping it: a hundred answers at once, each of many megabytes,
// would be more than an agent has memory for.
func discardAnswer(ctx context.Context, request *rest.Request) error {
	answer, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}
