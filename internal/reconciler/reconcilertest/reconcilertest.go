// Package reconcilertest runs reconcilers as a controller's queue does, by a test's clock.
package reconcilertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Failures are the ways in which an API server fails a write. Each is repeated Times times. With -short the timeout is left out,
// which a Runner treats like the 500.
func Failures() map[string]error {
	failures := map[string]error{
		"500":      apierrors.NewInternalError(errors.New("the disk is full")),
		"conflict": apierrors.NewConflict(schema.GroupResource{Group: "hollowfleet.io", Resource: "things"}, "thing", errors.New("changed meanwhile")),
	}
	if !testing.Short() {
		failures["timeout"] = fmt.Errorf("writing: %w", context.DeadlineExceeded)
	}
	return failures
}

// Times is how often a write fails in a row.
const Times = 50

// History is what a queue has done with one object.
type History struct {
	// At are the times of the attempts, from the first one on.
	At []time.Duration
}

// Busiest is how many attempts were made within any minute.
func (h History) Busiest() int {
	most := 0
	for i := range h.At {
		count := 0
		for _, at := range h.At[i:] {
			if at < h.At[i]+time.Minute {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// Drive has object reconciled as a queue would, until done: after an error when its rate limiter says, else when the
// reconciler wants it, else after idle with the next event; 0 means that none comes. pass lets time pass. It fails the
// test if the object is left forever, or is not done after many attempts.
func Drive(t *testing.T, runner reconcile.Reconciler, object client.Object, idle time.Duration, pass func(time.Duration), done func() bool) History {
	t.Helper()
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	retries, now, history := reconciler.Retries(), time.Duration(0), History{}
	for len(history.At) < 4*Times {
		history.At = append(history.At, now)
		result, err := runner.Reconcile(t.Context(), request)
		if done() {
			return history
		}
		wait := result.RequeueAfter
		switch {
		case err != nil:
			wait = retries.When(request)
		case wait == 0 && idle > 0:
			retries.Forget(request)
			wait = idle
		case wait == 0:
			t.Fatalf("no reconciliation of %s follows after attempt %d, and it is not done", request, len(history.At))
		default:
			retries.Forget(request)
		}
		now += wait
		pass(wait)
	}
	t.Fatalf("%s is not done after %d attempts", request, len(history.At))
	return history
}

// Failing makes the status writes of one kind fail Times times with failure, and then go through.
func Failing(kind client.Object, failure error) interceptor.Funcs {
	left := Times
	return interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		if sub == "status" && reflect.TypeOf(object) == reflect.TypeOf(kind) && left > 0 {
			left--
			return failure
		}
		return c.SubResource(sub).Patch(ctx, object, patch, options...)
	}}
}

// CheckPredicate checks that a predicate lets those changes of object pass and no others, and that it lets an object pass
// that is created or deleted.
func CheckPredicate[T client.Object](t *testing.T, p predicate.Predicate, object T, passing, others map[string]func(T)) {
	t.Helper()
	check := func(changes map[string]func(T), want bool) {
		for what, change := range changes {
			after, ok := object.DeepCopyObject().(T)
			if !ok {
				t.Fatal("a copy is of another type")
			}
			change(after)
			if got := p.Update(event.UpdateEvent{ObjectOld: object, ObjectNew: after}); got != want {
				t.Errorf("%s: passes is %t", what, got)
			}
		}
	}
	check(passing, true)
	check(others, false)
	if !p.Create(event.CreateEvent{Object: object}) || !p.Delete(event.DeleteEvent{Object: object}) {
		t.Error("an object that is created or deleted does not pass")
	}
}
