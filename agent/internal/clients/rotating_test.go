package clients

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// turntable is a Source that a test turns.
type turntable struct {
	mu      sync.Mutex
	config  *rest.Config
	version uint64
	answers []int
}

func (s *turntable) Current() (*rest.Config, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		return nil, 0, errors.New("nothing yet")
	}
	return s.config, s.version, nil
}

func (s *turntable) Answered(version uint64, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == s.version {
		s.answers = append(s.answers, status)
	}
}

func (s *turntable) turn(config *rest.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = config
	s.version++
}

// newServer answers with its name, the path and the token that was shown. An answer to /slow is finished after
// release; open counts the connections.
func newServer(t *testing.T, name string) (server *httptest.Server, release chan struct{}, open *atomic.Int64) {
	t.Helper()
	release, open = make(chan struct{}), &atomic.Int64{}
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-release
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, name+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		default:
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, release, open
}

func configFor(server *httptest.Server, path, token string) *rest.Config {
	return &rest.Config{Host: server.URL + path, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
}

func ask(g *WithT, httpClient *http.Client, url string) string {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := httpClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(body)
}

func TestRotating(t *testing.T) {
	g := NewWithT(t)
	first, release, open := newServer(t, "first")
	second, _, _ := newServer(t, "second")
	source := &turntable{}
	config, err := Rotating(source, first.URL, "test")
	g.Expect(err).NotTo(HaveOccurred())
	httpClient, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL+"/a", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = httpClient.Do(request)
	g.Expect(err).To(MatchError(ContainSubstring("nothing yet")))

	source.turn(configFor(first, "", "one"))
	g.Expect(ask(g, httpClient, first.URL+"/a")).To(Equal("first /a Bearer one"))
	g.Expect(ask(g, httpClient, first.URL+"/forbidden")).To(HavePrefix("first"))
	g.Expect(source.answers).To(Equal([]int{http.StatusOK, http.StatusForbidden}))

	// A request that is under way ends as it started, while others use the new token and other connections.
	slow := make(chan string, 1)
	go func() { slow <- ask(NewWithT(t), httpClient, first.URL+"/slow") }()
	g.Eventually(func() int { source.mu.Lock(); defer source.mu.Unlock(); return len(source.answers) }).Should(Equal(3))
	source.turn(configFor(first, "", "two"))
	g.Expect(ask(g, httpClient, first.URL+"/b")).To(Equal("first /b Bearer two"))
	g.Expect(open.Load()).To(BeEquivalentTo(2), "the connection that is in use, and the new one")
	close(release)
	g.Eventually(slow).Should(Receive(Equal("first /slow Bearer one")))
	g.Eventually(open.Load).Should(BeEquivalentTo(1), "the old connection closes after its last request")

	// A server that has moved, also to another path.
	source.turn(configFor(second, "/clusters/hub", "three"))
	g.Expect(ask(g, httpClient, first.URL+"/c?x=y")).To(Equal("second /clusters/hub/c Bearer three"))
	g.Eventually(open.Load).Should(BeEquivalentTo(0), "the old one closes")
}

func TestRotatingTakesAPathAway(t *testing.T) {
	g := NewWithT(t)
	first, _, _ := newServer(t, "first")
	second, _, _ := newServer(t, "second")
	source := &turntable{}
	source.turn(configFor(first, "/clusters/hub", ""))
	config, err := Rotating(source, first.URL+"/clusters/hub", "test")
	g.Expect(err).NotTo(HaveOccurred())
	httpClient, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ask(g, httpClient, config.Host+"/a")).To(Equal("first /clusters/hub/a "))
	source.turn(configFor(second, "", ""))
	g.Expect(ask(g, httpClient, config.Host+"/a")).To(Equal("second /a "))
}

func TestReconnectClosesIdleConnections(t *testing.T) {
	g := NewWithT(t)
	first, _, open := newServer(t, "first")
	for name, configured := range map[string]func() *rest.Config{
		"plain": func() *rest.Config { return configFor(first, "", "") },
		"rotating": func() *rest.Config {
			source := &turntable{}
			source.turn(configFor(first, "", ""))
			config, err := Rotating(source, first.URL, "test")
			g.Expect(err).NotTo(HaveOccurred())
			return config
		},
	} {
		made, err := NewDirect(configured())
		g.Expect(err).NotTo(HaveOccurred())
		ask(g, made.http, first.URL+"/a")
		g.Expect(open.Load()).To(BeEquivalentTo(1), name)
		made.Reconnect()
		g.Eventually(open.Load).Should(BeEquivalentTo(0), name)
	}
}
