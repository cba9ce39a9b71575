package machineset

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlowStart(t *testing.T) {
	tests := map[string]struct {
		count, first, failAt int
		succeeded, calls     int
	}{
		"all succeed":                   {count: 10, first: 1, failAt: -1, succeeded: 10, calls: 10},
		"the first fails":               {count: 10, first: 1, failAt: 1, succeeded: 0, calls: 1},
		"one of the second batch":       {count: 10, first: 1, failAt: 2, succeeded: 2, calls: 3},
		"one of the last, short batch":  {count: 10, first: 1, failAt: 9, succeeded: 9, calls: 10},
		"one of a large first batch":    {count: 10, first: 4, failAt: 2, succeeded: 3, calls: 4},
		"a first batch larger than all": {count: 2, first: 16, failAt: -1, succeeded: 2, calls: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			succeeded, err := slowStart(test.count, test.first, func(int) error {
				if int(calls.Add(1)) == test.failAt {
					return errors.New("refused")
				}
				return nil
			})
			if succeeded != test.succeeded || int(calls.Load()) != test.calls || (err != nil) != (test.failAt > 0) {
				t.Errorf("%d succeeded of %d calls, error %v", succeeded, calls.Load(), err)
			}
		})
	}
}

func TestParallelCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		_, err := inParallel(100, func(int) error {
			if running := now.Add(1); running > most.Load() {
				most.Store(running)
			}
			<-time.After(time.Second) // Of the bubble's clock.
			now.Add(-1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if most.Load() != parallelCalls {
			t.Errorf("%d calls at once, want %d", most.Load(), parallelCalls)
		}
	})
}

func TestAllAreCalledAlthoughOneFails(t *testing.T) {
	refused := errors.New("refused")
	succeeded, err := inParallel(50, func(i int) error {
		if i == 3 {
			return refused
		}
		return nil
	})
	if succeeded != 49 || !errors.Is(err, refused) {
		t.Errorf("%d succeeded, error %v", succeeded, err)
	}
}
