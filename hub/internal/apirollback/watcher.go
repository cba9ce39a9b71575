package apirollback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// period is how often to look when all is well, again how soon after a look that was not. The sooner, the younger a
	// backup that is noticed.
	period = time.Minute
	again  = 2 * time.Second
	// longestLook bounds one request.
	longestLook = 10 * time.Second
)

// ErrWentBack says that what the hub knows is not what its API server has any more.
var ErrWentBack = errors.New("the API server has gone back to an older state, such as that of a backup")

// Informers gets the informer of a cached kind.
type Informers interface {
	GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error)
}

// Deps are what a Watcher works with. All are required but Log.
type Deps struct {
	// Live reads from the API server, Informers are those of the hub's cache.
	Live      client.Reader
	Informers Informers
	// Broken receives after a request to the API server has broken off.
	Broken <-chan struct{}
	Clock  clock.WithTicker
	Log    logr.Logger
}

// Watcher looks whether the API server has gone back.
type Watcher struct {
	Deps
	// seen is the newest version that cache or lists have shown. The cache alone forgets it when it lists anew.
	seen string
	// doubted: the last answer was older than what had been seen.
	doubted bool
}

// New returns a Watcher that has seen nothing.
func New(deps Deps) (*Watcher, error) {
	if deps.Live == nil || deps.Informers == nil || deps.Broken == nil || deps.Clock == nil {
		return nil, errors.New("the watcher for setbacks needs a live reader, informers, news of broken requests and a clock")
	}
	return &Watcher{Deps: deps}, nil
}

// Start looks until ctx ends, or returns ErrWentBack. It implements manager.Runnable.
func (w *Watcher) Start(ctx context.Context) error {
	informer, err := w.Informers.GetInformer(ctx, &v1alpha1.Machine{})
	if err != nil {
		return fmt.Errorf("getting the informer of Machines: %w", err)
	}
	versioned, ok := informer.(interface{ LastSyncResourceVersion() string })
	if !ok {
		return fmt.Errorf("getting the informer of Machines: %T does not tell its resource version", informer)
	}
	for {
		well, err := w.check(ctx, versioned.LastSyncResourceVersion())
		if err != nil {
			return err
		}
		if !w.wait(ctx, well) {
			return nil
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a hub that waits to be elected looks too.
func (w *Watcher) NeedLeaderElection() bool { return false }

// wait returns true when the next look is due, false when ctx has ended. Broken requests hasten no more than one look
// in a while.
func (w *Watcher) wait(ctx context.Context, well bool) bool {
	timer := w.Clock.NewTimer(again)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
	}
	if !well {
		return true
	}
	rest := w.Clock.NewTimer(period - again)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.Broken:
	case <-rest.C():
	}
	return true
}

// check holds what the API server lists now against what had been seen before, and tells whether all is well.
func (w *Watcher) check(ctx context.Context, cached string) (well bool, err error) {
	if newer(cached, w.seen) {
		w.seen = cached
	}
	bounded, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	list := &v1alpha1.MachineList{}
	if err := w.Live.List(bounded, list, client.Limit(1)); err != nil {
		// The API server is away, which others tell of. Whatever it is afterwards is looked at.
		return false, nil
	}
	if newer(w.seen, list.ResourceVersion) {
		if w.doubted {
			return false, fmt.Errorf("%w: Machines were seen at version %s, and are listed at %s; this process has to start anew", ErrWentBack, w.seen, list.ResourceVersion)
		}
		w.Log.Info("Finding the API server older than before; looking again", "seen", w.seen, "listed", list.ResourceVersion)
		w.doubted = true
		return false, nil
	}
	w.seen, w.doubted = list.ResourceVersion, false
	return true, nil
}

// newer compares versions of one kind, which are numbers that grow. What is no number is newer than nothing.
func newer(a, b string) bool {
	if b == "" {
		return a != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
