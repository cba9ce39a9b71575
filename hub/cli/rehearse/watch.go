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
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	// probeEvery is how often the API server of the simulated cluster is asked whether it is there, and longestAnswer how long its answer may take.
	probeEvery, longestAnswer = 500 * time.Millisecond, time.Second
	// gatherTime is how long changes of pods and budgets are gathered for one sample. A change of a Machine has a sample of its own.
	gatherTime = 25 * time.Millisecond
)

// simulated is the connection to the simulated cluster.
type simulated struct {
	server  string
	client  client.WithWatch
	probe   rest.Interface
	pods    *copyOf[*corev1.Pod]
	budgets *copyOf[*policyv1.PodDisruptionBudget]
	stop    context.CancelFunc
}

// connectSimulated makes a connection with a kubeconfig. changed is called after each change of a pod or budget.
func connectSimulated(ctx context.Context, path string, changed func()) (*simulated, error) {
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
		pods:    follow(ctx, c, &corev1.PodList{}, &corev1.Pod{}, changed),
		budgets: follow(ctx, c, &policyv1.PodDisruptionBudgetList{}, &policyv1.PodDisruptionBudget{}, changed),
	}, nil
}

func (s *simulated) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, longestAnswer)
	defer cancel()
	return s.probe.Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

// watcher takes a sample whenever something has changed, and twice a second, and adds it to the timeline if there is one. So a drain is seen
// however short it is, and what holds it from gatherTime on.
type watcher struct {
	machines *copyOf[*v1alpha1.Machine]
	// kubeconfig is that of the simulated cluster, as it is now. It may change with the version of the control plane.
	kubeconfig func() string

	// news has something in it when pods or budgets have changed since the last sample.
	news chan struct{}

	mutex     sync.Mutex
	simulated *simulated
	// answers is whether the API server has answered last.
	answers  bool
	last     *observe.Sample
	timeline *observe.Timeline
	changed  chan struct{}
}

func newWatcher(ctx context.Context, hub client.WithWatch, namespace string, kubeconfig func() string) *watcher {
	w := &watcher{kubeconfig: kubeconfig, changed: make(chan struct{}), news: make(chan struct{}, 1)}
	w.mutex.Lock()
	defer w.mutex.Unlock() // The first Machine may come before the copy is in its place.
	w.machines = follow(ctx, hub, &v1alpha1.MachineList{}, &v1alpha1.Machine{}, func() { w.takeSample(ctx) }, client.InNamespace(namespace))
	return w
}

// run takes samples until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var gathering sync.WaitGroup
	defer gathering.Wait()
	gathering.Go(func() { w.gatherNews(ctx) })
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		w.probeServer(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// gatherNews takes a sample when pods or budgets have changed.
func (w *watcher) gatherNews(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.news:
			w.takeSample(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gatherTime):
		}
	}
}

// noteNews has a sample taken soon.
func (w *watcher) noteNews() {
	select {
	case w.news <- struct{}{}:
	default: // One is about to be taken.
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
	after, err := connectSimulated(ctx, path, w.noteNews)
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

// probeServer asks the API server whether it is there, and takes a sample.
func (w *watcher) probeServer(ctx context.Context) {
	w.reconnect(ctx)
	s := w.connection()
	if s == nil {
		return
	}
	answers := s.answers(ctx)
	w.mutex.Lock()
	w.answers = answers
	w.mutex.Unlock()
	w.takeSample(ctx)
}

// takeSample takes one of all that is known.
func (w *watcher) takeSample(ctx context.Context) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	s := w.simulated
	if s == nil || ctx.Err() != nil {
		return
	}
	sample := &observe.Sample{
		At: time.Now(), Answered: w.answers && s.pods.isComplete() && s.budgets.isComplete(), Machines: w.machines.listObjects(), Pods: s.pods.listObjects(), Budgets: s.budgets.listObjects(),
	}
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
