package agent_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// restTime is how long requests are counted.
const restTime = 30 * time.Second

// mostAtRest are the requests of an agent in restTime at most, watches included, one more each than their periods ask for: 3, 3 and 3
// every 10 s, 1 and 1 every 30 s, the others every minute or two, which is fewer than 30 a minute.
var mostAtRest = map[string]int{
	"hub GET /apis/hollowfleet.io/v1alpha1/clusters/rest":                                 4, // proves that the hub is there
	"hub PUT /apis/coordination.k8s.io/v1/namespaces/rest/leases/hollowfleet-agent":       4,
	"target GET /api/v1/namespaces/kube-system":                                           4, // proves that the target is there
	"target GET /apis/policy/v1/poddisruptionbudgets":                                     2,
	"target GET /api/v1/namespaces/" + hostNamespace + "/resourcequotas":                  2,
	"target GET /api/v1/namespaces/" + hostNamespace + "/pods":                            1, // looks for orphans
	"target PUT /api/v1/namespaces/" + hostNamespace + "/configmaps/hollowfleet-hub-rest": 1,
	"hub GET /apis/hollowfleet.io/v1alpha1/namespaces/rest/machines":                      1,
	"hub GET /apis/hollowfleet.io/v1alpha1/namespaces/rest/loadtestruns":                  1,
	"hub WATCH /apis/hollowfleet.io/v1alpha1/namespaces/rest/loadtestruns":                1,
	"hub GET /apis/hollowfleet.io/v1alpha1/namespaces/rest/nodedisruptionruns":            1,
	"hub WATCH /apis/hollowfleet.io/v1alpha1/namespaces/rest/nodedisruptionruns":          1,
	"hub GET /apis/hollowfleet.io/v1alpha1/namespaces/rest/machinelogrequests":            1,
	"hub WATCH /apis/hollowfleet.io/v1alpha1/namespaces/rest/machinelogrequests":          1,
}

// requestCounter is a proxy that counts the requests of an agent, watches included, by verb and resource.
type requestCounter struct {
	forward http.Handler

	mu     sync.Mutex
	counts map[string]int
}

func (c *requestCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := r.Method
	if r.URL.Query().Get("watch") == "true" {
		kind = "WATCH"
	}
	c.mu.Lock()
	c.counts[kind+" "+r.URL.Path]++
	c.mu.Unlock()
	c.forward.ServeHTTP(w, r)
}

// take returns the counts, and starts over.
func (c *requestCounter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = map[string]int{}
	return counts
}

// countedKubeconfig returns a kubeconfig whose requests are those of the user of path, and are counted.
func countedKubeconfig(t *testing.T, g *WithT, path string) (string, *requestCounter) {
	t.Helper()
	loaded, err := clientcmd.LoadFromFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.BuildConfigFromFlags("", path)
	g.Expect(err).NotTo(HaveOccurred())
	to, err := url.Parse(config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	counter := &requestCounter{counts: map[string]int{}, forward: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, FlushInterval: -1,
	}}
	server := httptest.NewUnstartedServer(counter)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	for _, cluster := range loaded.Clusters {
		cluster.Server, cluster.CertificateAuthority = server.URL, ""
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	counted := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(clientcmd.WriteToFile(*loaded, counted)).To(Succeed())
	return counted, counter
}

// Claim: An agent at rest makes fewer than 30 requests a minute. Broken: 5-s probes; disruptions listed every 5 s; checks or Machines read every 10 s. Also: agent/internal/disruption TestAtRestAChangeIsAwaited; agent/internal/checks TestWhatHasNothingToFollowIsReadLessOften.
func TestRequestsAtRest(t *testing.T) {
	t.Parallel()
	var hub, target *requestCounter
	f := start(t, "rest", func(o *agent.Options) {
		g := NewWithT(t)
		o.HubKubeconfig, hub = countedKubeconfig(t, g, o.HubKubeconfig)
		o.TargetKubeconfig, target = countedKubeconfig(t, g, o.TargetKubeconfig)
	})
	f.accept()
	f.expectThawed()
	machine := f.machine("rest-m1")
	f.registerNode(machine.Name)
	f.markPodReady(machine.Name)
	f.expectReady(machine)
	// What follows on a change has been done after the next heartbeat.
	heartbeat := func() int {
		return hub.take()["PUT /apis/coordination.k8s.io/v1/namespaces/rest/leases/hollowfleet-agent"]
	}
	f.Eventually(heartbeat).WithTimeout(agenttest.Wait).WithPolling(time.Second).Should(BeNumerically(">", 0))
	target.take()

	asked := map[string]int{}
	f.Consistently(func(g Gomega) {
		for scope, counter := range map[string]*requestCounter{"hub": hub, "target": target} {
			for request, count := range counter.take() {
				asked[scope+" "+request] += count
			}
		}
		for request, count := range asked {
			g.Expect(count).To(BeNumerically("<=", mostAtRest[request]), "%s\n%v", request, asked)
		}
	}).WithTimeout(restTime).WithPolling(time.Second).Should(Succeed())
	f.Expect(asked).To(And(HaveKey("hub GET /apis/hollowfleet.io/v1alpha1/clusters/rest"), HaveKey("target GET /api/v1/namespaces/kube-system")),
		"freezes go by what is read")
}

// registerNode makes the Node of a Machine, which is Ready.
func (f *env) registerNode(name string) {
	f.t.Helper()
	secret := &corev1.Secret{}
	f.Eventually(f.exists(secret, hostNamespace, name)).WithTimeout(agenttest.Wait).Should(Succeed())
	configuration, err := hollownode.Parse(secret.Data[hollownode.ConfigFileName])
	f.Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: configuration.NodeName, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	node.Spec.ProviderID = configuration.ProviderID
	f.Expect(f.admin.Create(context.Background(), node)).To(Succeed())
	f.t.Cleanup(func() { _ = f.admin.Delete(context.Background(), node) })
	f.markNodeReady(f.admin, name)
}
