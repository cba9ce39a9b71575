package disrupt_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// entryOf is a fault from 10 to 20 seconds after start.
func entryOf(fault plan.Fault, change ...func(*plan.Entry)) plan.Entry {
	e := plan.Entry{Run: "outage", UID: "u-" + strings.ToLower(string(fault.Type)), Fault: fault}
	e.Start, e.End = metav1.NewTime(start.Add(10*time.Second)), metav1.NewTime(start.Add(20*time.Second))
	for _, apply := range change {
		apply(&e)
	}
	return e
}

// followed is a Follower on a file, with a clock of its own.
type followed struct {
	*disrupt.Follower
	t     *testing.T
	path  string
	clock *clocktesting.FakeClock

	mu     sync.Mutex
	states []disrupt.State
	died   []string
}

// follow starts a Follower so many seconds after start.
func follow(t *testing.T, path string, seconds int) *followed {
	t.Helper()
	f := &followed{t: t, path: path, clock: clocktesting.NewFakeClock(start.Add(time.Duration(seconds) * time.Second))}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	f.Follower = disrupt.New(ctx, disrupt.Options{
		Node: "n1", Path: path, Clock: f.clock,
		Apply: func(s disrupt.State) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.states = append(f.states, s)
		},
		Die: func(run string, fault plan.FaultType) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.died = append(f.died, run+" "+string(fault))
		},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

// state is the last one that was applied.
func (f *followed) state() disrupt.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states[len(f.states)-1]
}

func (f *followed) deaths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.died)
}

// goTo lets the time be so many seconds after start, by the Follower's own steps.
func (f *followed) goTo(seconds float64) {
	f.t.Helper()
	target := start.Add(time.Duration(seconds * float64(time.Second)))
	for {
		awaitWaiter(f.t, f.clock)
		left := target.Sub(f.clock.Now())
		if left <= 0 {
			return
		}
		f.clock.Step(min(left, 100*time.Millisecond))
	}
}

// awaitWaiter waits until something waits for the clock: it has done all there is to do at the time.
func awaitWaiter(t *testing.T, clock *clocktesting.FakeClock) {
	t.Helper()
	await(t, "something waits for the clock", clock.HasWaiters)
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Microsecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return is(), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func writePlan(t *testing.T, path string, entries ...plan.Entry) {
	t.Helper()
	text, err := plan.Encode(plan.Plan{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, path, text)
}

// writeText replaces the file, as a volume does it.
func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func planPath(t *testing.T) string { return filepath.Join(t.TempDir(), plan.FileName) }

func TestAFaultIsThereInItsWindowOnly(t *testing.T) {
	path := planPath(t)
	writePlan(t, path, entryOf(plan.Fault{Type: plan.NotReady}))
	f := follow(t, path, 0)
	for _, step := range []struct {
		at   float64
		want string
	}{{9.9, ""}, {10, "outage"}, {19.9, "outage"}, {20, ""}, {100, ""}} {
		f.goTo(step.at)
		if got := f.state().NotReady; got != step.want {
			t.Errorf("after %.1fs: not ready by %q, want %q", step.at, got, step.want)
		}
	}
	if len(f.states) != 3 {
		t.Errorf("%d states were applied, want: well, not ready, well", len(f.states))
	}
}

func TestAPlanIsFollowedWhenItChanges(t *testing.T) {
	path := planPath(t)
	f := follow(t, path, 0) // There is no file yet.
	f.goTo(12)
	writePlan(t, path, entryOf(plan.Fault{Type: plan.NotReady}))
	f.goTo(15)
	if f.state().NotReady == "" {
		t.Error("a plan that came in its window is not carried out")
	}
	writeText(t, path, "") // The annotation was removed.
	f.goTo(17.5)
	if got := f.state(); got.NotReady != "" {
		t.Errorf("an entry that is not there any more is carried out: %+v", got)
	}
	writePlan(t, path, entryOf(plan.Fault{Type: plan.PodStartFail}))
	f.goTo(19.9)
	if len(f.state().PodStarts) != 1 {
		t.Error("another plan is not carried out")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	writePlan(t, path, entryOf(plan.Fault{Type: plan.NotReady}, func(e *plan.Entry) { e.End.Time = start.Add(time.Hour) }))
	f.goTo(30)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.goTo(33)
	if f.state().NotReady != "" {
		t.Error("a plan whose file is gone is carried out")
	}
}

// Such a plan orders neither an end nor a beginning.
func TestAPlanThatCannotBeReadLetsWindowsEndAndNoneBegin(t *testing.T) {
	path := planPath(t)
	writePlan(t, path, entryOf(plan.Fault{Type: plan.NotReady}),
		entryOf(plan.Fault{Type: plan.PodStartFail}, func(e *plan.Entry) { e.Start.Time = start.Add(15 * time.Second) }))
	f := follow(t, path, 0)
	f.goTo(11)
	writeText(t, path, `{"version":"v1","entries":[{"run":"x"}]}`)
	f.goTo(19)
	if got := f.state(); got.NotReady == "" || len(got.PodStarts) != 0 {
		t.Errorf("got %+v, want what was active before", got)
	}
	if got := f.Status(); !strings.Contains(got.Error, "entries[0].uid: ") || len(got.Plan.Entries) != 2 || len(got.Active) != 1 {
		t.Errorf("the status is %+v", got)
	}
	f.goTo(21)
	if got := f.state(); got.NotReady != "" || len(got.PodStarts) != 0 {
		t.Errorf("after the end: %+v", got)
	}
	writePlan(t, path, entryOf(plan.Fault{Type: plan.NotReady}, func(e *plan.Entry) { e.End.Time = start.Add(time.Hour) }))
	f.goTo(24)
	if got := f.Status(); f.state().NotReady == "" || got.Error != "" {
		t.Errorf("a plan that can be read again: %+v, %+v", f.state(), got)
	}
}

func TestAFileThatIsTooLongIsNotRead(t *testing.T) {
	path := planPath(t)
	writeText(t, path, strings.Repeat(" ", plan.MaxBytes+1))
	if got := follow(t, path, 0).Status(); !strings.Contains(got.Error, "bytes are more than") {
		t.Errorf("the status is %+v", got)
	}
}

// What has to happen once in a window must not happen again in the process that comes after it.
func TestAProcessDiesOnceInAWindow(t *testing.T) {
	for _, kind := range []plan.FaultType{plan.Kill, plan.Reboot, plan.RestartKubelet} {
		t.Run(string(kind), func(t *testing.T) {
			path := planPath(t)
			writePlan(t, path, entryOf(plan.Fault{Type: kind}, func(e *plan.Entry) {
				e.HealthyFor, e.UnhealthyFor, e.Jitter = metav1.Duration{Duration: 2 * time.Second}, metav1.Duration{Duration: 3 * time.Second}, metav1.Duration{Duration: time.Second}
			})) // in 12 s and in 17 s, each up to 1 s later
			first := follow(t, path, 0)
			first.goTo(11.9)
			if died := first.deaths(); len(died) != 0 {
				t.Fatalf("died too soon: %v", died)
			}
			first.goTo(13.1)
			if died := first.deaths(); len(died) == 0 || died[0] != "outage "+string(kind) {
				t.Fatalf("died: %v", died)
			}
			second := follow(t, path, 14)
			second.goTo(14.1)
			if absent := second.state().Absent; (absent != "") != (kind == plan.Reboot) {
				t.Errorf("kept from joining by %q", absent)
			}
			second.goTo(16.9)
			if died := second.deaths(); len(died) != 0 || second.state().Absent != "" {
				t.Errorf("the next process: died %v, kept from joining by %q", died, second.state().Absent)
			}
			second.goTo(18.1)
			if died := second.deaths(); len(died) == 0 {
				t.Error("the second window has no effect")
			}
		})
	}
}

// A plan takes its time from the API server to the file.
func TestAKillThatIsReadLateIsCarriedOut(t *testing.T) {
	path := planPath(t)
	f := follow(t, path, 0)
	f.goTo(13)
	writePlan(t, path, entryOf(plan.Fault{Type: plan.Kill}))
	f.goTo(16)
	if len(f.deaths()) == 0 {
		t.Error("the process lives")
	}
	late := follow(t, path, 0)
	late.goTo(5)
	if len(late.deaths()) != 0 {
		t.Error("the process died before the window")
	}
}

func TestARestartedProcessGoesOnWithTheWindow(t *testing.T) {
	path := planPath(t)
	writePlan(t, path, entryOf(plan.Fault{Type: plan.NotReady}))
	f := follow(t, path, 15)
	if f.state().NotReady == "" {
		t.Error("the window is not there when New returns")
	}
	f.goTo(20)
	if f.state().NotReady != "" {
		t.Error("the window does not end")
	}
}

func TestTheNodesOwnEntryNeedsNoPlan(t *testing.T) {
	for name, path := range map[string]string{"without a file": "", "with one that is broken": planPath(t)} {
		t.Run(name, func(t *testing.T) {
			if path != "" {
				writeText(t, path, "broken")
			}
			f := follow(t, path, 0)
			f.goTo(1)
			f.SetOwn(plan.Own(start.Add(time.Second), 10*time.Second, 10*time.Second))
			for _, step := range []struct {
				at   float64
				want string
			}{{10.9, ""}, {11, plan.OwnRun}, {20.9, plan.OwnRun}, {21, ""}, {31, plan.OwnRun}} {
				f.settle(step.at)
				if got := f.state().NotReady; got != step.want {
					t.Errorf("after %.1fs: %q, want %q", step.at, got, step.want)
				}
			}
		})
	}
}

// settle is goTo, when there may be no timer that is due before.
func (f *followed) settle(seconds float64) {
	f.t.Helper()
	await(f.t, "the entry is followed", func() bool { return !f.Status().Next.IsZero() })
	f.goTo(seconds)
}

func TestAwaitPresence(t *testing.T) {
	path := planPath(t)
	writePlan(t, path, entryOf(plan.Fault{Type: plan.NeverJoin}))
	f := follow(t, path, 5)
	if !f.AwaitPresence(t.Context()) {
		t.Error("a node is kept from joining before the window")
	}
	f.goTo(10)
	joined := make(chan bool, 1)
	go func() { joined <- f.AwaitPresence(t.Context()) }()
	f.goTo(19.9)
	select {
	case <-joined:
		t.Fatal("the node joins within the window")
	default:
	}
	f.goTo(20)
	select {
	case ok := <-joined:
		if !ok {
			t.Error("the node does not join")
		}
	case <-time.After(10 * time.Second):
		t.Error("the node waits after the end of the window")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if f.AwaitPresence(ended) {
		t.Error("a node joins that is ended")
	}
}

// A process that was there before shuts down, and the next one waits for the end of the window.
func TestAProcessShutsDownOnce(t *testing.T) {
	path := planPath(t)
	writePlan(t, path, entryOf(plan.Fault{Type: plan.Shutdown}, func(e *plan.Entry) { e.UnhealthyFor, e.Repeat = metav1.Duration{Duration: 3 * time.Second}, 1 }))
	first := follow(t, path, 0)
	first.goTo(9.9)
	if got := first.state(); got.ShuttingDown != "" || got.Absent != "" {
		t.Fatalf("before the window: %+v", got)
	}
	first.goTo(10.1)
	if got := first.state(); got.ShuttingDown != "outage" || got.Absent != "" || len(first.deaths()) != 0 {
		t.Errorf("in the window: %+v, died %v", got, first.deaths())
	}
	second := follow(t, path, 11)
	second.goTo(11.1)
	if got := second.state(); got.ShuttingDown != "" || got.Absent != "outage" {
		t.Errorf("the next process: %+v", got)
	}
	for _, process := range []*followed{first, second} {
		process.goTo(13.1)
		if got := process.state(); got.ShuttingDown != "" || got.Absent != "" {
			t.Errorf("after the window: %+v", got)
		}
	}
}
