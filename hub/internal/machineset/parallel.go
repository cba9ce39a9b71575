package machineset

import (
	"errors"
	"sync"
)

// parallelCalls bounds the API calls of one reconciliation that are under way at once.
const parallelCalls = 16

// maxErrors bounds the errors that are passed on: a refused batch has one cause, not a hundred.
const maxErrors = 3

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

// inParallel calls do for 0 to count-1, some at a time, and returns how many calls succeeded and the first
// few errors.
func inParallel(count int, do func(int) error) (succeeded int, err error) {
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		errs  []error
		slots = make(chan struct{}, parallelCalls)
	)
	for i := range count {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			err := do(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				succeeded++
			} else if len(errs) < maxErrors {
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return succeeded, errors.Join(errs...)
}
