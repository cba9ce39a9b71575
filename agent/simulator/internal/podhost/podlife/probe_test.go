package podlife

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestThresholds(t *testing.T) {
	for name, test := range map[string]struct {
		success, failure int32
		results          string // p passes, f fails
		want             string // what counts after each result, - for nothing
	}{
		"first result counts":           {1, 1, "p", "p"},
		"first failure counts":          {1, 1, "f", "f"},
		"each counts":                   {1, 1, "pppff", "pppff"},
		"three failures needed":         {1, 3, "pffpffff", "p--p--ff"},
		"failures before any pass":      {1, 3, "fff", "--f"},
		"two successes to become ready": {2, 1, "pfpppf", "-f-ppf"},
		"defaults":                      {0, 0, "pf", "pf"},
	} {
		var c streak
		var got strings.Builder
		for _, result := range test.results {
			if c.reaches(result == 'p', &corev1.Probe{SuccessThreshold: test.success, FailureThreshold: test.failure}) {
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

func TestAsk(t *testing.T) {
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
	for name, test := range map[string]struct {
		path   string
		port   int
		passes bool
	}{
		"it answers":       {"/ok", port, true},
		"an error":         {"/", port, false},
		"nobody listens":   {"/ok", closedPort, false},
		"no port":          {"/ok", 0, false},
		"not a valid port": {"/ok", 1 << 20, false},
	} {
		get := &corev1.HTTPGetAction{Path: test.path, Port: intstr.FromInt(test.port), Scheme: "HTTP"}
		if err := ask(&corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}}, address.Hostname()); (err == nil) != test.passes {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
