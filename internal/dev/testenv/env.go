package testenv

import (
	"reflect"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Env is what a test of a controller works with: a client of the package's control plane, which it shares with other tests, and a clock, a
// recorder and a controller of its own. A package embeds it in its own env, with the objects that its tests have in common.
type Env struct {
	*gomega.WithT
	T *testing.T
	// Server is the control plane.
	Server *Environment
	// Client is an administrator's, and plays everything that the test does not run.
	Client client.WithWatch
	Clock  *testclock.FakeClock
	// Recorder has the controller's events.
	Recorder *events.FakeRecorder
	// Writes are the controller's, if it writes by Writes.Count(Client).
	Writes Writes
	// Runner is the controller, which the package's newEnv makes.
	Runner reconcile.Reconciler
}

// NewEnv returns an Env whose clock shows the present.
func NewEnv(t *testing.T) *Env {
	t.Helper()
	return newEnv(t, Client(t, Server()))
}

// NewCachedEnv is NewEnv with a CachedClient.
func NewCachedEnv(t *testing.T) *Env {
	t.Helper()
	return newEnv(t, CachedClient(t, Server()))
}

func newEnv(t *testing.T, c client.WithWatch) *Env {
	t.Helper()
	return &Env{
		WithT: gomega.NewWithT(t), T: t, Server: Server(), Client: c,
		Clock: testclock.NewFakeClock(time.Now()), Recorder: events.NewFakeRecorder(1000),
	}
}

// ExpectApplied creates objects, or updates those that were read before.
func (e *Env) ExpectApplied(objects ...client.Object) {
	e.T.Helper()
	for _, object := range objects {
		if object.GetResourceVersion() == "" {
			e.Expect(e.Client.Create(e.T.Context(), object)).To(gomega.Succeed())
		} else {
			e.Expect(e.Client.Update(e.T.Context(), object)).To(gomega.Succeed())
		}
	}
}

// ExpectStatusApplied updates the status of objects.
func (e *Env) ExpectStatusApplied(objects ...client.Object) {
	e.T.Helper()
	for _, object := range objects {
		e.Expect(e.Client.Status().Update(e.T.Context(), object)).To(gomega.Succeed())
	}
}

// ExpectConditionApplied sets a condition of object and updates its status.
func (e *Env) ExpectConditionApplied(object client.Object, kind string, status metav1.ConditionStatus, reason string) {
	e.T.Helper()
	meta.SetStatusCondition(conditionsOf(object), metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "said by the test"})
	e.ExpectStatusApplied(object)
}

// ExpectDeleted deletes objects.
func (e *Env) ExpectDeleted(objects ...client.Object) {
	e.T.Helper()
	for _, object := range objects {
		e.Expect(e.Client.Delete(e.T.Context(), object)).To(gomega.Succeed())
	}
}

// ExpectExists reads objects by their names.
func (e *Env) ExpectExists(objects ...client.Object) {
	e.T.Helper()
	for _, object := range objects {
		e.Expect(e.Client.Get(e.T.Context(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
	}
}

// ReadCondition reads object and returns its condition of a kind; nil if it has none.
func (e *Env) ReadCondition(object client.Object, kind string) *metav1.Condition {
	e.T.Helper()
	e.ExpectExists(object)
	return meta.FindStatusCondition(*conditionsOf(object), kind)
}

// conditionsOf are those of any of our kinds.
func conditionsOf(object client.Object) *[]metav1.Condition {
	return reflect.ValueOf(object).Elem().FieldByName("Status").FieldByName("Conditions").Addr().Interface().(*[]metav1.Condition)
}

// ExpectReconciled has the controller reconcile object.
func (e *Env) ExpectReconciled(object client.Object) reconcile.Result {
	e.T.Helper()
	result, err := e.Reconcile(object)
	e.Expect(err).NotTo(gomega.HaveOccurred())
	return result
}

// Reconcile is ExpectReconciled for a test that expects an error.
func (e *Env) Reconcile(object client.Object) (reconcile.Result, error) {
	return e.Runner.Reconcile(e.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
}

// Events returns the controller's events since it was called last, as "Normal Reason note".
func (e *Env) Events() (told []string) {
	for {
		select {
		case event := <-e.Recorder.Events:
			told = append(told, event)
		default:
			return told
		}
	}
}

// parallel are the tests that run beside others.
var parallel sync.Map

// RunInParallel lets a test run beside others, however often it is called. What such tests share is the API server, for which they mostly
// wait: each has a namespace and a clock of its own.
func RunInParallel(t *testing.T) {
	if _, does := parallel.LoadOrStore(t, true); !does {
		t.Parallel()
	}
}

// Name is a name that no other test has.
func Name() string { return "c-" + rand.String(8) }

// CPUTime is the least CPU time that work took of some runs, on a thread of its own.
func CPUTime(t testing.TB, runs int, work func() error) time.Duration {
	t.Helper()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	used := func() time.Duration {
		var spent unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &spent); err != nil {
			t.Fatal(err)
		}
		return time.Duration(spent.Nano())
	}
	var took []time.Duration
	for range runs {
		before := used()
		if err := work(); err != nil {
			t.Fatal(err)
		}
		took = append(took, used()-before)
	}
	return slices.Min(took)
}
