package hollownode

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrKilled is returned by Run for a node that was killed, by a disruption or by its Options' Kill.
var ErrKilled = errors.New("killed")

// life ends one node of a process whose other nodes live on. A kubelet is made to end with its process: most of its loops
// ignore their context, or have none. So each of them ends at its next step out of the kubelet's own code, which is a request to
// the API server or a question to the container runtime.
type life struct {
	once  sync.Once
	ended chan struct{}
}

func newLife() *life { return &life{ended: make(chan struct{})} }

// end lets the node write nothing more from now on.
func (l *life) end() { l.once.Do(func() { close(l.ended) }) }

func (l *life) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// endGoroutine ends the goroutine that calls it if the node has ended. What it deferred is done.
func (l *life) endGoroutine() {
	if l.hasEnded() {
		runtime.Goexit()
	}
}

// guardRequests returns a transport over which a node that has ended sends nothing.
func (l *life) guardRequests(next http.RoundTripper) http.RoundTripper {
	return guardedTransport{RoundTripper: next, life: l}
}

type guardedTransport struct {
	http.RoundTripper
	life *life
}

// RoundTrip sends one request.
func (t guardedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.life.endGoroutine()
	return t.RoundTripper.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the connections of the transport.
func (t guardedTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// guardedRuntime is the container runtime of a node that may end. Of all questions these three are asked again and again.
type guardedRuntime struct {
	internalapi.RuntimeService
	life *life
}

// ListPodSandbox is asked by the loops that relist and clean up.
func (r guardedRuntime) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.life.endGoroutine()
	return r.RuntimeService.ListPodSandbox(ctx, filter)
}

// ListContainers is asked by the loops that relist and clean up.
func (r guardedRuntime) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.life.endGoroutine()
	return r.RuntimeService.ListContainers(ctx, filter)
}

// Status is asked by the loop that finds out whether the runtime is up.
func (r guardedRuntime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	r.life.endGoroutine()
	return r.RuntimeService.Status(ctx, verbose)
}
