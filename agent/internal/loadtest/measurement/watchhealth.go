package measurement

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

const (
	// longestGap is how long a watch may be interrupted: API servers end each from time to time, and it is started again at once.
	longestGap = time.Second
	// LongestLag is how long after the creation of an object, which is known in whole seconds, its watch may show it.
	LongestLag = 2 * time.Second
)

// watchHealth is how the watches of a run do. What they show late, or only after a list, has wrong times.
type watchHealth struct {
	clock clock.PassiveClock
	// lags has how late watches have shown new objects.
	lags longestByTime

	mu sync.Mutex
	// synced is that all watches have started.
	synced bool
	// interruptions counts those for longer than longestGap, and lists made again.
	interruptions int32
}

func newWatchHealth(clock clock.PassiveClock) *watchHealth { return &watchHealth{clock: clock} }

// markStarted notes that all watches have started.
func (w *watchHealth) markStarted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
}

// addInterruption counts an interruption of a watch that had started.
func (w *watchHealth) addInterruption() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced {
		w.interruptions++
	}
}

// countInterruptions is how many interruptions there were.
func (w *watchHealth) countInterruptions() int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.interruptions
}

// observeWatch lets a watch be observed.
func (w *watchHealth) observeWatch(list *cache.ListWatch) *cache.ListWatch {
	listed, watched := list.ListWithContextFunc, list.WatchFuncWithContext
	begun, ended := false, time.Time{}
	var mu sync.Mutex
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			mu.Lock()
			if begun {
				w.addInterruption()
			}
			mu.Unlock()
			return listed(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			inner, err := watched(ctx, options)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			// A list may come by a watch too.
			again := options.SendInitialEvents != nil && *options.SendInitialEvents
			if begun && (again || w.clock.Since(ended) > longestGap) {
				w.addInterruption()
			}
			begun = true
			return followWatch(inner, func() {
				mu.Lock()
				defer mu.Unlock()
				ended = w.clock.Now()
			}), nil
		},
	}
}

// followedWatch tells when the watch inside has ended.
type followedWatch struct {
	watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func followWatch(inner watch.Interface, ended func()) *followedWatch {
	w := &followedWatch{Interface: inner, events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(w.events)
		defer ended()
		for event := range inner.ResultChan() {
			select {
			case w.events <- event:
			case <-w.stopped:
				return
			}
		}
	}()
	return w
}

// ResultChan implements watch.Interface.
func (w *followedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *followedWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}
