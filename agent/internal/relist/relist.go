// Package relist keeps the agent from acting on caches that are behind: it lists the agent's world after every freeze, before
// the first act, and its Tracker notices an object in a cache that is older than what the API server has told of it.
//
// What the agent decides on comes from caches, and those may be behind: watches break in a freeze, and come back one
// after the other. So between the last cause of a freeze and the thaw stands a list of everything that the caches
// hold, read from the API servers and not from their caches. The agent stays frozen until each listed object is in
// its cache, as listed or newer, and nothing else is.
//
// Only the first list makes demands. Later ones can only take some of them back, so that a world that changes all the
// time is caught up with too. Lists come in pages, and of each only names and versions are kept, until the thaw. At
// rest nothing is listed.
//
// Then the hub is told how every Machine is by those caches. Only after that does it hear that the agent acts again, so
// that it decides nothing on what was known before the freeze.
package relist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// pollInterval is how often the caches are looked at while they are behind.
	pollInterval = 200 * time.Millisecond
	// againStart and againMax bound how soon a kind is listed again.
	againStart, againMax = 2 * time.Second, 30 * time.Second
)

// ErrWentBack says that an API server has gone back to an older state, such as one that was restored from a backup.
// The watches of the caches wait for what comes after what they have seen, so that the caches have to be recreated.
var ErrWentBack = errors.New("an API server has gone back to an older state")

// Freeze is what a Relister has to know of the freeze monitor, and tells it.
type Freeze interface {
	// RelistDue reports whether it is time to list, and the number of the freeze for which that is.
	RelistDue() (freeze uint64, due bool)
	// ReportRelistProgress says how far that is; CompleteRelist that it is through.
	ReportRelistProgress(freeze uint64, message string)
	CompleteRelist(freeze uint64)
}

// Deps are what a Relister works with. All are required but Log.
type Deps struct {
	Caches *Caches
	// Prepare makes those informers that have to be there before the first act.
	Prepare func(context.Context) error
	// Tell makes the agent write the state of every Machine to the hub, once the caches are right. It returns how many
	// Machines are left, and is called again for the same freeze until none is.
	Tell   func(ctx context.Context, freeze uint64) (left int, err error)
	Freeze Freeze
	// Changes receives after the freeze state has changed.
	Changes <-chan struct{}
	Metrics *Metrics
	poll.Runtime
}

// Relister lists the world after every freeze.
type Relister struct{ Deps }

// New returns a Relister.
func New(deps Deps) (*Relister, error) {
	if deps.Caches == nil || deps.Prepare == nil || deps.Tell == nil || deps.Freeze == nil || deps.Changes == nil || deps.Clock == nil || deps.Metrics == nil {
		return nil, errors.New("relist.Deps: Caches, Prepare, Tell, Freeze, Changes, Clock and Metrics are required")
	}
	return &Relister{Deps: deps}, nil
}

// Start lists whenever it is due, until ctx ends. It implements manager.Runnable. The error is ErrWentBack when the
// caches have to be recreated.
func (r *Relister) Start(ctx context.Context) error {
	for {
		if freeze, due := r.Freeze.RelistDue(); due && ctx.Err() == nil {
			if err := r.relistAll(ctx, freeze); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.Changes:
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *Relister) NeedLeaderElection() bool { return false }

// round is the work of one freeze on one kind.
type round struct {
	informer
	// demand is nil before the first list; behind is in how many objects the cache does not meet it.
	demand *Demand
	behind int
	// listAt is when it is listed the next time, again the wait after that.
	listAt time.Time
	again  time.Duration
	err    error
}

func (r *round) isThrough() bool { return r.demand != nil && r.behind == 0 }

func (r *round) compareCache() {
	r.behind = r.demand.Behind(r.shared.GetStore().ListKeys(), r.cachedVersion)
}

// relistAll brings the agent through the thaw of one freeze, or returns when something else freezes it.
func (r *Relister) relistAll(ctx context.Context, freeze uint64) error {
	begun := r.Clock.Now()
	var rounds []*round
	for ctx.Err() == nil {
		if now, due := r.Freeze.RelistDue(); !due || now != freeze {
			return nil
		}
		if rounds == nil {
			rounds = r.startRounds(ctx, freeze)
		}
		for _, one := range rounds {
			if err := r.advanceRound(ctx, one); err != nil {
				r.Metrics.rebuilds.Inc()
				return err
			}
		}
		if rounds != nil && r.allReported(ctx, freeze, rounds) {
			r.Metrics.duration.Observe(r.Clock.Since(begun).Seconds())
			r.Log.Info("Listed all objects after a freeze", "took", r.Clock.Since(begun).Round(time.Millisecond), "kinds", len(rounds))
			r.Freeze.CompleteRelist(freeze)
			return nil
		}
		select {
		case <-ctx.Done():
		case <-r.Clock.After(pollInterval):
		}
	}
	return nil
}

// allReported reports whether all caches are right, and the hub knows how every Machine is by them. If not, it says what is missing.
func (r *Relister) allReported(ctx context.Context, freeze uint64, rounds []*round) bool {
	if slices.ContainsFunc(rounds, func(one *round) bool { return !one.isThrough() }) {
		r.Freeze.ReportRelistProgress(freeze, describeProgress(rounds))
		return false
	}
	left, err := r.Tell(ctx, freeze)
	switch {
	case err != nil:
		r.Freeze.ReportRelistProgress(freeze, err.Error())
	case left > 0:
		r.Freeze.ReportRelistProgress(freeze, fmt.Sprintf("%d machines must still be reported to the hub", left))
	}
	return err == nil && left == 0
}

// startRounds returns one round for each kind, nil while not all informers can be made.
func (r *Relister) startRounds(ctx context.Context, freeze uint64) []*round {
	bounded, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	if err := r.Prepare(bounded); err != nil {
		r.Freeze.ReportRelistProgress(freeze, "making the caches: "+err.Error())
		return nil
	}
	rounds := []*round{}
	for _, one := range r.Caches.allInformers() {
		rounds = append(rounds, &round{informer: one, again: againStart})
	}
	return rounds
}

// advanceRound lists a kind if it is time to, else it looks what its cache still lacks.
func (r *Relister) advanceRound(ctx context.Context, one *round) error {
	now := r.Clock.Now()
	switch {
	case one.isThrough():
		return nil
	case !one.shared.HasSynced():
		return nil
	case now.Before(one.listAt):
		if one.demand != nil {
			one.compareCache()
		}
		return nil
	}
	one.listAt, one.again = now.Add(one.again), min(2*one.again, againMax)
	seen := one.shared.LastSyncResourceVersion()
	listing, err := one.listPages(ctx)
	if one.err = err; err != nil {
		return nil //nolint:nilerr // it is told with the progress, and tried again
	}
	if WentBack(listing, seen) {
		return fmt.Errorf("%w: %s were seen at version %s, and are listed at %s", ErrWentBack, one.what, seen, listing.Version)
	}
	if one.demand != nil {
		one.demand.Relax(listing)
		one.compareCache()
		return nil
	}
	one.demand = DemandOf(listing)
	one.compareCache()
	r.Metrics.behind.Add(float64(one.behind))
	return nil
}

// describeProgress says what the thaw waits for.
func describeProgress(rounds []*round) string {
	for _, one := range rounds {
		switch {
		case one.err != nil:
			return one.err.Error()
		case one.demand == nil:
			return "the cache of " + one.what + " is not filled yet"
		case one.behind > 0:
			return fmt.Sprintf("the cache of %s is behind in %s", one.what, plural.Count(one.behind, "object"))
		}
	}
	return ""
}

// Metrics of a Relister.
type Metrics struct {
	duration prometheus.Histogram
	behind   prometheus.Counter
	rebuilds prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hollowfleet_agent_relist_duration_seconds",
			Help:    "Time from the end of a freeze's last cause until the caches were up to date.",
			Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300},
		}),
		behind: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hollowfleet_agent_relist_outdated_objects_total",
			Help: "Objects that were missing from or outdated in the caches when they were compared after a freeze.",
		}),
		rebuilds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hollowfleet_agent_relist_cache_rebuilds_total",
			Help: "Times that the caches were recreated because an API server had gone back to an older state.",
		}),
	}
	registerer.MustRegister(m.duration, m.behind, m.rebuilds)
	return m
}
