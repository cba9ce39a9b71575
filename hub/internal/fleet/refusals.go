package fleet

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The time until a write is tried again that the API server refused. Meanwhile nothing is begun in that cluster, and the
// others go on.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// place is a cluster of a fleet.
type place struct {
	fleet   types.UID
	cluster string
}

// refusals remembers the writes that were refused. The zero value is ready for use.
type refusals struct {
	mu  sync.Mutex
	all map[place]refusal
}

type refusal struct {
	err   error
	until time.Time
	delay time.Duration
}

// add notes how a write ended; nil is a success.
func (r *refusals) add(fleet types.UID, cluster string, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.all, func(_ place, old refusal) bool { return now.Sub(old.until) > lastRetry })
	at := place{fleet, cluster}
	if err == nil {
		delete(r.all, at)
		return
	}
	if r.all == nil {
		r.all = map[place]refusal{}
	}
	delay := min(max(2*r.all[at].delay, firstRetry), lastRetry)
	r.all[at] = refusal{err: err, until: now.Add(delay), delay: delay}
}

// wait returns the error of the last write, and how long the next one has to wait for it; nil if it need not wait.
func (r *refusals) wait(fleet types.UID, cluster string, now time.Time) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.all[place{fleet, cluster}]
	if !found || !now.Before(last.until) {
		return 0, nil
	}
	return last.until.Sub(now), last.err
}
