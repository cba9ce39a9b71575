package freeze

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	clusterdriverfake "github.com/hollowfleet/hollowfleet/agent/clusterdriver/fake"
	"github.com/hollowfleet/hollowfleet/agent/driver"
	driverfake "github.com/hollowfleet/hollowfleet/agent/driver/fake"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// freezeSwitch is a Checker that is frozen while a test says so.
type freezeSwitch struct{ frozen atomic.Bool }

func (s *freezeSwitch) Check() error {
	if s.frozen.Load() {
		return &Error{Reason: v1alpha1.ReasonHubUnreachable}
	}
	return nil
}

func frozenGate() *Gate {
	frozen := &freezeSwitch{}
	frozen.frozen.Store(true)
	return NewGate(frozen, NewMetrics(prometheus.NewRegistry()))
}

// These are all the methods that change nothing. A method that is not among them, such as one that a new version
// of a library adds, counts as one that changes something, and must refuse while frozen.
var (
	readingClient = []string{"Get", "List", "Scheme", "RESTMapper", "GroupVersionKindFor", "IsObjectNamespaced", "Status", "SubResource"}
	readingDriver = []string{"Get", "List", "CheckUpdate"}
	readingSub    = []string{"Get"}

	readingClusterDriver = []string{"List"}
)

// expectRefusals calls every method of the interface T on value that is not in reading, and expects each to refuse.
func expectRefusals[T any](t *testing.T, value T, reading []string) {
	t.Helper()
	of := reflect.TypeFor[T]()
	refusing := 0
	for i := range of.NumMethod() {
		method := of.Method(i)
		if slices.Contains(reading, method.Name) {
			continue
		}
		refusing++
		t.Run(of.Name()+"."+method.Name, func(t *testing.T) {
			results := reflect.ValueOf(value).MethodByName(method.Name).Call(arguments(method.Type))
			err, _ := results[len(results)-1].Interface().(error)
			var frozen *Error
			if !errors.As(err, &frozen) {
				t.Errorf("a frozen agent could call %s.%s: it returned %v", of.Name(), method.Name, err)
			}
		})
	}
	if refusing == 0 {
		t.Errorf("%s has no method that changes anything: the test looks at the wrong thing", of.Name())
	}
}

// arguments makes arguments with which a method that goes through would do something or fail, but not panic early.
func arguments(method reflect.Type) []reflect.Value {
	var values []reflect.Value
	for i := range method.NumIn() {
		if method.IsVariadic() && i == method.NumIn()-1 {
			break
		}
		values = append(values, argument(method.In(i)))
	}
	return values
}

func argument(of reflect.Type) reflect.Value {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "p"
	for _, candidate := range []any{context.Background(), pod, corev1ac.Pod("p", "default"), client.RawPatch("application/merge-patch+json", []byte("{}")), &v1alpha1.Machine{}} {
		if reflect.TypeOf(candidate).AssignableTo(of) {
			return reflect.ValueOf(candidate)
		}
	}
	return reflect.Zero(of)
}

// clientOf returns a client of server whose requests pass gate.
func clientOf(t *testing.T, server string, gate func(http.RoundTripper) http.RoundTripper) client.Client {
	t.Helper()
	known := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(known))
	utilruntime.Must(v1alpha1.AddToScheme(known))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	config := &rest.Config{Host: server}
	config.Wrap(gate)
	made, err := client.New(config, client.Options{Scheme: known, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// untouchable is an API server that fails the test when anything is changed there.
func untouchable(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("a change went through the gate: %s %s", r.Method, r.URL.Path)
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestNothingChangesWhileFrozen(t *testing.T) {
	gate, server := frozenGate(), untouchable(t)
	for _, gated := range []client.Client{clientOf(t, server, gate.RoundTripper), clientOf(t, server, gate.HubRoundTripper)} {
		expectRefusals[client.Client](t, gated, readingClient)
		expectRefusals[client.SubResourceWriter](t, gated.Status(), nil)
		for _, name := range []string{"eviction", "token", "approval", "status"} {
			expectRefusals[client.SubResourceClient](t, gated.SubResource(name), readingSub)
		}
	}
	inner := driverfake.New("c1")
	expectRefusals[driver.Driver](t, gate.Driver(inner), readingDriver)
	if calls := inner.Calls(); len(calls) > 0 {
		t.Errorf("calls went through the gate: %v", calls)
	}
	clusters := clusterdriverfake.New(clock.RealClock{}, "v1.37")
	expectRefusals[clusterdriver.Driver](t, gate.ClusterDriver(clusters), readingClusterDriver)
	if calls := clusters.Calls(); len(calls) > 0 {
		t.Errorf("calls went through the gate: %v", calls)
	}
}

func TestADriverIsReadWhileFrozenAndUsedWhenThawed(t *testing.T) {
	inner := driverfake.New("c1")
	inner.Add("m1")
	if all, err := frozenGate().Driver(inner).List(context.Background()); err != nil || len(all) != 1 {
		t.Errorf("driver List: %v, %v", all, err)
	}
	gate := NewGate(&freezeSwitch{}, NewMetrics(prometheus.NewRegistry()))
	machine := &v1alpha1.Machine{}
	machine.Name = "m2"
	if _, err := gate.Driver(inner).Create(context.Background(), driver.Request{Machine: machine}); err != nil {
		t.Errorf("driver Create: %v", err)
	}
}

// client-go repeats a request by itself when an API server asks it to come again.
// Edge case: client-go repeated writes of a frozen agent. Also: TestAChangeIsNotRepeatedBelowTheGate, TestOnlyReportsGoToTheHubWhileFrozen; agent TestTheClientsOfCachesAreGated.
func TestARepetitionIsRefusedWhenTheAgentHasFrozenMeanwhile(t *testing.T) {
	for name, answer := range map[string]int{"too many requests": http.StatusTooManyRequests, "an API server that stops": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			checker := &freezeSwitch{}
			gate := NewGate(checker, NewMetrics(prometheus.NewRegistry()))
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if sent.Add(1) > 1 {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
					return
				}
				checker.frozen.Store(true)
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(answer)
			}))
			defer server.Close()
			pod := &corev1.Pod{}
			pod.Namespace, pod.Name = "default", "p"
			err := clientOf(t, server.URL, gate.RoundTripper).Delete(t.Context(), pod)
			var frozen *Error
			if !errors.As(err, &frozen) {
				t.Errorf("the deletion came to %v, want a freeze error", err)
			}
			if sent.Load() != 1 {
				t.Errorf("%d deletions were sent, want the one sent before the freeze", sent.Load())
			}
		})
	}
}

func TestOnlyReportsGoToTheHubWhileFrozen(t *testing.T) {
	const machines, events = "/apis/hollowfleet.io/v1alpha1/namespaces/c1/machines", "/apis/events.k8s.io/v1/namespaces/c1/events"
	tests := map[string]struct {
		method, path string
		want         bool
	}{
		"a read":                               {"GET", machines, true},
		"the status of a Machine":              {"PATCH", machines + "/m1/status", true},
		"the status, by update":                {"PUT", machines + "/m1/status", true},
		"an event":                             {"POST", events, true},
		"an event again":                       {"PATCH", events + "/e1", true},
		"the status, below a path":             {"PATCH", "/hub" + machines + "/m1/status", true},
		"a Machine":                            {"PATCH", machines + "/m1", false},
		"the status of a LoadTestRun":          {"PATCH", "/apis/hollowfleet.io/v1alpha1/namespaces/c1/loadtestruns/r/status", true},
		"the finalizer of a LoadTestRun":       {"PATCH", "/apis/hollowfleet.io/v1alpha1/namespaces/c1/loadtestruns/r", false},
		"a Machine called status":              {"PATCH", machines + "/status", false},
		"a deletion of a Machine":              {"DELETE", machines + "/m1", false},
		"a deletion of a Machine's status":     {"DELETE", machines + "/m1/status", false},
		"a deletion of an event":               {"DELETE", events + "/e1", false},
		"the status of a SimulatedCluster":     {"PATCH", "/apis/hollowfleet.io/v1alpha1/namespaces/c1/simulatedclusters/s/status", true},
		"the status of a request for a log":    {"PATCH", "/apis/hollowfleet.io/v1alpha1/namespaces/c1/machinelogrequests/r/status", true},
		"the finalizer of a SimulatedCluster":  {"PATCH", "/apis/hollowfleet.io/v1alpha1/namespaces/c1/simulatedclusters/s", false},
		"the status of a MachineSet":           {"PATCH", "/apis/hollowfleet.io/v1alpha1/namespaces/c1/machinesets/s/status", false},
		"the status of a Cluster":              {"PATCH", "/apis/hollowfleet.io/v1alpha1/clusters/c1/status", false},
		"a Secret":                             {"POST", "/api/v1/namespaces/c1/secrets", false},
		"a ConfigMap with an event's name":     {"PATCH", "/api/v1/namespaces/events.k8s.io/configmaps/events", false},
		"something below the Machine's status": {"POST", machines + "/m1/status/more", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inner := &served{}
			request := httptest.NewRequest(test.method, "http://hub"+test.path, nil)
			response, err := frozenGate().HubRoundTripper(inner).RoundTrip(request)
			if err == nil {
				_ = response.Body.Close()
			}
			if sent := len(inner.methods) == 1; sent != test.want {
				t.Errorf("%s %s: sent %t, want %t (%v)", test.method, test.path, sent, test.want, err)
			}
		})
	}
}

// net/http repeats a request whose body it can get again, such as one that an API server that is being stopped did not take.
func TestAChangeIsNotRepeatedBelowTheGate(t *testing.T) {
	gate := NewGate(&freezeSwitch{}, NewMetrics(prometheus.NewRegistry()))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://localhost/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	inner := &served{}
	response, err := gate.RoundTripper(inner).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if inner.repeatable {
		t.Error("the transport below the gate can get the body again")
	}
	if request.GetBody == nil {
		t.Error("the caller's request was changed")
	}
}

// served is a RoundTripper that answers everything and counts.
type served struct {
	methods []string
	// repeatable reports whether the body of the last request can be got again.
	repeatable bool
}

func (s *served) RoundTrip(request *http.Request) (*http.Response, error) {
	s.methods = append(s.methods, request.Method)
	s.repeatable = request.GetBody != nil
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// Only what the API server itself takes for a dry run of an eviction passes.
func TestADryRunOfAnEvictionPassesWhileFrozen(t *testing.T) {
	for target, want := range map[string]int{
		"POST /api/v1/namespaces/a/pods/b/eviction?dryRun=All":         1,
		"POST /api/v1/namespaces/a/pods/b/eviction":                    0,
		"POST /api/v1/namespaces/a/pods/b/eviction?dryRun=":            0,
		"POST /api/v1/namespaces/a/pods/b/eviction?dryRun=All&dryRun=": 0,
		"DELETE /api/v1/namespaces/a/pods/b?dryRun=All":                0,
		"POST /api/v1/namespaces/a/pods?dryRun=All":                    0,
	} {
		inner := &served{}
		method, path, _ := strings.Cut(target, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: frozenGate().RoundTripper(inner)}).Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if len(inner.methods) != want {
			t.Errorf("%s: sent %d times, want %d", target, len(inner.methods), want)
		}
	}
}

func TestRoundTripperOnlyReadsWhileFrozen(t *testing.T) {
	inner := &served{}
	client := &http.Client{Transport: frozenGate().RoundTripper(inner)}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "ANYTHING"} {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			continue
		}
		var frozen *Error
		if !errors.As(err, &frozen) {
			t.Errorf("%s: %v is no freeze error", method, err)
		}
	}
	if want := []string{"GET", "HEAD", "OPTIONS"}; !slices.Equal(inner.methods, want) {
		t.Errorf("a frozen agent sent %v, want %v", inner.methods, want)
	}
}
