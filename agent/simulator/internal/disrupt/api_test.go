package disrupt_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
)

const (
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
	statusPath = "/api/v1/nodes/n1/status"
	podsPath   = "/api/v1/pods"
)

// reached answers every request with 200.
type reached struct{}

func (reached) RoundTrip(*http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// send sends a request and returns the status code, 0 with an error.
func send(ctx context.Context, transport http.RoundTripper, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://server"+path, strings.NewReader("body"))
	if err != nil {
		return 0, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func stateOfAPI(faults ...plan.Fault) disrupt.State {
	var s disrupt.State
	for _, fault := range faults {
		s.API = append(s.API, entryOf(fault))
	}
	return s
}

func TestHeartbeatsFreezeApart(t *testing.T) {
	api := disrupt.NewAPI("n1", clocktesting.NewFakeClock(start))
	for name, test := range map[string]struct {
		state         disrupt.State
		lease, status bool
	}{
		"nothing": {disrupt.State{}, true, true},
		"lease":   {disrupt.State{FrozenLease: true}, false, true},
		"status":  {disrupt.State{FrozenStatus: true}, true, false},
		"both":    {disrupt.State{FrozenLease: true, FrozenStatus: true}, false, false},
		"again":   {disrupt.State{}, true, true},
	} {
		api.Set(test.state)
		for _, client := range plan.APIClients {
			for path, sent := range map[string]bool{leasePath: test.lease, statusPath: test.status, podsPath: true} {
				want := sent || client != plan.ClientHeartbeat
				if code, err := send(t.Context(), api.Client(client)(reached{}), path); (err == nil) != want {
					t.Errorf("%s: %s by %s: %d, %v", name, path, client, code, err)
				}
			}
		}
	}
}

func TestErrorsAreThoseOfAnAPIServer(t *testing.T) {
	api := disrupt.NewAPI("n1", clocktesting.NewFakeClock(start))
	config := &rest.Config{Host: "http://server", Transport: reached{}, QPS: -1}
	config.Wrap(api.Client(plan.ClientMain))
	client := kubernetes.NewForConfigOrDie(config)
	get := func() error {
		_, err := client.CoreV1().Pods("a").Get(t.Context(), "p", metav1.GetOptions{})
		return err
	}
	for code, is := range map[int32]func(error) bool{
		0: apierrors.IsServiceUnavailable, 401: apierrors.IsUnauthorized, 403: apierrors.IsForbidden, 500: apierrors.IsInternalError, 504: apierrors.IsTimeout,
	} {
		fault := plan.Fault{Type: plan.APIErrors}
		if code != 0 {
			fault.APIErrors = &plan.APIErrorsParameters{StatusCode: code}
		}
		api.Set(stateOfAPI(fault))
		if err := get(); !is(err) || !strings.Contains(err.Error(), "disrupted by outage") {
			t.Errorf("%d: got %v", code, err)
		}
	}
	api.Set(disrupt.State{})
	if err := get(); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestErrorsHitTheirPartOfTheClients(t *testing.T) {
	count := func(seed int64, client plan.APIClient) (codes []int, failed int) {
		api := disrupt.NewAPI("n1", clocktesting.NewFakeClock(start))
		s := stateOfAPI(plan.Fault{Type: plan.APIErrors, APIErrors: &plan.APIErrorsParameters{
			Percent: 30, StatusCode: 500, Clients: []plan.APIClient{plan.ClientMain, plan.ClientEvents},
		}})
		s.API[0].Seed = seed
		api.Set(s)
		transport := api.Client(client)(reached{})
		for range 1000 {
			code, err := send(t.Context(), transport, podsPath)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
			if code == http.StatusInternalServerError {
				failed++
			}
		}
		return codes, failed
	}
	first, failed := count(1, plan.ClientMain)
	if failed < 230 || failed > 370 {
		t.Errorf("%d of 1000 requests failed, want about 300", failed)
	}
	again, _ := count(1, plan.ClientMain)
	other, _ := count(2, plan.ClientMain)
	same := func(a, b []int) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	if !same(first, again) || same(first, other) {
		t.Error("the seed does not decide which requests fail")
	}
	if _, failed := count(1, plan.ClientHeartbeat); failed != 0 {
		t.Errorf("%d requests of a client failed that is not hit", failed)
	}
}

func TestRequestsAreSlow(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	api := disrupt.NewAPI("n1", clock)
	slow := func(clients ...plan.APIClient) disrupt.State {
		return stateOfAPI(plan.Fault{Type: plan.SlowAPI, SlowAPI: &plan.SlowAPIParameters{
			Latency: metav1.Duration{Duration: 2 * time.Second}, Jitter: metav1.Duration{Duration: time.Second}, Clients: clients,
		}})
	}
	begin := func(ctx context.Context, client plan.APIClient) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := send(ctx, api.Client(client)(reached{}), podsPath)
			done <- err
		}()
		return done
	}
	await := func(what string, done <-chan error, want error) {
		t.Helper()
		select {
		case err := <-done:
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the request hangs", what)
		}
	}
	step := func(done <-chan error, d time.Duration) {
		t.Helper()
		awaitWaiter(t, clock)
		select {
		case err := <-done:
			t.Fatalf("the request was sent at once: %v", err)
		default:
		}
		clock.Step(d)
	}

	api.Set(slow(plan.ClientMain))
	done := begin(t.Context(), plan.ClientMain)
	step(done, 1999*time.Millisecond)
	step(done, 1001*time.Millisecond)
	await("after its latency", done, nil)
	await("of another client", begin(t.Context(), plan.ClientHeartbeat), nil)

	done = begin(t.Context(), plan.ClientMain)
	step(done, time.Second)
	api.Set(disrupt.State{})
	await("at the end of the window", done, nil)

	api.Set(slow())
	ctx, cancel := context.WithCancel(t.Context())
	done = begin(ctx, plan.ClientEvents)
	step(done, time.Second)
	cancel()
	await("that was given up", done, context.Canceled)
}
