package disrupt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// errFrozen is what a heartbeat fails with that is not sent.
var errFrozen = errors.New("the heartbeat is frozen by a disruption")

// API is the way of the kubelet's clients to the API server, which is slow, broken or closed as a State says.
type API struct {
	node  string
	clock clock.Clock

	mu    sync.Mutex
	state State
	// changed is closed when state changes, so that requests which wait continue as if nothing had been.
	changed chan struct{}
}

// NewAPI returns the undisturbed way of a node.
func NewAPI(node string, clock clock.Clock) *API {
	return &API{node: node, clock: clock, changed: make(chan struct{})}
}

// Set disturbs requests as the state says. What waits, or starts from now on, is treated by it.
func (a *API) Set(state State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = state
	close(a.changed)
	a.changed = make(chan struct{})
}

// Client wraps the transport of one of the kubelet's clients.
func (a *API) Client(client plan.APIClient) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &disturbed{api: a, client: client, next: next} }
}

func (a *API) currentState() (State, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state, a.changed
}

// disturbed is the transport of one client.
type disturbed struct {
	api    *API
	client plan.APIClient
	next   http.RoundTripper
	// sent counts the requests, to tell apart which fail.
	sent atomic.Int64
}

var _ utilnet.RoundTripperWrapper = &disturbed{}

// WrappedRoundTripper lets idle connections of the transport below be closed.
func (d *disturbed) WrappedRoundTripper() http.RoundTripper { return d.next }

// RoundTrip sends a request when its delay is over, unless it is frozen or answered with an error.
func (d *disturbed) RoundTrip(request *http.Request) (*http.Response, error) {
	number := d.sent.Add(1)
	state, err := d.waitWhileHeld(request.Context(), number)
	if err == nil && d.isFrozenHeartbeat(state, request.URL.Path) {
		err = errFrozen
	}
	if err != nil {
		discardBody(request)
		return nil, err
	}
	for i := range state.API {
		e := &state.API[i]
		if d.failsRequest(e, number) {
			discardBody(request)
			return refusalResponse(request, e), nil
		}
	}
	return d.next.RoundTrip(request)
}

// waitWhileHeld lets a request wait as long as the state says, and returns the state that is there when it continues.
func (d *disturbed) waitWhileHeld(ctx context.Context, number int64) (State, error) {
	began := d.api.clock.Now()
	for {
		state, changed := d.api.currentState()
		left := d.requestDelay(state, number) - d.api.clock.Since(began)
		if left <= 0 {
			return state, nil
		}
		timer := d.api.clock.NewTimer(left)
		select {
		case <-timer.C():
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return State{}, ctx.Err()
		}
		timer.Stop()
	}
}

// requestDelay is how long a request takes longer; each SlowAPI has its part.
func (d *disturbed) requestDelay(state State, number int64) time.Duration {
	var delay time.Duration
	for i := range state.API {
		e := &state.API[i]
		if p := e.Fault.SlowAPI; e.Fault.Type == plan.SlowAPI && p.Concerns(d.client) {
			delay += p.Latency.Duration + plan.Spread(p.Jitter.Duration, e.Seed, "latency", d.api.node, e.UID, e.Index, string(d.client), number)
		}
	}
	return delay
}

// isFrozenHeartbeat reports whether a request is a heartbeat that is not sent. The client of the heartbeats asks for nothing but the
// Lease and the Node.
func (d *disturbed) isFrozenHeartbeat(state State, path string) bool {
	if d.client != plan.ClientHeartbeat {
		return false
	}
	return state.FrozenLease && strings.Contains(path, "/apis/coordination.k8s.io/") ||
		state.FrozenStatus && strings.Contains(path, "/api/v1/nodes")
}

// failsRequest reports whether an entry lets a request fail.
func (d *disturbed) failsRequest(e *plan.Entry, number int64) bool {
	p := e.Fault.APIErrors
	if e.Fault.Type != plan.APIErrors || !p.Concerns(d.client) {
		return false
	}
	var percent int32
	if p != nil {
		percent = p.Percent
	}
	return plan.Hits(percent, e.Seed, "request", d.api.node, e.UID, e.Index, string(d.client), number)
}

// discardBody closes the body of a request that is not sent, as a transport has to.
func discardBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

// refusalResponse is an API server's answer with an error.
func refusalResponse(request *http.Request, e *plan.Entry) *http.Response {
	code := plan.DefaultStatusCode
	if p := e.Fault.APIErrors; p != nil && p.StatusCode != 0 {
		code = int(p.StatusCode)
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reasons[code],
		Message:  "disrupted by " + e.Run,
	}
	body, _ := json.Marshal(status) // Nothing in it cannot be written.
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}
}

// reasons are those of the API server for the codes that have one.
var reasons = map[int]metav1.StatusReason{
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}
