package csrapprover

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// env has a Machine m1 whose token is t1, and a controller that reads requests from a cache as the agent does.
type env struct {
	*Controller
	admin  client.Client
	config *rest.Config
	frozen *freezer
}

type freezer struct{ frozen atomic.Bool }

func (f *freezer) Check() error {
	if f.frozen.Load() {
		return &freeze.Error{Reason: v1alpha1.ReasonTargetUnreachable}
	}
	return nil
}

func newEnv(t *testing.T) *env {
	t.Helper()
	environment := agenttest.Environment(t)
	b := &env{admin: environment.Client, config: environment.Config, frozen: &freezer{}}
	namespace := agenttest.Namespace(t, b.admin)
	machine := agenttest.Machine(namespace, "m1")
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{}`)}
	if err := b.admin.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	gate := freeze.NewGate(b.frozen, freeze.NewMetrics(prometheus.NewRegistry()))
	cached, err := cluster.New(clients.Gated(environment.Config, gate.RoundTripper), func(o *cluster.Options) { o.Scheme = scheme.New() })
	if err != nil {
		t.Fatal(err)
	}
	if err := Index(t.Context(), cached.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cached.Start(t.Context()) }()
	if !cached.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not sync")
	}
	b.Controller, err = New(Deps{
		ClusterName: namespace, BootstrapUser: bootstrapUser, Hub: undecodable.Reader(b.admin), Target: cached.GetClient(),
		TargetReader: b.admin, Identities: identities{}, Metrics: NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// identities are those of Machines of c1, of which m1 has a token.
type identities struct{}

func (identities) ProviderID(machine string) string { return "hollowfleet://c1/" + machine }

func (identities) TokenIDs(_ context.Context, machine string) ([]string, error) {
	return map[string][]string{"m1": {"t1"}}[machine], nil
}

func (identities) Addresses(_ context.Context, machine string) ([]netip.Addr, error) {
	return map[string][]netip.Addr{"m1": {netip.MustParseAddr("127.64.0.5"), netip.MustParseAddr("241.64.0.5")}}[machine], nil
}

// submit lets the API server see a request as it is, made by the identity in it.
func (b *env) submit(g *WithT, csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	config := rest.CopyConfig(b.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: csr.Spec.Username, Groups: csr.Spec.Groups, Extra: map[string][]string{}}
	for key, value := range csr.Spec.Extra {
		config.Impersonate.Extra[key] = value
	}
	as, err := client.New(config, client.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	csr.GenerateName = "csr-"
	g.Expect(as.Create(context.Background(), csr)).To(Succeed())
	g.Eventually(func() error {
		return b.Target.Get(context.Background(), client.ObjectKeyFromObject(csr), &certificatesv1.CertificateSigningRequest{})
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the cache sees the request")
	return csr
}

func (b *env) reconcile(g *WithT, csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	_, err := b.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(csr)})
	g.Expect(err).NotTo(HaveOccurred())
	after := &certificatesv1.CertificateSigningRequest{}
	g.Expect(b.admin.Get(context.Background(), client.ObjectKeyFromObject(csr), after)).To(Succeed())
	return after
}

func (b *env) count(verdict Decision) float64 {
	return testutil.ToFloat64(b.Metrics.decisions.WithLabelValues(string(verdict)))
}

func TestReconcile(t *testing.T) {
	t.Run("should approve a join, and the control plane then issues the certificate", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		csr := b.submit(g, joining(t))
		g.Expect(csr.Spec.Extra[credentialIDKey]).To(ConsistOf("JTI=t1"))
		after := b.reconcile(g, csr)
		g.Expect(certrequest.Open(after)).To(BeFalse())
		g.Expect(b.count(ApproveJoin)).To(Equal(1.0))
		g.Eventually(func() ([]byte, error) {
			err := b.admin.Get(context.Background(), client.ObjectKeyFromObject(csr), after)
			return after.Status.Certificate, err
		}).WithTimeout(agenttest.Wait).ShouldNot(BeEmpty())
	})
	t.Run("should approve a renewal", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		g.Expect(certrequest.Open(b.reconcile(g, b.submit(g, renewing(t))))).To(BeFalse())
	})
	t.Run("should approve a serving certificate, and the control plane then issues it", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		csr := b.submit(g, serving(t))
		g.Expect(certrequest.Open(b.reconcile(g, csr))).To(BeFalse())
		g.Expect(b.count(ApproveServing)).To(Equal(1.0))
		g.Eventually(func() ([]byte, error) {
			err := b.admin.Get(context.Background(), client.ObjectKeyFromObject(csr), csr)
			return csr.Status.Certificate, err
		}).WithTimeout(agenttest.Wait).ShouldNot(BeEmpty())
		g.Expect(b.Remove(t.Context(), "m1")).To(Succeed())
		g.Expect(apierrors.IsNotFound(b.admin.Get(t.Context(), client.ObjectKeyFromObject(csr), csr))).To(BeTrue())
	})
	t.Run("should look again at a serving certificate for an address that the host does not report yet", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		csr := serving(t)
		template := servingTemplate()
		template.IPAddresses = append(template.IPAddresses, net.IPv4(127, 64, 0, 6))
		csr.Spec.Request = request(t, template)
		result, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.submit(g, csr))})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter).To(Equal(conflictRecheck))
		g.Expect(b.count(OtherAddress)).To(Equal(1.0))
	})
	t.Run("should leave a request of another token alone, neither approved nor denied", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		csr := joining(t)
		csr.Spec.Extra[credentialIDKey] = certificatesv1.ExtraValue{"JTI=t2"}
		g.Expect(b.reconcile(g, b.submit(g, csr)).Status.Conditions).To(BeEmpty())
		g.Expect(b.count(OtherToken)).To(Equal(1.0))
	})
	t.Run("should leave a request for a machine alone that is being deleted", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		machine := &v1alpha1.Machine{}
		g.Expect(b.admin.Get(t.Context(), client.ObjectKey{Namespace: b.ClusterName, Name: "m1"}, machine)).To(Succeed())
		g.Expect(b.admin.Delete(t.Context(), machine)).To(Succeed())
		g.Expect(b.reconcile(g, b.submit(g, joining(t))).Status.Conditions).To(BeEmpty())
		g.Expect(b.count(NoMachine)).To(Equal(1.0))
	})
	t.Run("should approve nothing while frozen, and after the thaw", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		csr := b.submit(g, joining(t))
		b.frozen.frozen.Store(true)
		g.Expect(certrequest.Open(b.reconcile(g, csr))).To(BeTrue())
		b.frozen.frozen.Store(false)
		g.Expect(certrequest.Open(b.reconcile(g, csr))).To(BeFalse())
	})
}

// node registers a Node as the kubelet of another machine did.
func (b *env) node(t *testing.T, name, providerID string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if err := b.admin.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.admin.Delete(context.Background(), node) })
	return node
}

func TestANodeThatIsNotTheMachinesStopsTheApproval(t *testing.T) {
	for name, of := range map[string]func(*testing.T) *certificatesv1.CertificateSigningRequest{
		"should not let a hollow-node join": joining, "should not renew": renewing,
	} {
		t.Run(name, func(t *testing.T) {
			g, b := NewWithT(t), newEnv(t)
			node := b.node(t, "m1", "aws:///eu-1a/i-0abc")
			csr := b.submit(g, of(t))
			result, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(csr)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.RequeueAfter).To(Equal(conflictRecheck), "no event tells when that node goes")
			g.Expect(b.reconcile(g, csr).Status.Conditions).To(BeEmpty())
			g.Expect(b.count(NodeConflict)).To(Equal(2.0))
			g.Expect(b.admin.Delete(t.Context(), node)).To(Succeed())
			g.Expect(certrequest.Open(b.reconcile(g, csr))).To(BeFalse())
		})
	}
	t.Run("should renew for the machine's own node", func(t *testing.T) {
		g, b := NewWithT(t), newEnv(t)
		b.node(t, "m1", "hollowfleet://c1/m1")
		g.Expect(certrequest.Open(b.reconcile(g, b.submit(g, renewing(t))))).To(BeFalse())
	})
}

// Edge case: Another Node's certificate requests were removed.
func TestRemoveLeavesWhatAnotherNodeOfTheNameAskedFor(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	b.node(t, "m1", "aws:///eu-1a/i-0abc")
	own, theirs := b.submit(g, joining(t)), b.submit(g, renewing(t))
	g.Expect(b.Remove(t.Context(), "m1")).To(Succeed())
	g.Expect(apierrors.IsNotFound(b.admin.Get(t.Context(), client.ObjectKeyFromObject(own), own))).To(BeTrue())
	g.Expect(b.admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
}

func TestRemove(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	own := []*certificatesv1.CertificateSigningRequest{b.submit(g, joining(t)), b.submit(g, renewing(t))}
	stranger := joining(t)
	stranger.Spec.Username, stranger.Spec.Groups = "alice", []string{"system:masters"}
	other := joining(t)
	other.Spec.Request = request(t, subject("system:node:m11", "system:nodes"))
	kept := []*certificatesv1.CertificateSigningRequest{b.submit(g, stranger), b.submit(g, other)}

	g.Expect(b.Remove(t.Context(), "m1")).To(Succeed())
	for _, csr := range own {
		err := b.admin.Get(t.Context(), client.ObjectKeyFromObject(csr), csr)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "a request of the machine is left: %v", err)
	}
	for _, csr := range kept {
		g.Expect(b.admin.Get(t.Context(), client.ObjectKeyFromObject(csr), csr)).To(Succeed(), "another's request is gone")
	}
}

func TestTheThawWakesOpenRequests(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	waiting, done := b.submit(g, joining(t)), b.submit(g, renewing(t))
	b.reconcile(g, done)
	g.Eventually(func() bool {
		cached := &certificatesv1.CertificateSigningRequest{}
		return b.Target.Get(t.Context(), client.ObjectKeyFromObject(done), cached) == nil && !certrequest.Open(cached)
	}).WithTimeout(agenttest.Wait).Should(BeTrue())

	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	changes := make(chan struct{})
	b.frozen.frozen.Store(true)
	g.Expect(b.OnThaw(b.frozen, changes)(t.Context(), queue)).To(Succeed())
	changes <- struct{}{} // the freeze
	b.frozen.frozen.Store(false)
	changes <- struct{}{} // the thaw
	woken := func() []string {
		var names []string
		for range queue.Len() {
			request, _ := queue.Get()
			queue.Done(request)
			names = append(names, request.Name)
		}
		return names
	}
	g.Eventually(woken).WithTimeout(agenttest.Wait).Should(And(ContainElement(waiting.Name), Not(ContainElement(done.Name))))
}
