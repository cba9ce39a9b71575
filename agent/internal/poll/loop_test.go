package poll

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// runLoop runs a loop on a fake clock until the test ends. Do of the loop receives its errors from results, one for each call, and waits for them.
func runLoop(t *testing.T, loop Loop) (by *clocktesting.FakeClock, results chan<- error, lines <-chan string, ended <-chan error) {
	t.Helper()
	given, logged, over := make(chan error), make(chan string, 100), make(chan error, 1)
	fake := clocktesting.NewFakeClock(time.Now())
	loop.Clock, loop.Log = fake, funcr.New(func(_, line string) { logged <- line }, funcr.Options{})
	loop.Do = func(ctx context.Context) error {
		select {
		case err := <-given:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { over <- loop.Run(ctx) }()
	return fake, given, logged, over
}

// sendResult ends one call of Do.
func sendResult(t *testing.T, results chan<- error, err error) {
	t.Helper()
	select {
	case results <- err:
	case <-time.After(time.Minute):
		t.Fatal("the loop does not work")
	}
}

func TestALoopDoesItsWorkAtOnceAndAfterEachWait(t *testing.T) {
	g := NewWithT(t)
	by, results, _, _ := runLoop(t, Loop{Every: time.Minute})
	for range 3 {
		sendResult(t, results, nil)
		g.Eventually(by.HasWaiters).Should(BeTrue(), "it waits")
		by.Step(time.Minute - time.Second)
		g.Consistently(by.HasWaiters).WithTimeout(20 * time.Millisecond).Should(BeTrue())
		by.Step(time.Second)
	}
}

func TestALoopIsWokenEarly(t *testing.T) {
	g := NewWithT(t)
	wake := make(chan struct{}, 1)
	by, results, _, _ := runLoop(t, Loop{Every: time.Hour, Wake: wake})
	sendResult(t, results, nil)
	g.Eventually(by.HasWaiters).Should(BeTrue())
	wake <- struct{}{}
	sendResult(t, results, nil)
	g.Eventually(by.Waiters).Should(Equal(1), "the timer of the wait before is stopped")
}

func TestALoopAsksWhenToWorkNext(t *testing.T) {
	g := NewWithT(t)
	waits := make(chan time.Duration)
	by, results, _, _ := runLoop(t, Loop{Every: time.Hour, Next: func(context.Context) time.Duration { return <-waits }})
	for _, wait := range []time.Duration{0, -1, time.Second} {
		sendResult(t, results, nil)
		waits <- wait
	}
	g.Eventually(by.HasWaiters).Should(BeTrue())
	by.Step(time.Second)
	sendResult(t, results, nil)
	close(waits)
}

// Claim: Pollers log an error once, and its end. Broken: each error is logged; an error after the end is logged. Also: TestALoopEndsWithItsContextAndSaysNothingOfThat.
func TestALoopLogsAnErrorWhenItChangesAndWhenItIsOver(t *testing.T) {
	g := NewWithT(t)
	_, results, lines, _ := runLoop(t, Loop{Doing: "Reading", Next: func(context.Context) time.Duration { return 0 }})
	for _, err := range []error{nil, errors.New("one"), errors.New("one"), errors.New("two: port 4711"), errors.New("two: port 815"), errors.New("one"), nil, nil, errors.New("one"), nil} {
		sendResult(t, results, err)
	}
	var logged []string
	g.Eventually(func() []string {
		select {
		case line := <-lines:
			logged = append(logged, line)
		default:
		}
		return logged
	}).Should(HaveLen(6))
	for i, want := range []string{`"error"="one"`, `"error"="two: port 4711"`, `"error"="one"`, "Reading works again", `"error"="one"`, "Reading works again"} {
		g.Expect(logged[i]).To(ContainSubstring(want), "line %d of %q", i, logged)
	}
	g.Consistently(lines).WithTimeout(20 * time.Millisecond).ShouldNot(Receive())
}

func TestALoopEndsWithItsContextAndSaysNothingOfThat(t *testing.T) {
	g := NewWithT(t)
	for name, during := range map[string]func(context.CancelFunc) Loop{
		"work": func(end context.CancelFunc) Loop {
			return Loop{Every: time.Hour, Do: func(ctx context.Context) error { end(); return ctx.Err() }}
		},
		"the wait": func(end context.CancelFunc) Loop {
			return Loop{Next: func(context.Context) time.Duration { end(); return time.Hour }, Do: func(context.Context) error { return nil }}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var logged []string
		loop := during(cancel)
		loop.Doing, loop.Clock, loop.Log = "Reading", clocktesting.NewFakeClock(time.Now()), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
		g.Expect(loop.Run(ctx)).To(Succeed(), name)
		g.Expect(logged).To(BeEmpty(), name)
		loop.Do = func(context.Context) error { t.Errorf("%s: work after the end", name); return nil }
		g.Expect(loop.Run(ctx)).To(Succeed(), name)
	}
}

func TestALoopBoundsEachRound(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	loop := Loop{
		Timeout: time.Millisecond, Next: func(context.Context) time.Duration { return 0 }, Runtime: Runtime{Clock: clocktesting.NewFakeClock(time.Now()), Log: logr.Discard()},
		Do: func(ctx context.Context) error {
			if rounds++; rounds == 3 {
				cancel()
			}
			<-ctx.Done()
			return ctx.Err()
		},
	}
	g.Expect(loop.Run(ctx)).To(Succeed())
	g.Expect(rounds).To(Equal(3))
}

func TestALoopWithoutAPeriodIsRefused(t *testing.T) {
	g := NewWithT(t)
	work, by := func(context.Context) error { return nil }, clocktesting.NewFakeClock(time.Now())
	for _, loop := range []Loop{{}, {Do: work, Runtime: Runtime{Clock: by}}, {Do: work, Every: 1}, {Runtime: Runtime{Clock: by}, Every: 1}} {
		g.Expect(loop.Run(t.Context())).To(MatchError(ContainSubstring("are required")))
	}
}

func TestUntil(t *testing.T) {
	g := NewWithT(t)
	by := clocktesting.NewFakeClock(time.Now())
	failed := errors.New("failed")
	for _, c := range []struct {
		calls int
		err   error
	}{{1, nil}, {3, nil}, {2, failed}} {
		calls, result := 0, make(chan error, 1)
		go func() {
			result <- Until(t.Context(), by, time.Second, func(context.Context) (bool, error) {
				calls++
				return calls == c.calls && c.err == nil, map[bool]error{true: c.err}[calls == c.calls]
			})
		}()
		for range c.calls - 1 {
			g.Eventually(by.HasWaiters).Should(BeTrue())
			by.Step(time.Second)
		}
		var err error
		g.Eventually(result).Should(Receive(&err))
		g.Expect(errors.Is(err, c.err)).To(BeTrue())
		g.Expect(calls).To(Equal(c.calls))
	}
	ctx, cancel := context.WithCancel(t.Context())
	g.Expect(Until(ctx, by, time.Hour, func(context.Context) (bool, error) { cancel(); return false, nil })).To(MatchError(context.Canceled))
}
