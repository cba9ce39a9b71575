// Package apirollback notices that the hub's API server has gone back to an older state, such as that of a backup.
//
// A cache would not: its watch asks for what comes after the newest that it has seen, and hears nothing until the API
// server has come as far again. The objects that are missing since stay in it, and those that are there again do not
// come. So the hub holds the newest version that its cache has seen against a list that the API server makes now. A
// list without a resource version is read from etcd, or from a cache that has first caught up with what etcd had when
// it was asked for; it cannot be behind what any watch has told before, however far the one API server that answers
// lags. An older list is older data. It is looked at twice all the same, so that no single answer ends a hub.
//
// What the hub has in memory beside its caches is as wrong as they are: the process ends, and the supervisor that keeps
// it running starts it again. After a start a hub acts only for agents that it has heard itself. A hub that waits to be
// elected looks too, because it would start with the same old caches.
//
// Every kind goes back together, so one is looked at: Machines, of which at most one is read. That is one request a
// minute, and a few more after a request that has broken off. What has been seen may be as old: the cache of a quiet kind
// hears of the API server's version once a minute. So a backup of a minute ago is not noticed, nor is one with so few
// writes since that the restored API server has as many by the second look.
//
// An API server that runs on while its etcd is put back serves its own old cache, also to lists. It has to be started
// again in any case, as Kubernetes demands; from then on this package sees what has happened.
package apirollback

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
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
	// seen is the newest version that cache or lists have shown. The cache alone forgets it when it lists again.
	seen string
	// doubted: the last answer was older than what had been seen.
	doubted bool
}

// New returns a Watcher that has seen nothing.
func New(deps Deps) (*Watcher, error) {
	if deps.Live == nil || deps.Informers == nil || deps.Broken == nil || deps.Clock == nil {
		return nil, errors.New("apirollback.Deps: Live, Informers, Broken and Clock are required")
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
		return fmt.Errorf("getting the informer of Machines: %T does not report its resource version", informer)
	}
	for {
		well, err := w.checkVersions(ctx, versioned.LastSyncResourceVersion())
		if err != nil {
			return err
		}
		if !w.waitForLook(ctx, well) {
			return nil
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a hub that waits to be elected looks too.
func (w *Watcher) NeedLeaderElection() bool { return false }

// waitForLook returns true when the next look is due, false when ctx has ended. Broken requests hasten no more than one look
// in a while.
func (w *Watcher) waitForLook(ctx context.Context, well bool) bool {
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

// checkVersions holds what the API server lists now against what had been seen before, and reports whether all is well.
func (w *Watcher) checkVersions(ctx context.Context, cached string) (well bool, err error) {
	if isNewer(cached, w.seen) {
		w.seen = cached
	}
	bounded, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	list := &v1alpha1.MachineList{}
	if err := w.Live.List(bounded, list, client.Limit(1)); err != nil {
		// The API server is away, which others tell of. Whatever it is afterwards is looked at.
		return false, nil
	}
	if isNewer(w.seen, list.ResourceVersion) {
		if w.doubted {
			return false, fmt.Errorf("%w: Machines were seen at version %s, and are listed at %s; this process must restart", ErrWentBack, w.seen, list.ResourceVersion)
		}
		w.Log.Info("Finding the API server older than before; checking again", "seen", w.seen, "listed", list.ResourceVersion)
		w.doubted = true
		return false, nil
	}
	w.seen, w.doubted = list.ResourceVersion, false
	return true, nil
}

// isNewer compares versions of one kind, which are numbers that grow. What is not a number is newer than nothing.
func isNewer(a, b string) bool {
	if b == "" {
		return a != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Watched makes the clients of config tell when a request breaks off or cannot be sent. Requests that their caller has
// given up do not count.
func Watched(config *rest.Config) (broken <-chan struct{}) {
	news := make(chan struct{}, 1)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &watched{RoundTripper: inner, news: news} })
	return news
}

type watched struct {
	http.RoundTripper
	news chan<- struct{}
}

func (w *watched) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(request)
	if err != nil && request.Context().Err() == nil {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
	return response, err
}

// WrappedRoundTripper lets client-go get at the transport, such as to close its connections.
func (w *watched) WrappedRoundTripper() http.RoundTripper { return w.RoundTripper }
