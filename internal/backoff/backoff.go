// Package backoff puts off what has failed. It is pure: the time is given.
package backoff

import (
	"maps"
	"sync"
	"time"
)

// Delay is how long to wait after a number of failures in a row: first after one, twice as long after each further one, at most
// longest.
func Delay(failures int, first, longest time.Duration) time.Duration {
	delay := first
	for ; failures > 1 && delay < longest; failures-- {
		delay *= 2
	}
	return min(delay, longest)
}

// First and Longest bound how long Failures put off the next attempt. At the bound, an API server that refuses for an hour is asked
// twelve times.
const (
	First   = 5 * time.Second
	Longest = 5 * time.Minute
)

// Failures remembers the last failure of each key, until Longest after the time at which it may be tried again. The zero value is
// ready for use.
type Failures[K comparable] struct {
	mu  sync.Mutex
	all map[K]failure
}

type failure struct {
	err   error
	count int
	until time.Time
}

// Record notes how an attempt ended; nil is a success.
func (f *Failures[K]) Record(key K, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetExpired(now)
	if err == nil {
		delete(f.all, key)
		return
	}
	if f.all == nil {
		f.all = map[K]failure{}
	}
	count := f.all[key].count + 1
	f.all[key] = failure{err: err, count: count, until: now.Add(Delay(count, First, Longest))}
}

// Wait returns how long the next attempt has to wait, and the error that it waits for; nil if it need not wait.
func (f *Failures[K]) Wait(key K, now time.Time) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetExpired(now)
	last, found := f.all[key]
	if !found || !now.Before(last.until) {
		return 0, nil
	}
	return last.until.Sub(now), last.err
}

func (f *Failures[K]) forgetExpired(now time.Time) {
	maps.DeleteFunc(f.all, func(_ K, old failure) bool { return now.Sub(old.until) > Longest })
}
