package relist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
)

// server is an API server with one kind, and a cache of it that is filled by hand.
type server struct {
	toolscache.SharedIndexInformer
	store toolscache.Store

	mu      sync.Mutex
	objects map[string]string
	version int
	seen    string
	synced  bool
	err     error
	lists   int
	pages   []metav1.ListOptions
}

func newServer() *server {
	return &server{store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), objects: map[string]string{}, version: 100, synced: true}
}

func (s *server) GetStore() toolscache.Store      { return s.store }
func (s *server) HasSynced() bool                 { return s.synced }
func (s *server) LastSyncResourceVersion() string { return s.seen }

func object(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, ResourceVersion: version}}
}

// put writes an object on the server; cache shows one in the cache.
func (s *server) put(name string) (version string) {
	s.version++
	s.objects[name] = strconv.Itoa(s.version)
	return s.objects[name]
}

func (s *server) cache(name, version string) {
	if err := s.store.Update(object(name, version)); err != nil {
		panic(err)
	}
}

// ListWithContext lists in pages of the size that is asked for. A continue token is the name to continue with.
func (s *server) ListWithContext(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = append(s.pages, options)
	if options.Continue == "" {
		s.lists++
	}
	if s.err != nil {
		return nil, s.err
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	from, _ := strconv.Atoi(options.Continue)
	for i, name := range sorted(s.objects)[from:] {
		if int64(i) == options.Limit {
			list.Continue = strconv.Itoa(from + i)
			break
		}
		list.Items = append(list.Items, *object(name, s.objects[name]))
	}
	return list, nil
}

func sorted(objects map[string]string) []string { return slices.Sorted(maps.Keys(objects)) }

// monitor is a freeze as the test wants it.
type monitor struct {
	mu       sync.Mutex
	freeze   uint64
	due      bool
	message  string
	relisted []uint64
}

func (m *monitor) RelistDue() (uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freeze, m.due
}

func (m *monitor) ReportRelistProgress(_ uint64, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.message = message
}

func (m *monitor) CompleteRelist(freeze uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due, m.relisted = false, append(m.relisted, freeze)
}

func (m *monitor) thawed() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.relisted
}

func (m *monitor) said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.message
}

// env is a Relister of one server, by a fake clock.
type env struct {
	*WithT
	*server
	monitor *monitor
	clock   *clocktesting.FakeClock
	changes chan struct{}
	metrics *Metrics
	prepare func() error
	tell    func(freeze uint64) (int, error)
	stopped chan error
	cancel  context.CancelFunc
}

func newEnv(t *testing.T) *env {
	t.Helper()
	b := &env{
		WithT: NewWithT(t), server: newServer(), monitor: &monitor{}, clock: clocktesting.NewFakeClock(time.Now()),
		changes: make(chan struct{}, 1), metrics: NewMetrics(prometheus.NewRegistry()), prepare: func() error { return nil },
		tell: func(uint64) (int, error) { return 0, nil },
	}
	return b
}

func (b *env) start(t *testing.T) {
	t.Helper()
	caches := &Caches{informers: []informer{{what: "Pods", lister: b.server, shared: b.server}}}
	relister, err := New(Deps{
		Caches: caches, Prepare: func(context.Context) error { return b.prepare() }, Freeze: b.monitor, Changes: b.changes,
		Tell:    func(_ context.Context, freeze uint64) (int, error) { return b.tell(freeze) },
		Runtime: poll.Runtime{Clock: b.clock, Log: logr.Discard()}, Metrics: b.metrics,
	})
	b.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	b.stopped, b.cancel = make(chan error, 1), cancel
	go func() { b.stopped <- relister.Start(ctx); close(b.stopped) }()
	t.Cleanup(func() {
		cancel()
		b.Eventually(b.stopped).WithTimeout(time.Minute).Should(BeClosed(), "the relister does not stop")
	})
}

// due makes the list due for one more freeze.
func (b *env) due() {
	b.monitor.mu.Lock()
	b.monitor.freeze++
	b.monitor.due = true
	b.monitor.mu.Unlock()
	b.changes <- struct{}{}
}

// pass lets the relister look n times.
func (b *env) pass(n int) {
	for range n {
		b.Eventually(b.clock.HasWaiters).WithTimeout(time.Minute).Should(BeTrue(), "it waits for the clock")
		b.clock.Step(pollInterval)
	}
	b.Eventually(b.clock.HasWaiters).WithTimeout(time.Minute).Should(BeTrue(), "it waits for the clock")
}

func (b *env) expectThawed(freezes ...uint64) {
	b.Eventually(b.monitor.thawed).WithTimeout(time.Minute).Should(Equal(freezes))
}

func (b *env) listed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lists
}

// Claim: The hub knows every Machine's state before an agent unfreezes. Broken: the thaw does not wait; a look counts that started before. Also: "should have the hub told before the thaw, by caches that are right"; agent/internal/machine TestRollCall.
func TestRelister(t *testing.T) {
	t.Run("should list once for each freeze, and not at rest", func(t *testing.T) {
		b := newEnv(t)
		b.cache("a", b.put("a"))
		b.start(t)
		b.changes <- struct{}{}
		b.Expect(b.listed()).To(BeZero())
		b.due()
		b.expectThawed(1)
		b.changes <- struct{}{}
		b.due()
		b.expectThawed(1, 2)
		b.Expect(b.listed()).To(Equal(2))
		b.Expect(testutil.ToFloat64(b.metrics.behind)).To(BeZero())
	})
	t.Run("should hold the thaw until what is newer has come and what is gone has left", func(t *testing.T) {
		b := newEnv(t)
		b.cache("changed", b.put("changed"))
		b.cache("deleted", "50")
		changed, created := b.put("changed"), b.put("created")
		b.start(t)
		b.due()
		b.pass(2)
		b.Expect(b.monitor.thawed()).To(BeEmpty())
		b.Expect(b.monitor.said()).To(Equal("the cache of Pods is behind in 3 objects"))
		b.cache("changed", changed)
		b.cache("created", created)
		b.pass(1)
		b.Expect(b.monitor.thawed()).To(BeEmpty(), "a pod is still there that is gone")
		b.Expect(b.store.Delete(object("deleted", "50"))).To(Succeed())
		b.clock.Step(pollInterval)
		b.expectThawed(1)
		b.Expect(b.listed()).To(Equal(1))
		b.Expect(testutil.ToFloat64(b.metrics.behind)).To(Equal(3.0))
	})
	t.Run("should list again, slower each time, and let go what is gone meanwhile", func(t *testing.T) {
		b := newEnv(t)
		b.put("short-lived")
		b.start(t)
		b.due()
		b.pass(int(againStart/pollInterval) - 1)
		b.Expect(b.listed()).To(Equal(1))
		b.pass(1)
		b.Expect(b.listed()).To(Equal(2))
		b.mu.Lock()
		delete(b.objects, "short-lived")
		b.mu.Unlock()
		b.pass(int(2*againStart/pollInterval) - 1)
		b.Expect(b.listed()).To(Equal(2))
		b.clock.Step(pollInterval)
		b.expectThawed(1)
		b.Expect(b.listed()).To(Equal(3))
	})
	t.Run("should get through although the world changes all the time", func(t *testing.T) {
		b := newEnv(t)
		for i := range 5 {
			b.cache(fmt.Sprint("pod-", i), b.put(fmt.Sprint("pod-", i)))
		}
		old := b.put("pod-0")
		b.start(t)
		b.due()
		for i := range 3 {
			b.pass(1)
			b.mu.Lock()
			b.put("pod-0")
			b.put(fmt.Sprint("new-", i))
			b.mu.Unlock()
		}
		b.Expect(b.monitor.thawed()).To(BeEmpty())
		b.cache("pod-0", old)
		b.clock.Step(pollInterval)
		b.expectThawed(1)
	})
	t.Run("should read page by page, the whole of it in one state", func(t *testing.T) {
		b := newEnv(t)
		for i := range 2*pageSize + 1 {
			name := fmt.Sprintf("pod-%04d", i)
			b.cache(name, b.put(name))
		}
		b.start(t)
		b.due()
		b.expectThawed(1)
		b.Expect(b.pages).To(HaveLen(3))
		for _, page := range b.pages {
			b.Expect(page.Limit).To(BeEquivalentTo(pageSize))
			b.Expect(page.ResourceVersion).To(BeEmpty(), "a version would allow an old answer")
		}
	})
	t.Run("should say what fails and try again", func(t *testing.T) {
		b := newEnv(t)
		b.err = errors.New("no rights")
		b.start(t)
		b.due()
		b.pass(3)
		b.Expect(b.monitor.said()).To(Equal("listing Pods: no rights"))
		b.Expect(b.listed()).To(Equal(1), "not at every look")
		b.mu.Lock()
		b.err = nil
		b.mu.Unlock()
		b.clock.Step(againStart)
		b.expectThawed(1)
	})
	t.Run("should have the hub told before the freeze ended, by caches that are right", func(t *testing.T) {
		b := newEnv(t)
		var said []string
		answers := []func() (int, error){
			func() (int, error) { return 0, errors.New("no list") }, func() (int, error) { return 2, nil }, func() (int, error) { return 0, nil },
		}
		b.tell = func(freeze uint64) (int, error) {
			said = append(said, fmt.Sprint(freeze, " ", b.monitor.said(), " ", b.monitor.thawed()))
			next := answers[0]
			answers = answers[1:]
			return next()
		}
		version := b.put("a")
		b.start(t)
		b.due()
		b.pass(2)
		b.Expect(answers).To(HaveLen(3), "the cache is behind")
		b.cache("a", version)
		b.pass(1)
		b.pass(1)
		b.Expect(b.monitor.said()).To(Equal("2 machines must still be reported to the hub"))
		b.Expect(b.monitor.thawed()).To(BeEmpty())
		b.clock.Step(pollInterval)
		b.expectThawed(1)
		b.Expect(said).To(Equal([]string{
			"1 the cache of Pods is behind in 1 object []", "1 no list []", "1 2 machines must still be reported to the hub []",
		}))
	})
	t.Run("should wait for caches that cannot be made or are not filled", func(t *testing.T) {
		b := newEnv(t)
		b.synced = false
		var fail sync.Once
		b.prepare = func() (err error) {
			fail.Do(func() { err = errors.New("no such kind") })
			return err
		}
		b.start(t)
		b.due()
		b.Eventually(b.monitor.said).WithTimeout(time.Minute).Should(Equal("making the caches: no such kind"))
		b.pass(2)
		b.Expect(b.monitor.said()).To(Equal("the cache of Pods is not filled yet"))
		b.Expect(b.monitor.thawed()).To(BeEmpty())
	})
	t.Run("should give up a list that another freeze has made worthless", func(t *testing.T) {
		b := newEnv(t)
		b.put("a")
		b.start(t)
		b.due()
		b.pass(1)
		b.monitor.mu.Lock()
		b.monitor.freeze, b.monitor.due = 2, false
		b.monitor.mu.Unlock()
		b.clock.Step(pollInterval)
		b.Eventually(b.clock.HasWaiters).WithTimeout(time.Minute).Should(BeFalse(), "it waits for changes only")
		b.cache("a", b.objects["a"])
		b.due()
		b.expectThawed(3)
	})
	t.Run("should want new caches when the API server has gone back", func(t *testing.T) {
		b := newEnv(t)
		b.cache("a", b.put("a"))
		b.seen = strconv.Itoa(b.version + 1)
		b.start(t)
		b.due()
		var err error
		b.Eventually(b.stopped).WithTimeout(time.Minute).Should(Receive(&err))
		b.Expect(err).To(MatchError(ErrWentBack))
		b.Expect(strings.Contains(err.Error(), "Pods were seen at version 102, and are listed at 101")).To(BeTrue(), err.Error())
		b.Expect(b.monitor.thawed()).To(BeEmpty())
	})
	t.Run("should end while a list is due", func(t *testing.T) {
		b := newEnv(t)
		b.put("a")
		b.start(t)
		b.due()
		b.pass(1)
		b.cancel()
		b.Eventually(b.stopped).WithTimeout(time.Minute).Should(Receive(BeNil()))
	})
}
