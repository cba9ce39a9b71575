package machineset

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// parallelCalls bounds the API calls of one reconciliation that are under way at once.
const parallelCalls = 16

// slowStart calls do count times in batches of first, twice as many, and so on, and stops after the batch in which one
// fails: an API server that refuses them all is asked first times, not count times. Each call gets its number, from 0
// on. It returns how many calls succeeded.
func slowStart(count, first int, do func(int) error) (succeeded int, err error) {
	for done, batch := 0, first; done < count; batch *= 2 {
		batch = min(batch, count-done)
		ok, err := inParallel(batch, func(i int) error { return do(done + i) })
		succeeded += ok
		if err != nil {
			return succeeded, err
		}
		done += batch
	}
	return succeeded, nil
}

// inParallel calls do for 0 to count-1, some at a time, and returns how many calls succeeded and the first error: a
// refused batch has one cause.
func inParallel(count int, do func(int) error) (int, error) {
	var succeeded atomic.Int64
	var calls errgroup.Group
	calls.SetLimit(parallelCalls)
	for i := range count {
		calls.Go(func() error {
			err := do(i)
			if err == nil {
				succeeded.Add(1)
			}
			return err
		})
	}
	err := calls.Wait()
	return int(succeeded.Load()), err
}
