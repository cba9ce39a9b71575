package rehearse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	// sampleEvery is how often the simulated cluster is looked at, and longestAnswer how long its API server may take to count as there.
	sampleEvery, longestAnswer = 500 * time.Millisecond, time.Second
)

// copyOf is a copy of the objects of a kind, kept up to date by a watch that is made again when it ends.
type copyOf[T client.Object] struct {
	store     cache.Store
	reflector *cache.Reflector
}

// follow keeps a copy until ctx ends.
func follow[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, example T, chosen ...client.ListOption) *copyOf[T] {
	only := func(options metav1.ListOptions) *client.ListOptions {
		return (&client.ListOptions{Raw: &options}).ApplyOptions(chosen)
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, ok := list.DeepCopyObject().(client.ObjectList)
			if !ok {
				return nil, fmt.Errorf("watching: %T is not a list", list)
			}
			return found, c.List(ctx, found, only(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, only(options))
		},
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	one := &copyOf[T]{store, cache.NewReflectorWithOptions(source, example, store, cache.ReflectorOptions{})}
	go one.reflector.RunWithContext(ctx)
	return one
}

// isComplete reports whether all objects have been read once.
func (c *copyOf[T]) isComplete() bool { return c.reflector.LastSyncResourceVersion() != "" }

func (c *copyOf[T]) objects() (all []T) {
	for _, object := range c.store.List() {
		if typed, ok := object.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// simulated is the connection to the simulated cluster.
type simulated struct {
	server  string
	client  client.WithWatch
	probe   rest.Interface
	pods    *copyOf[*corev1.Pod]
	budgets *copyOf[*policyv1.PodDisruptionBudget]
	stop    context.CancelFunc
}

// connect makes one with a kubeconfig.
func connect(ctx context.Context, path string) (*simulated, error) {
	config, err := loadKubeconfig(path, "")
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("making a client of the simulated cluster: %w", err)
	}
	probe, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the simulated cluster: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	return &simulated{
		server: config.Host, client: c, probe: probe.RESTClient(), stop: stop,
		pods:    follow(ctx, c, &corev1.PodList{}, &corev1.Pod{}),
		budgets: follow(ctx, c, &policyv1.PodDisruptionBudgetList{}, &policyv1.PodDisruptionBudget{}),
	}, nil
}

func (s *simulated) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, longestAnswer)
	defer cancel()
	return s.probe.Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

// watcher takes a sample twice a second, and adds it to the timeline if there is one.
type watcher struct {
	machines *copyOf[*v1alpha1.Machine]
	// kubeconfig is that of the simulated cluster, as it is now. It may change with the version of the control plane.
	kubeconfig func() string

	mutex     sync.Mutex
	simulated *simulated
	last      *observe.Sample
	timeline  *observe.Timeline
	changed   chan struct{}
}

func newWatcher(ctx context.Context, hub client.WithWatch, namespace string, kubeconfig func() string) *watcher {
	return &watcher{
		machines:   follow(ctx, hub, &v1alpha1.MachineList{}, &v1alpha1.Machine{}, client.InNamespace(namespace)),
		kubeconfig: kubeconfig, changed: make(chan struct{}),
	}
}

// run takes samples until ctx ends.
func (w *watcher) run(ctx context.Context) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		w.takeSample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// reconnect connects again if the connection has ended, or the kubeconfig names another server.
func (w *watcher) reconnect(ctx context.Context) {
	path := w.kubeconfig()
	if path == "" {
		return
	}
	before := w.connection()
	if config, err := loadKubeconfig(path, ""); err != nil || before != nil && config.Host == before.server {
		return
	}
	after, err := connect(ctx, path)
	if err != nil {
		return // The file may be half written: the next sample tries again.
	}
	if before != nil {
		before.stop()
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.simulated = after
}

func (w *watcher) connection() *simulated {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.simulated
}

func (w *watcher) takeSample(ctx context.Context) {
	w.reconnect(ctx)
	s := w.connection()
	if s == nil {
		return
	}
	answered := s.answers(ctx)
	sample := &observe.Sample{At: time.Now(), Answered: answered && s.pods.isComplete() && s.budgets.isComplete(), Machines: w.machines.objects()}
	sample.Pods, sample.Budgets = s.pods.objects(), s.budgets.objects()
	if ctx.Err() != nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !sample.Answered && w.last != nil {
		sample.Pods, sample.Budgets = w.last.Pods, w.last.Budgets
	}
	w.last = sample
	if w.timeline != nil {
		w.timeline.Add(sample)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until done says so of a sample.
func (w *watcher) await(ctx context.Context, done func(*observe.Sample) (bool, error)) error {
	for {
		w.mutex.Lock()
		sample, changed := w.last, w.changed
		w.mutex.Unlock()
		if sample != nil {
			if is, err := done(sample); err != nil || is {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// startTimeline lets the timeline begin with the last sample.
func (w *watcher) startTimeline() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.last == nil {
		return errors.New("the simulated cluster has not been looked at")
	}
	w.timeline = observe.NewTimeline(w.last)
	return nil
}

// restartDips lets the timeline count Ready pods from the last sample on.
func (w *watcher) restartDips() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.timeline != nil {
		w.timeline.RestartDips(w.last)
	}
}

// endTimeline returns the last sample, and the timeline, to which nothing is added any more.
func (w *watcher) endTimeline() (*observe.Sample, *observe.Timeline) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	timeline := w.timeline
	w.timeline = nil
	return w.last, timeline
}

// fingerprint is the same as long as the pods stand as they do.
func fingerprint(s *observe.Sample) string {
	counts := s.CountPods()
	var parts []string
	for id, pods := range counts {
		parts = append(parts, fmt.Sprintf("%s %d/%d/%d", id, pods.Total, pods.Scheduled, pods.Ready))
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}
