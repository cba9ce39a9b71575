package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestThresholds(t *testing.T) {
	for name, test := range map[string]struct {
		success, failure int32
		results          string // p passes, f fails
		want             string // what is reported after each result, - for nothing
	}{
		"first result counts":           {1, 1, "p", "p"},
		"first failure counts":          {1, 1, "f", "f"},
		"reported once":                 {1, 1, "pppff", "p--f-"},
		"three failures needed":         {1, 3, "pffpffff", "p-----f-"},
		"failures before any pass":      {1, 3, "fff", "--f"},
		"two successes to become ready": {2, 1, "pfpppf", "-f-p-f"},
		"defaults":                      {0, 0, "pf", "pf"},
	} {
		c := newCounter(&corev1.Probe{SuccessThreshold: test.success, FailureThreshold: test.failure})
		var got strings.Builder
		for _, result := range test.results {
			if c.count(result == 'p') {
				got.WriteRune(result)
			} else {
				got.WriteByte('-')
			}
		}
		if got.String() != test.want {
			t.Errorf("%s: %s led to %s, want %s", name, test.results, got.String(), test.want)
		}
	}
}

func TestHandlers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ok" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(address.Port())
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := closed.Addr().(*net.TCPAddr).Port
	closed.Close()

	target := Target{
		IP:        address.Hostname(),
		Container: &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}},
		Exec: func(_ context.Context, command []string, _ time.Duration) (string, error) {
			if command[0] != "true" {
				return "", errors.New("no")
			}
			return "", nil
		},
	}
	web := intstr.FromString("web")
	for name, test := range map[string]struct {
		handler corev1.ProbeHandler
		passes  bool
	}{
		"http":             {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: web, Scheme: "HTTP"}}, true},
		"http by number":   {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: intstr.FromInt(port), Scheme: "HTTP"}}, true},
		"http, an error":   {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: web, Scheme: "HTTP"}}, false},
		"http, no such":    {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: intstr.FromString("none")}}, false},
		"tcp":              {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: web}}, true},
		"tcp, closed port": {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(closedPort)}}, false},
		"exec":             {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, true},
		"exec, an error":   {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}, false},
		"grpc, not spoken": {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(port)}}, false},
		"none":             {corev1.ProbeHandler{}, false},
	} {
		if _, err := once(t.Context(), &corev1.Probe{ProbeHandler: test.handler, TimeoutSeconds: 1}, target); (err == nil) != test.passes {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestRunReportsAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan bool)
	failures := make(chan string, 100)
	passing := make(chan bool, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Run(ctx, &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}, Target{
			Exec: func(context.Context, []string, time.Duration) (string, error) {
				if <-passing {
					return "", nil
				}
				return "", errors.New("broken")
			},
		}, Observer{Changed: func(passes bool, _ string) { results <- passes }, Failed: func(message string) { failures <- message }})
	}()
	for _, want := range []bool{true, false, true} {
		passing <- want
		if got := <-results; got != want {
			t.Fatalf("it reported %v, want %v", got, want)
		}
	}
	if message := <-failures; message != "broken" {
		t.Errorf("the failure is %q", message)
	}
	cancel()
	close(passing)
	<-ended
}
