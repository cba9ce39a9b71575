// Package reconciler runs the controllers that own the status of an object: it has what each of them would copy, so that
// such a controller is only its own observe, decide, act and report. Controllers that write no status do without it.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// Object is an API object of a pointer type with a DeepCopy of its own type.
type Object[T any] interface {
	*T
	client.Object
}

// Logic is what one controller does with one object.
type Logic[T any, P Object[T]] interface {
	// Reconcile works on object, a private copy, and leaves the status that it wants in it. It reports even
	// when it returns an error. The result is when to look again without any event: zero means not at all.
	Reconcile(ctx context.Context, object P) (Next, error)
	// Status returns a pointer to the object's status, to report whether it changed.
	Status(object P) any
}

// Next says when an object wants to be looked at again. The zero value means at the next event only.
type Next struct {
	// After is the time until then; 0 means never.
	After time.Duration
	// DeferStatus holds a status that changed back until After is over: for counts that change many times in
	// quick succession. Without After it means nothing.
	DeferStatus bool
}

// NoLaterThan returns the earlier of two.
func (n Next) NoLaterThan(after time.Duration) Next {
	if after > 0 && (n.After == 0 || after < n.After) {
		n.After = after
	}
	return n
}

// Runner turns a Logic into a reconcile.Reconciler.
type Runner[T any, P Object[T]] struct {
	reader client.Reader
	status client.SubResourceWriter
	logic  Logic[T, P]
	// Wrote, if not nil, is told of an object after its status was written.
	Wrote func(client.Object)
	// Writing, if not nil, is called before a status is written, and what it returns is called with the outcome.
	Writing func(ctx context.Context, before, after P) (context.Context, func(error))
}

// New returns a Runner that reads with reader and writes status with writer.
func New[T any, P Object[T]](reader client.Reader, writer client.StatusClient, logic Logic[T, P]) *Runner[T, P] {
	return &Runner[T, P]{reader: reader, status: writer.Status(), logic: logic}
}

// Reconcile implements reconcile.Reconciler. An object that is gone is no error. Status is patched at most
// once, only if it differs, also after an error of the logic, and with an optimistic lock: a status that was
// computed from a stale object is never written. What only waits or is terminal (see package outcome) is no error: the next
// attempt is at the time that it names, and the log of operators does not have it.
func (r *Runner[T, P]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	current := P(new(T))
	err := r.reader.Get(ctx, request.NamespacedName, current)
	if err == nil {
		// An object that cannot be decoded is left alone until it changes. Package undecodable tells of it.
		err = undecodable.Check(current)
	}
	if err != nil {
		if apierrors.IsNotFound(err) || undecodable.Is(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("getting %s: %w", request, err)
	}
	object := current.DeepCopyObject().(P)
	next, err := r.logic.Reconcile(ctx, object)
	if _, settled := outcome.Retry(err); !next.DeferStatus || next.After == 0 || err != nil && !settled {
		if patchErr := r.patchStatus(ctx, current, object); patchErr != nil {
			next, err = Next{}, errors.Join(err, patchErr)
		}
	}
	after, settled := outcome.Retry(err)
	switch {
	case settled, err != nil && errors.Is(ctx.Err(), context.Canceled): // The process is being stopped.
		klog.FromContext(ctx).V(1).Info("Ending without success", "why", err.Error(), "retryAfter", after)
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next.NoLaterThan(after).After}, nil
}

func (r *Runner[T, P]) patchStatus(ctx context.Context, before, after P) error {
	if equality.Semantic.DeepEqual(r.logic.Status(before), r.logic.Status(after)) {
		return nil
	}
	// What the logic wrote meanwhile (a finalizer, an annotation) has moved the resource version on.
	before.SetResourceVersion(after.GetResourceVersion())
	done := func(error) {}
	if r.Writing != nil {
		ctx, done = r.Writing(ctx, before, after)
	}
	err := r.status.Patch(ctx, after, MergeFromWithLock(before))
	done(err)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	if err == nil && r.Wrote != nil {
		r.Wrote(after)
	}
	return nil
}

// MergeFromWithLock is a merge patch that the API server refuses with a conflict if the object has changed since before
// was read. A merge patch replaces a list as a whole, and a decision made on an older object may be wrong by now.
func MergeFromWithLock(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// An object that fails is tried again after FirstRetry, then twice as long each time, up to LastRetry: an API server
// that refuses every write for an hour is not hammered, and what it missed reaches it soon after.
const (
	FirstRetry = 200 * time.Millisecond
	LastRetry  = time.Minute
)

// Retries returns the rate limiter of one controller.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, LastRetry)
}

// Request asks for one object.
func Request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// Changed lets objects pass that are created, that are deleted, or of which facts differ.
func Changed[T client.Object](facts func(T) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		if !ok {
			return true
		}
		after, ok := e.ObjectNew.(T)
		return !ok || !reflect.DeepEqual(facts(before), facts(after))
	}}
}

// newsBuffer takes as many events before sending one costs a goroutine.
const newsBuffer = 256

// News is a channel on which one controller wakes another.
type News chan event.GenericEvent

// NewNews returns News that nothing has been sent on.
func NewNews() News { return make(News, newsBuffer) }

// Send sends e, and does not wait for the reader.
func (n News) Send(e event.GenericEvent) {
	select {
	case n <- e:
	default:
		go func() { n <- e }()
	}
}
