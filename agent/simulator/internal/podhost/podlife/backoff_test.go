package podlife

import (
	"slices"
	"testing"
	"time"
)

func TestKubeletsDelays(t *testing.T) {
	b := backoff{policy: Backoff{}.WithDefaults()}
	var got []time.Duration
	for range 9 {
		got = append(got, b.next(time.Second))
	}
	s := time.Second
	if want := []time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s, 300 * s}; !slices.Equal(got, want) {
		t.Errorf("the delays are %v, want %v", got, want)
	}
}

func TestLongRunBeginsAnew(t *testing.T) {
	b := backoff{policy: Backoff{Initial: time.Second, Max: 4 * time.Second}}
	for range 5 {
		b.next(0)
	}
	if got := b.next(8 * time.Second); got != 4*time.Second {
		t.Errorf("after a run of just twice the maximum the delay is %s", got)
	}
	if got := []time.Duration{b.next(9 * time.Second), b.next(0), b.next(0)}; !slices.Equal(got, []time.Duration{0, time.Second, 2 * time.Second}) {
		t.Errorf("after a long run the delays are %v", got)
	}
}
