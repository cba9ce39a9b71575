package backoff

import (
	"errors"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestDelay(t *testing.T) {
	g := NewWithT(t)
	for failures, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 7: time.Minute, 63: time.Minute, math.MaxInt: time.Minute,
	} {
		g.Expect(Delay(failures, time.Second, time.Minute)).To(Equal(want), "%d failures", failures)
	}
	g.Expect(Delay(1, time.Hour, time.Minute)).To(Equal(time.Minute))
	g.Expect(Delay(math.MaxInt, 1, math.MaxInt64/2)).To(BeNumerically(">", 0), "it does not overflow")
}

func TestFailures(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all Failures[string]
	wait := func(after time.Duration) time.Duration {
		left, err := all.Wait("a", now.Add(after))
		g.Expect(err != nil).To(Equal(left > 0))
		return left
	}
	g.Expect(wait(0)).To(BeZero())
	all.Record("a", errors.New("no"), now)
	g.Expect(wait(time.Second)).To(Equal(4 * time.Second))
	g.Expect(wait(5 * time.Second)).To(BeZero())
	all.Record("a", errors.New("no"), now.Add(5*time.Second))
	g.Expect(wait(5 * time.Second)).To(Equal(10 * time.Second))
	for range 10 {
		all.Record("a", errors.New("no"), now)
	}
	g.Expect(wait(0)).To(Equal(5 * time.Minute))
	all.Record("a", nil, now)
	g.Expect(wait(0)).To(BeZero())
	all.Record("a", errors.New("no"), now)
	g.Expect(wait(0)).To(Equal(5*time.Second), "a success ends the row")

	all.Record("b", errors.New("no"), now)
	wait(5*time.Second + 5*time.Minute)
	g.Expect(all.all).To(HaveLen(2), "another failure now would not be the first")
	wait(5*time.Second + 5*time.Minute + 1)
	g.Expect(all.all).To(BeEmpty(), "what is long over is forgotten, also of objects that are gone")
}
