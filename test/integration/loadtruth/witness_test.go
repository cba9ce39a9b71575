package loadtruth

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// podWitness watches the pods of load tests in a cluster, by a watch of its own.
type podWitness struct {
	mu   sync.Mutex
	seen map[string]bool
	// took is how long each pod took from its creation time to Ready, by the watch here.
	took map[string]time.Duration
}

func watchPods(ctx context.Context, member *localfleet.Member) *podWitness {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	w := &podWitness{seen: map[string]bool{}, took: map[string]time.Duration{}}
	list := &corev1.PodList{}
	Expect(member.Client.List(ctx, list)).To(Succeed())
	events, err := member.Client.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Raw: rawVersion(list.ResourceVersion)})
	Expect(err).NotTo(HaveOccurred())
	var done sync.WaitGroup
	done.Go(func() {
		for event := range events.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is && strings.HasPrefix(pod.Namespace, "load-") {
				w.observe(pod, time.Now())
			}
		}
	})
	DeferCleanup(func() {
		cancel()
		events.Stop()
		done.Wait()
	})
	return w
}

func (w *podWitness) observe(pod *corev1.Pod, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := pod.Namespace + "/" + pod.Name
	w.seen[key] = true
	for _, condition := range pod.Status.Conditions {
		if _, known := w.took[key]; !known && condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			w.took[key] = now.Sub(pod.CreationTimestamp.Time)
		}
	}
}

// counts is how many pods there were, and how many of them were Ready, and the longest that one of these took.
func (w *podWitness) counts() (seen, ready int, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, took := range w.took {
		longest = max(longest, took)
	}
	return len(w.seen), len(w.took), longest
}

// requestWitness makes requests of its own at fixed times, whether earlier ones are answered or not, and measures them from when they
// were due.
type requestWitness struct {
	mu   sync.Mutex
	took []time.Duration
}

func askAtFixedTimes(ctx context.Context, member *localfleet.Member, period, during time.Duration) (*requestWitness, func()) {
	w := &requestWitness{}
	var all sync.WaitGroup
	all.Go(func() {
		begin := time.Now()
		for due := time.Duration(0); due < during; due += period {
			at := begin.Add(due)
			<-time.After(time.Until(at))
			all.Go(func() {
				_ = member.Client.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
				w.mu.Lock()
				defer w.mu.Unlock()
				w.took = append(w.took, time.Since(at))
			})
		}
	})
	return w, all.Wait
}

func (w *requestWitness) quantile(part float64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	sorted := slices.Sorted(slices.Values(w.took))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}
