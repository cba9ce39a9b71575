package hollow

import (
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// changes are the Machines that the agent was asked to look at.
type changes struct {
	mu    sync.Mutex
	names []string
}

func (c *changes) note(machine string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, machine)
}

// take returns what has come since the last call.
func (c *changes) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}

// A pod that is lost must not be found by chance, or when its Node turns NotReady.
// Claim: Pods are watched. Broken: the driver watches no pods.
func TestPodsAreWatched(t *testing.T) {
	g := NewWithT(t)
	environment := agenttest.Environment(t)
	namespace := agenttest.Namespace(t, environment.Client)
	informers, err := cache.New(environment.Config, cache.Options{
		Scheme: scheme.New(), DefaultNamespaces: map[string]cache.Config{namespace: {}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = informers.Start(t.Context()) }()
	seen := &changes{}
	d, err := New(t.Context(), Options{Image: "hollowfleet/hollow-node", ServerURL: "https://192.0.2.1", ServerCA: []byte("CA")}, driver.Environment{
		ClusterName: "c1", Log: logr.Discard(), Changed: seen.note,
		Host: driver.Access{Client: environment.Client, Reader: environment.Client, Informers: informers, Namespace: namespace},
	})
	g.Expect(err).NotTo(HaveOccurred())
	want, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf(`{` + head + `}`)})
	g.Expect(err).NotTo(HaveOccurred())
	pod := renderPod("c1", namespace, "watched", d.options.Image, want)
	tell := func(what string) {
		t.Helper()
		g.Eventually(seen.take).WithTimeout(agenttest.Wait).Should(ContainElement("watched"), what)
	}
	g.Expect(environment.Client.Create(t.Context(), pod)).To(Succeed())
	tell("it was made")
	pod.Status.Phase = corev1.PodFailed
	g.Expect(environment.Client.Status().Update(t.Context(), pod)).To(Succeed())
	tell("it has failed")
	pod.Labels["other"] = "x"
	g.Expect(environment.Client.Update(t.Context(), pod)).To(Succeed())
	g.Consistently(seen.take).WithTimeout(time.Second).Should(BeEmpty(), "what says nothing new of the instance is no news")
	g.Expect(environment.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	tell("it was deleted")
}
