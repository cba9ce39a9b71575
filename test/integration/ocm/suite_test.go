// Package ocm runs a real hub on a real API server while the kinds of Open Cluster Management and of the cluster
// inventory come and go there.
package ocm

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	clusterprofilev1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var (
	environment *testenv.Environment
	// api is an administrator's client that knows all kinds.
	api client.Client
	// seen is what the hub logged and asked for.
	seen = &record{}
)

// hubUser is the hub's service account.
const hubUser = "system:serviceaccount:hollowfleet-system:hollowfleet-hub"

func TestOCM(t *testing.T) {
	fleettest.Run(t, "Open Cluster Management")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	logger := funcr.New(func(prefix, args string) { seen.log(prefix + " " + args) }, funcr.Options{})
	log.SetLogger(logger)
	klog.SetLogger(logger)
	var err error
	environment, err = testenv.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
	known := scheme.New()
	Expect(clusterv1.Install(known)).To(Succeed())
	Expect(clusterv1beta1.Install(known)).To(Succeed())
	Expect(clusterv1beta2.Install(known)).To(Succeed())
	Expect(clusterprofilev1alpha1.AddToScheme(known)).To(Succeed())
	api, err = client.New(environment.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.Install(ctx, environment.Config)).To(Succeed())
	runHub(logger)
}, NodeTimeout(testenv.StartTimeout+fleettest.Patience))

// runHub runs a hub with the rights of its service account and no others, until the suite ends.
func runHub(logger logr.Logger) {
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: hubUser}
	config.Wrap(seen.wrap)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- hub.Run(ctx, hub.Options{Config: config, Logger: logger})
	}()
	DeferCleanup(func() {
		cancel()
		Eventually(done).Should(Receive(BeNil()))
	})
}

// record keeps what the hub logged, and its requests for the kinds of others.
type record struct {
	mu       sync.Mutex
	lines    []string
	requests []string
	refused  []string
}

func (r *record) log(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	GinkgoWriter.Println(line)
	r.lines = append(r.lines, line)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (r *record) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		what := request.Method + " " + request.URL.Path
		lacksRight := err == nil && response.StatusCode == http.StatusForbidden && !refusesEverybody(response)
		r.mu.Lock()
		defer r.mu.Unlock()
		if strings.Contains(request.URL.Path, "/managedclusters") || strings.Contains(request.URL.Path, "/clusterprofiles") {
			r.requests = append(r.requests, time.Now().Format(time.StampMilli)+" "+what)
		}
		if lacksRight {
			r.refused = append(r.refused, what)
		}
		return response, err
	})
}

// refusesEverybody reports whether the API server takes no such object from any client, because its kind is being removed.
func refusesEverybody(response *http.Response) bool {
	content, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(content))
	return err == nil && bytes.Contains(content, []byte("custom resource definition is terminating"))
}

// foreignRequests are the requests so far for the kinds of others.
func (r *record) foreignRequests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.requests...)
}

// complaints are the errors that were logged, and the requests that the API server forbade. That requests, the election and runnables
// are cut short when the hub starts again for other kinds is for the libraries to say.
func (r *record) complaints() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := append([]string{}, r.refused...)
	for _, line := range r.lines {
		if strings.Contains(line, "context canceled\"") || strings.Contains(line, "error received after stop sequence was engaged") {
			continue
		}
		if strings.Contains(line, `"error"=`) || strings.Contains(line, "Failed") || strings.Contains(line, "failed") {
			found = append(found, line)
		}
	}
	return found
}

// takeRefused are the requests that the API server forbade, which are no complaints from now on.
func (r *record) takeRefused() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.refused
	r.refused = nil
	return taken
}

// logged is the number of lines that the hub has logged.
func (r *record) logged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lines)
}
