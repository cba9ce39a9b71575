package apirollback

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// server is an API server, and the hub's cache of it.
type server struct {
	client.Reader
	cache.Informer

	mu              sync.Mutex
	version, cached string
	err             error
	lists           int
	limits          []int64
}

func (s *server) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, machine := object.(*v1alpha1.Machine); !machine {
		return nil, errors.New("not cached")
	}
	return s, nil
}

func (s *server) LastSyncResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cached
}

func (s *server) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &client.ListOptions{}
	all.ApplyOptions(options)
	s.lists, s.limits = s.lists+1, append(s.limits, all.Limit)
	if all.Raw != nil && all.Raw.ResourceVersion != "" {
		return errors.New("a version would allow an old answer")
	}
	list.(*v1alpha1.MachineList).ListMeta = metav1.ListMeta{ResourceVersion: s.version}
	return s.err
}

func (s *server) set(version, cached string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.cached, s.err = version, cached, err
}

func (s *server) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// env is a Watcher that runs by a fake clock.
type env struct {
	*WithT
	*server
	clock  *clocktesting.FakeClock
	broken chan struct{}
	ended  chan error
}

func start(t *testing.T, version, cached string) *env {
	t.Helper()
	b := &env{
		WithT: NewWithT(t), server: &server{version: version, cached: cached}, clock: clocktesting.NewFakeClock(time.Now()),
		broken: make(chan struct{}, 1), ended: make(chan error, 1),
	}
	watcher, err := New(Deps{Live: b.server, Informers: b.server, Broken: b.broken, Clock: b.clock, Log: logr.Discard()})
	b.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { b.ended <- watcher.Start(ctx) }()
	b.looks(1)
	return b
}

// looks waits until there were so many looks and the last one is over.
func (b *env) looks(want int) {
	b.Eventually(b.listed).WithTimeout(time.Minute).Should(Equal(want))
	b.Eventually(func() bool { return b.clock.HasWaiters() || len(b.ended) > 0 }).WithTimeout(time.Minute).Should(BeTrue())
}

// pass lets time go by until the timer that runs now has fired and the next one, if there is one, is set.
func (b *env) pass(span time.Duration) {
	b.Eventually(b.clock.HasWaiters).WithTimeout(time.Minute).Should(BeTrue())
	b.clock.Step(span)
	b.Eventually(func() bool { return b.clock.HasWaiters() || len(b.ended) > 0 }).WithTimeout(time.Minute).Should(BeTrue())
}

func (b *env) endsFor(reason string) {
	var err error
	b.Eventually(b.ended).WithTimeout(time.Minute).Should(Receive(&err))
	b.Expect(err).To(MatchError(ErrWentBack))
	b.Expect(err.Error()).To(ContainSubstring(reason))
}

func TestItLooksOnceAMinute(t *testing.T) {
	b := start(t, "100", "90")
	for i := range 5 {
		b.pass(again)
		b.Expect(b.listed()).To(Equal(i + 1))
		b.pass(period - again)
		b.looks(i + 2)
	}
	b.Expect(b.limits).To(HaveEach(int64(1)), "one Machine at most is read")
	b.Expect(b.ended).NotTo(Receive())
}

func TestAnOlderAnswerEndsItAtTheSecondLook(t *testing.T) {
	b := start(t, "100", "100")
	b.set("99", "100", nil)
	b.pass(again)
	b.pass(period - again)
	b.looks(2)
	b.Expect(b.ended).NotTo(Receive(), "one answer is not enough")
	b.pass(again)
	b.endsFor("Machines were seen at version 100, and are listed at 99")
	b.Expect(b.listed()).To(Equal(3))
}

func TestWhatTheCacheHasSeenCountsFromTheStart(t *testing.T) {
	b := start(t, "99", "100")
	b.pass(again)
	b.endsFor("seen at version 100")
}

func TestVersionsAreNumbers(t *testing.T) {
	b := start(t, "1000", "999")
	b.pass(again)
	b.Expect(b.ended).NotTo(Receive())
	b.Expect(b.listed()).To(Equal(1), "all is well, so that the next look is a minute away")
	b.set("b3", "b4", nil)
	b.pass(period - again)
	b.looks(2)
	b.pass(again)
	b.Expect(b.ended).NotTo(Receive(), "what is not a number is not older")
}

func TestASingleOldAnswerEndsNothing(t *testing.T) {
	b := start(t, "99", "100")
	b.set("101", "100", nil)
	b.pass(again)
	b.looks(2)
	b.set("100", "101", nil)
	b.pass(again)
	b.pass(period - again)
	b.looks(3)
	b.Expect(b.ended).NotTo(Receive())
	b.set("102", "101", nil)
	b.pass(again)
	b.looks(4)
	b.pass(again)
	b.Expect(b.ended).NotTo(Receive(), "two that are far apart do not add up")
}

func TestABrokenRequestHastensTheNextLook(t *testing.T) {
	b := start(t, "100", "100")
	b.broken <- struct{}{}
	b.Consistently(b.listed).WithTimeout(50*time.Millisecond).Should(Equal(1), "no look is sooner than a moment after the last")
	b.set("", "", errors.New("connection refused"))
	b.clock.Step(again)
	b.looks(2)
	b.set("", "", errors.New("connection refused"))
	b.pass(again)
	b.looks(3)

	// The API server is back with older data, and the cache has listed it already.
	b.set("50", "50", nil)
	b.pass(again)
	b.looks(4)
	b.pass(again)
	b.endsFor("seen at version 100, and are listed at 50")
}

func TestItEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	s := &server{version: "1"}
	watcher, err := New(Deps{Live: s, Informers: s, Broken: make(chan struct{}), Clock: clocktesting.NewFakeClock(time.Now())})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(watcher.Start(ctx)).To(Succeed())
	g.Expect(watcher.NeedLeaderElection()).To(BeFalse(), "one that waits to be elected has the same caches")
	_, err = New(Deps{})
	g.Expect(err).To(MatchError(ContainSubstring("are required")))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestWatched(t *testing.T) {
	g := NewWithT(t)
	fails := errors.New("connection refused")
	inner := roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{Body: http.NoBody}, fails })
	config := &rest.Config{Transport: inner}
	broken := Watched(config)
	transport, err := rest.TransportFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	ask := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub", http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(ask(cancelled)).To(MatchError(fails))
	g.Expect(broken).NotTo(Receive(), "who gave up is not news")
	g.Expect(ask(t.Context())).To(MatchError(fails))
	g.Expect(ask(t.Context())).To(MatchError(fails))
	g.Expect(broken).To(Receive())
	g.Expect(broken).NotTo(Receive(), "once is enough")
	fails = nil
	g.Expect(ask(t.Context())).To(Succeed())
	g.Expect(broken).NotTo(Receive())
}
