package hub_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/serving"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// install installs what a hub needs once for all tests: doing so again changes nothing, and costs the API server a second of a processor.
var install = sync.OnceValue(func() error { return hub.Install(context.Background(), testenv.Server().Config) })

// env is a hub in this process, with the rights of its service account and no others.
type env struct {
	*testenv.Env
	refused testenv.Writes
	health  string
	metrics string
	pprof   string
	scheme  string
	stop    func() error
}

func (r *env) RoundTrip(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	what := request.Method + " " + request.URL.Path
	if err == nil && response.StatusCode == http.StatusForbidden {
		r.refused.Add(what)
	}
	if request.Method != http.MethodGet && !strings.HasSuffix(request.URL.Path, "/leases/hollowfleet-hub") {
		r.Writes.Add(request.Method + " " + resourceOf(request.URL.Path))
	}
	return response, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// object matches a path of the API server: an optional namespace, a resource, an optional name and subresource.
var object = regexp.MustCompile(`^/(?:api|apis/[^/]+)/v[^/]+(?:/namespaces/[^/]+)?/([^/]+)(?:/[^/]+(/[^/]+)?)?$`)

// resourceOf turns a path into "machines" or "machinesets/status".
func resourceOf(path string) string {
	if parts := object.FindStringSubmatch(path); parts != nil {
		return parts[1] + parts[2]
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := testenv.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func start(t *testing.T, change ...func(*hub.Options)) *env {
	t.Helper()
	r := &env{Env: testenv.NewEnv(t), health: freeAddress(t), metrics: freeAddress(t), pprof: freeAddress(t)}
	r.Expect(install()).To(Succeed())
	config := rest.CopyConfig(testenv.Server().Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:hollowfleet-system:hollowfleet-hub"}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return r.RoundTrip(request, next) })
	})
	logger, err := telemetry.NewLogger(os.Stderr, telemetry.LogText, 0)
	r.Expect(err).NotTo(HaveOccurred())
	// Not of t.Context, which ends before the clean-up does.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	options := hub.Options{Config: config, Logger: logger,
		ServeOptions: telemetry.ServeOptions{HealthAddress: r.health, MetricsAddress: r.metrics, PprofAddress: r.pprof}}
	for _, edit := range change {
		edit(&options)
	}
	if r.scheme = "http"; options.Serving != (serving.Options{}) {
		r.scheme = "https"
	}
	go func() { done <- hub.Run(ctx, options) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(hub.DefaultShutdownTimeout + time.Minute):
			return fmt.Errorf("the hub did not stop")
		}
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	r.Eventually(func() int { return r.get(r.health, "/readyz") }).WithTimeout(time.Minute).Should(Equal(http.StatusOK))
	return r
}

func (r *env) get(address, path string) int {
	response, err := trusting.Get(r.scheme + "://" + address + path)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// trusting is a client as a kubelet that probes: it takes every certificate.
var trusting = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}}

// measured is what the hub tells Prometheus.
func (r *env) measured() string {
	r.T.Helper()
	response, err := http.Get("http://" + r.metrics + "/metrics")
	r.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	r.Expect(err).NotTo(HaveOccurred())
	return string(body)
}

func (r *env) deployment(replicas int32) *v1alpha1.MachineDeployment {
	r.T.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	r.ExpectApplied(cluster)
	r.Eventually(func() string {
		r.ExpectExists(cluster)
		return cluster.Status.Namespace
	}).WithTimeout(2 * time.Minute).Should(Equal(cluster.Name))
	labels := map[string]string{"app": "x"}
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: "pool"},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: cluster.Name, Replicas: &replicas,
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	}
	r.ExpectApplied(deployment)
	return deployment
}

// become waits until deployment has count available Machines; meanwhile the test does the agent's work.
func (r *env) become(deployment *v1alpha1.MachineDeployment, count int32) {
	r.T.Helper()
	r.Eventually(func(g Gomega) {
		r.FinishDeletions(deployment.Namespace)
		for _, machine := range r.Machines(deployment.Namespace) {
			if !meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
				r.MarkReady(&machine, true, time.Now().Add(-time.Second))
			}
		}
		g.Expect(r.Client.Get(r.T.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		g.Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
		g.Expect(deployment.Status.AvailableReplicas).To(Equal(count))
		g.Expect(deployment.Status.Replicas).To(Equal(count))
		g.Expect(deployment.Status.UpdatedReplicas).To(Equal(count))
	}).WithTimeout(3 * time.Minute).WithPolling(500 * time.Millisecond).Should(Succeed())
}

func (r *env) update(deployment *v1alpha1.MachineDeployment, change func()) {
	r.T.Helper()
	r.Eventually(func() error {
		r.ExpectExists(deployment)
		change()
		return r.Client.Update(r.T.Context(), deployment)
	}).Should(Succeed())
}

// order freezes the cluster of deployment by hand, or ends that.
func (r *env) order(deployment *v1alpha1.MachineDeployment, annotations map[string]string) {
	r.T.Helper()
	cluster := &v1alpha1.Cluster{}
	r.Expect(r.Client.Get(r.T.Context(), client.ObjectKey{Name: deployment.Namespace}, cluster)).To(Succeed())
	before := cluster.DeepCopy()
	cluster.Annotations = annotations
	r.Expect(r.Client.Patch(r.T.Context(), cluster, client.MergeFrom(before))).To(Succeed())
}

// intrude makes Machines of set that the hub has not made.
func (r *env) intrude(set *v1alpha1.MachineSet, count int) {
	r.T.Helper()
	for range count {
		r.ExpectApplied(&v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: set.Namespace, GenerateName: "intruder-", Labels: set.Spec.Template.Metadata.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
			},
			Spec: v1alpha1.MachineSpec{ClusterName: set.Spec.ClusterName, MachineTemplateBody: set.Spec.Template.Spec},
		})
	}
}
