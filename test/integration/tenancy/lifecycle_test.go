package tenancy

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	specTimeout = 4 * fleettest.Patience
	// cutTimeout is the most that the end of a cluster's access may take: seconds, on a machine that is busy.
	cutTimeout = 30 * time.Second
	// still is how long something must not happen.
	still = 2 * time.Second
)

// joined makes a cluster of that name whose agent has joined and has a Machine.
func joined(ctx context.Context, name string) (agent, token *rest.Config) {
	GinkgoHelper()
	hub.create(ctx, cluster(name, v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}))
	token = hub.invite(ctx, name, time.Hour)
	hub.agents[name] = hub.join(ctx, token, name)
	hub.expectWork(ctx, name)
	hub.create(ctx, machine(name, machineName))
	return hub.agents[name], token
}

// expectUntouched asks that what the cluster has on the hub is still there.
func expectUntouched(ctx context.Context, name string) {
	GinkgoHelper()
	namespace := &corev1.Namespace{}
	Expect(hub.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
	Expect(namespace.DeletionTimestamp).To(BeNil())
	kept := machine(name, machineName)
	Expect(hub.Client.Get(ctx, client.ObjectKeyFromObject(kept), kept)).To(Succeed())
	Expect(kept.DeletionTimestamp).To(BeNil())
}

func expectUndecided(ctx context.Context, with *rest.Config, name string) {
	GinkgoHelper()
	c := clientFor(with)
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		csr := signingRequest(name, []byte{})
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(csr), csr)).To(Succeed())
		g.Expect(csr.Status.Conditions).To(BeEmpty())
	}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "the request of %s is neither approved nor denied", name)
}

// story returns the reasons of the events about a Cluster.
func story(ctx context.Context, g Gomega, name string) []string {
	told := &eventsv1.EventList{}
	g.Expect(hub.Client.List(ctx, told)).To(Succeed())
	var reasons []string
	for _, one := range told.Items {
		if one.Regarding.Kind == "Cluster" && one.Regarding.Name == name {
			reasons = append(reasons, one.Reason)
		}
	}
	return reasons
}

var _ = Describe("Joining", func() {
	It("should wait for acceptance, and tell the story in events", func(ctx SpecContext) {
		hub.create(ctx, cluster("manual", v1alpha1.ClusterSpec{}))
		token := hub.invite(ctx, "manual", time.Hour)
		made := ask(ctx, token, "manual")
		expectUndecided(ctx, token, "manual")
		hub.decide(ctx, "manual", v1alpha1.AcceptanceAccepted)
		hub.agents["manual"] = hub.receive(ctx, token, "manual", made)
		hub.expectWork(ctx, "manual")
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(story(ctx, g, "manual")).To(ContainElements("JoinRequested", "NamespaceCreated", v1alpha1.ReasonAccepted, "CertificateApproved"))
		}).Should(Succeed(), "the events of the Cluster tell what happened")
	}, NodeTimeout(specTimeout))

	It("should go through at once with policy Auto", func(ctx SpecContext) {
		hub.create(ctx, cluster("auto", v1alpha1.ClusterSpec{AcceptancePolicy: v1alpha1.AcceptanceAuto}))
		token := hub.invite(ctx, "auto", time.Hour)
		hub.agents["auto"] = hub.join(ctx, token, "auto")
		hub.expectWork(ctx, "auto")
		hub.expectReason(ctx, "auto", v1alpha1.ReasonAccepted)
	}, NodeTimeout(specTimeout))

	It("should outlast a hub that ends in the middle of it", func(ctx SpecContext) {
		hub.create(ctx, cluster("handshake", v1alpha1.ClusterSpec{}))
		token := hub.invite(ctx, "handshake", time.Hour)
		made := ask(ctx, token, "handshake")
		hub.stopProcess()
		hub.decide(ctx, "handshake", v1alpha1.AcceptanceAccepted)
		expectUndecided(ctx, token, "handshake")
		hub.startProcess(ctx)
		hub.agents["handshake"] = hub.receive(ctx, token, "handshake", made)
		hub.expectWork(ctx, "handshake")
	}, NodeTimeout(specTimeout))

	It("should not take over a namespace that the hub did not make", func(ctx SpecContext) {
		hub.create(ctx, &corev1.Namespace{ObjectMeta: named("foreign")})
		hub.create(ctx, &corev1.ConfigMap{ObjectMeta: in("foreign", "theirs")})
		hub.create(ctx, cluster("foreign", v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}))
		token := hub.invite(ctx, "foreign", time.Hour)
		agent := hub.join(ctx, token, "foreign")
		hub.expectReason(ctx, "foreign", v1alpha1.ReasonNamespaceConflict)
		Expect(clientFor(agent).List(ctx, &v1alpha1.MachineList{}, client.InNamespace("foreign"))).To(refusedBy(rbac))
		namespace := &corev1.Namespace{}
		Expect(hub.Client.Get(ctx, client.ObjectKey{Name: "foreign"}, namespace)).To(Succeed())
		Expect(namespace.Labels).NotTo(HaveKey(v1alpha1.ManagedByLabel))
	}, NodeTimeout(specTimeout))

	It("should lose what a stolen credential watches, when a person ends that with the denial", func(ctx SpecContext) {
		agent, _ := joined(ctx, "stolen")
		thief := clientFor(agent)
		var watches []*watching
		for kind, of := range map[client.ObjectList]client.ListOption{
			&v1alpha1.MachineList{}:      client.InNamespace("stolen"),
			&v1alpha1.MachineClassList{}: client.InNamespace("stolen"),
			&v1alpha1.ClusterList{}:      client.MatchingFields{"metadata.name": "stolen"},
		} {
			// Raw takes in the selectors of the watch that it is used for, so each has its own.
			aYear := &client.ListOptions{Raw: &metav1.ListOptions{TimeoutSeconds: new(int64(365 * 24 * 3600))}}
			opened, err := thief.Watch(ctx, kind, aYear, of)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(opened.Stop)
			watches = append(watches, &watching{Interface: opened})
		}
		hub.decide(ctx, "stolen", v1alpha1.AcceptanceDenied)
		expectNoAccess(ctx, agent, "stolen")
		hub.create(ctx, machine("stolen", "seen-by-the-thief"))
		Eventually(ctx, func() (all []string) {
			for _, one := range watches {
				all = append(all, one.look()...)
			}
			return all
		}).Should(ContainElement("seen-by-the-thief"), "an API server asks no watch again for its rights")

		program, err := testenv.Binary("kubectl-hollow")
		Expect(err).NotTo(HaveOccurred())
		output, err := exec.CommandContext(ctx, program, "cluster", "deny", "stolen", "--end-watches", "--kubeconfig", hub.Cluster.AdminKubeconfig()).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
		for _, one := range watches {
			Eventually(ctx, func() bool { one.look(); return one.ended }).Should(BeTrue())
		}
		expectNoAccess(ctx, agent, "stolen")
		expectUntouched(ctx, "stolen")
		hub.expectWork(ctx, clusterA)
	}, NodeTimeout(specTimeout))

	It("should be refused with a token that has expired", func(ctx SpecContext) {
		hub.create(ctx, cluster("late", v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}))
		token := hub.invite(ctx, "late", -time.Minute)
		Consistently(ctx, func(ctx context.Context) bool {
			return apierrors.IsUnauthorized(clientWith(token).Create(ctx, signingRequest("late", nil)))
		}).WithTimeout(still).WithPolling(fleettest.Glance).Should(BeTrue(), "it has expired before it was used")
		passing := hub.invite(ctx, "late", 10*time.Second)
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsUnauthorized(clientWith(passing).Get(ctx, client.ObjectKey{Name: "late"}, &v1alpha1.Cluster{}))
		}).Should(BeTrue(), "it expires")
	}, NodeTimeout(specTimeout))

	It("should be refused with a token whose secret is another", func(ctx SpecContext) {
		token := rest.CopyConfig(hub.tokens[clusterA])
		token.BearerToken = strings.Split(token.BearerToken, ".")[0] + "." + strings.Repeat("x", 16)
		Expect(apierrors.IsUnauthorized(clientWith(token).Get(ctx, client.ObjectKey{Name: clusterA}, &v1alpha1.Cluster{}))).To(BeTrue())
	}, NodeTimeout(specTimeout))
})

// watching is a watch and what it has told.
type watching struct {
	apiwatch.Interface
	names []string
	ended bool
}

// look takes in what has come, and returns the names of all that it was told of.
func (w *watching) look() []string {
	for !w.ended {
		select {
		case event, open := <-w.ResultChan():
			if object, ok := event.Object.(client.Object); ok {
				w.names = append(w.names, object.GetName())
			}
			w.ended = !open
		default:
			return w.names
		}
	}
	return w.names
}

// clientWith is a client of an identity that may not even look the kinds up.
func clientWith(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := client.New(config, client.Options{Scheme: hub.Client.Scheme(), Mapper: hub.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

var _ = Describe("A cluster that has joined", func() {
	It("should lose all access when it is denied, and nothing else", func(ctx SpecContext) {
		agent, token := joined(ctx, "denied")
		began := time.Now()
		hub.decide(ctx, "denied", v1alpha1.AcceptanceDenied)
		soon, cancel := context.WithTimeout(ctx, cutTimeout)
		defer cancel()
		expectNoAccess(soon, agent, "denied")
		AddReportEntry("access gone after", time.Since(began).String())
		expectNoAccess(soon, token, "denied")
		hub.expectReason(ctx, "denied", v1alpha1.ReasonDenied)
		expectUntouched(ctx, "denied")

		By("accepting it again")
		hub.decide(ctx, "denied", v1alpha1.AcceptanceAccepted)
		hub.expectWork(ctx, "denied")
	}, NodeTimeout(specTimeout))

	It("should lose its access also while its request waits", func(ctx SpecContext) {
		hub.create(ctx, cluster("unwanted", v1alpha1.ClusterSpec{}))
		token := hub.invite(ctx, "unwanted", time.Hour)
		made := ask(ctx, token, "unwanted")
		hub.decide(ctx, "unwanted", v1alpha1.AcceptanceDenied)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			csr := signingRequest("unwanted", made.request)
			g.Expect(hub.Client.Get(ctx, client.ObjectKeyFromObject(csr), csr)).To(Succeed())
			g.Expect(csr.Status.Conditions).To(ConsistOf(HaveField("Reason", "ClusterDenied")))
		}).Should(Succeed(), "its request is denied")
		expectNoAccess(ctx, token, "unwanted")
	}, NodeTimeout(specTimeout))

	It("should lose all access when it is removed, with every certificate it had, and nothing else", func(ctx SpecContext) {
		first, token := joined(ctx, "removed")
		second := hub.receive(ctx, first, "removed", ask(ctx, first, "removed"))
		Expect(second.CertData).NotTo(Equal(first.CertData))
		Expect(clientFor(first).Get(ctx, client.ObjectKey{Name: "removed"}, &v1alpha1.Cluster{})).To(Succeed(), "the certificate before is good until it expires")
		Expect(clientFor(second).Get(ctx, client.ObjectKey{Name: "removed"}, &v1alpha1.Cluster{})).To(Succeed())
		Expect(hub.Client.Delete(ctx, cluster("removed", v1alpha1.ClusterSpec{}))).To(Succeed())
		for _, identity := range []*rest.Config{first, second, token} {
			expectNoAccess(ctx, identity, "removed")
		}
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsNotFound(hub.Client.Get(ctx, client.ObjectKey{Name: "removed"}, &v1alpha1.Cluster{}))
		}).Should(BeTrue(), "the Cluster goes")
		expectUntouched(ctx, "removed")
	}, NodeTimeout(specTimeout))

	It("should lose its access even if a user takes the hub's finalizer off", func(ctx SpecContext) {
		agent, token := joined(ctx, "forced")
		hub.stopProcess()
		Expect(hub.Client.Delete(ctx, cluster("forced", v1alpha1.ClusterSpec{}))).To(Succeed())
		Expect(merge(cluster("forced", v1alpha1.ClusterSpec{}), `{"metadata":{"finalizers":null}}`)(ctx, clientFor(hub.Config))).To(Succeed())
		expectNoAccess(ctx, agent, "forced")
		expectNoAccess(ctx, token, "forced")
		hub.startProcess(ctx)
		expectUntouched(ctx, "forced")
	}, NodeTimeout(specTimeout))

	It("should lose its tokens with its ServiceAccount when it is removed", func(ctx SpecContext) {
		hub.create(ctx, cluster("tokens", v1alpha1.ClusterSpec{
			Acceptance: v1alpha1.AcceptanceAccepted, Credential: v1alpha1.CredentialServiceAccountToken,
		}))
		hub.agents["tokens"] = hub.accountToken(ctx, "tokens")
		hub.expectWork(ctx, "tokens")
		hub.decide(ctx, "tokens", v1alpha1.AcceptanceDenied)
		expectNoAccess(ctx, hub.agents["tokens"], "tokens")
		hub.decide(ctx, "tokens", v1alpha1.AcceptanceAccepted)
		hub.expectWork(ctx, "tokens")
		Expect(hub.Client.Delete(ctx, cluster("tokens", v1alpha1.ClusterSpec{}))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsUnauthorized(clientWith(hub.agents["tokens"]).Get(ctx, client.ObjectKey{Name: "tokens"}, &v1alpha1.Cluster{}))
		}).Should(BeTrue(), "the tokens of a ServiceAccount end with it")
	}, NodeTimeout(specTimeout))

	It("should keep the agent of another cluster of a similar name from being touched by any of it", func(ctx SpecContext) {
		_, _ = joined(ctx, "twin")
		other, _ := joined(ctx, "twins")
		hub.decide(ctx, "twin", v1alpha1.AcceptanceDenied)
		expectNoAccess(ctx, hub.agents["twin"], "twin")
		Expect(clientFor(other).List(ctx, &v1alpha1.MachineList{}, client.InNamespace("twins"))).To(Succeed())
		Expect(hub.Client.Delete(ctx, cluster("twin", v1alpha1.ClusterSpec{}))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsNotFound(hub.Client.Get(ctx, client.ObjectKey{Name: "twin"}, &v1alpha1.Cluster{}))
		}).Should(BeTrue(), "the Cluster goes")
		Expect(clientFor(other).List(ctx, &v1alpha1.MachineList{}, client.InNamespace("twins"))).To(Succeed())
	}, NodeTimeout(specTimeout))
})

// A hub may be a workload cluster too: its agent's ServiceAccount there has the same name as that of a hub's agent.
var _ = Describe("The admission policy", func() {
	It("should not touch a ServiceAccount of the same name in a namespace that is not a cluster's", func(ctx SpecContext) {
		const place = "workload"
		hub.create(ctx, &corev1.Namespace{ObjectMeta: named(place)})
		hub.create(ctx, &rbacv1.Role{ObjectMeta: in(place, "own"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		}})
		hub.create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: in(place, "own"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "own"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: place, Name: v1alpha1.AgentServiceAccount}},
		})
		agent := as(fmt.Sprintf("system:serviceaccount:%s:%s", place, v1alpha1.AgentServiceAccount))()
		Eventually(ctx, func(ctx context.Context) error {
			return agent.Create(ctx, &corev1.ConfigMap{ObjectMeta: in(place, "x")})
		}).Should(Succeed(), "it does what its role allows")
	}, NodeTimeout(specTimeout))
})
