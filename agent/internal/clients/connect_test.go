package clients

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

func direct(t *testing.T) (*Direct, *rest.Config) {
	t.Helper()
	config, err := LoadConfig(agenttest.Environment(t).Cluster.AdminKubeconfig(), "test")
	if err != nil {
		t.Fatal(err)
	}
	made, err := NewDirect(config)
	if err != nil {
		t.Fatal(err)
	}
	return made, config
}

func TestHubProbe(t *testing.T) {
	g := NewWithT(t)
	hub, _ := direct(t)
	probe := NewHubProbe(hub, "probe-hub")
	g.Expect(freeze.Classify(probe.Probe(t.Context()))).To(Equal(freeze.NotFound), "a hub without the agent's Cluster is no healthy one")
	g.Expect(probe.Cluster()).To(BeNil())
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "probe-hub"}}
	g.Expect(hub.inner.Create(t.Context(), cluster)).To(Succeed())
	t.Cleanup(func() { g.Expect(hub.inner.Delete(context.Background(), cluster)).To(Succeed()) })
	g.Expect(probe.Probe(t.Context())).To(Succeed())
	g.Expect(probe.Cluster().UID).To(Equal(cluster.UID))
}

func TestTargetProbe(t *testing.T) {
	g := NewWithT(t)
	target, config := direct(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	probe, err := NewTargetProbe(target, config, clock)
	g.Expect(err).NotTo(HaveOccurred())
	uid, version := probe.Identity()
	g.Expect(uid + version).To(BeEmpty())
	g.Expect(probe.Probe(t.Context())).To(Succeed())
	uid, version = probe.Identity()
	namespace := &corev1.Namespace{}
	g.Expect(target.Reader.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, namespace)).To(Succeed())
	g.Expect(uid).To(Equal(string(namespace.UID)))
	g.Expect(version).To(HavePrefix("v1."))

	// A version that is known is not asked for at every probe, and after a while it is: the cluster may be upgraded.
	probe.version = "old"
	g.Expect(probe.Probe(t.Context())).To(Succeed())
	_, version = probe.Identity()
	g.Expect(version).To(Equal("old"))
	clock.SetTime(clock.Now().Add(versionAge))
	g.Expect(probe.Probe(t.Context())).To(Succeed())
	_, version = probe.Identity()
	g.Expect(version).To(HavePrefix("v1."))
}

func TestHostProbe(t *testing.T) {
	g := NewWithT(t)
	host, config := direct(t)
	g.Expect(HostProbe(host, "default")(t.Context())).To(Succeed())
	stranger, err := NewDirect(rest.AnonymousClientConfig(config))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(freeze.Classify(HostProbe(stranger, "default")(t.Context()))).To(BeElementOf(freeze.Forbidden, freeze.Unauthorized))
}

// Claim: The version of a Cluster is the one that its API server emulates, also after an upgrade. Broken: gitVersion alone; it is believed for ten minutes after an outage.
func TestTheTargetsVersionIsTheEmulatedOne(t *testing.T) {
	g := NewWithT(t)
	var said atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case said.Load() == "":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/version":
			_, _ = fmt.Fprint(w, said.Load())
		default:
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"x"}}`))
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	made, err := NewDirect(config)
	g.Expect(err).NotTo(HaveOccurred())
	target, err := NewTargetProbe(made, config, clocktesting.NewFakePassiveClock(time.Now()))
	g.Expect(err).NotTo(HaveOccurred())
	for _, step := range []struct{ says, version string }{
		{`{"major":"1","minor":"37","gitVersion":"v1.37.1","emulationMajor":"1","emulationMinor":"36"}`, "v1.36.0"},
		{"", "v1.36.0"},
		{`{"major":"1","minor":"37+","gitVersion":"v1.37.1-x","emulationMajor":"1","emulationMinor":"37"}`, "v1.37.1-x"},
		{"", "v1.37.1-x"},
		{`{"major":"1","minor":"30","gitVersion":"v1.30.2"}`, "v1.30.2"},
	} {
		said.Store(step.says)
		g.Expect(target.Probe(t.Context()) == nil).To(Equal(step.says != ""))
		_, version := target.Identity()
		g.Expect(version).To(Equal(step.version))
	}
}

// The address of a cluster may come to lead to another one, as a load balancer or a DNS name does that is exchanged.
// Edge case: Another cluster at the address went unnoticed.
func TestProbesFailForAnotherCluster(t *testing.T) {
	var uid atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.37.1"}`))
		case "/api/v1/namespaces/kube-system":
			if uid.Load() == "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q}}`, uid.Load())
		default:
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	made, err := NewDirect(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	target, err := NewTargetProbe(made, config, clocktesting.NewFakePassiveClock(time.Now()))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for of, probe := range map[string]freeze.Probe{"target": target.Probe, "host": HostProbe(made, "default")} {
		t.Run(of, func(t *testing.T) {
			g := NewWithT(t)
			if of == "host" {
				uid.Store("")
				g.Expect(probe(t.Context())).To(Succeed(), "an agent without the right to know the host's identity")
			}
			uid.Store("one")
			g.Expect(probe(t.Context())).To(Succeed())
			uid.Store("two")
			g.Expect(probe(t.Context())).To(MatchError(And(ContainSubstring("the "+of+" is another cluster"), ContainSubstring("is two and was one"))))
			g.Expect(probe(t.Context())).NotTo(Succeed(), "it stays so")
			uid.Store("one")
			g.Expect(probe(t.Context())).To(Succeed(), "it is back")
		})
	}
}

func TestCertificateAuthority(t *testing.T) {
	g := NewWithT(t)
	_, config := direct(t)
	ca, err := CertificateAuthority(config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.HasPrefix(string(ca), "-----BEGIN CERTIFICATE-----")).To(BeTrue())
}

func TestMapperKnowsEveryKindThatIsCached(t *testing.T) {
	g := NewWithT(t)
	scheme, err := Scheme()
	g.Expect(err).NotTo(HaveOccurred())
	made, err := client.New(&rest.Config{Host: "https://192.0.2.1"}, client.Options{Scheme: scheme, Mapper: Mapper()})
	g.Expect(err).NotTo(HaveOccurred())
	for object, namespaced := range map[client.ObjectList]bool{
		&corev1.NodeList{}: false, &corev1.PodList{}: true, &corev1.SecretList{}: true,
		&v1alpha1.MachineList{}: true, &v1alpha1.MachineClassList{}: true, &v1alpha1.ClusterList{}: false,
	} {
		got, err := made.IsObjectNamespaced(object)
		g.Expect(err).NotTo(HaveOccurred(), "%T", object)
		g.Expect(got).To(Equal(namespaced), "%T", object)
	}
}
