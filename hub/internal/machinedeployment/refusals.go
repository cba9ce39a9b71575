package machinedeployment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The time until a transfer is tried again that the API server refused. Each try locks and unlocks sets, whose
// events would start the next one at once.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// refusals remembers the transfers that were refused. The zero value is ready for use.
type refusals struct {
	mu  sync.Mutex
	all map[types.UID]refusal
}

type refusal struct {
	err   error
	until time.Time
	delay time.Duration
}

// add notes that a transfer of deployment was refused; nil that it was not.
func (r *refusals) add(deployment types.UID, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.all, deployment)
		return
	}
	if r.all == nil {
		r.all = map[types.UID]refusal{}
	}
	delay := min(max(2*r.all[deployment].delay, firstRetry), lastRetry)
	r.all[deployment] = refusal{err: err, until: now.Add(delay), delay: delay}
}

// wait returns how long the next transfer of deployment has to wait, and the error that it waits for.
func (r *refusals) wait(deployment types.UID, now time.Time) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, old := range r.all {
		if now.Sub(old.until) > lastRetry {
			delete(r.all, uid)
		}
	}
	last, found := r.all[deployment]
	if !found || !now.Before(last.until) {
		return 0, nil
	}
	return last.until.Sub(now), last.err
}
