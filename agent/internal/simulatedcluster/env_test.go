package simulatedcluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/fake"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// env is the Controller of a host, whose hub, approver and driver the test plays.
type env struct {
	*testenv.Env
	*Controller
	driver    *fake.Driver
	namespace string

	mu     sync.Mutex
	frozen error
}

// Check implements freeze.Checker.
func (b *env) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frozen
}

// Deciding implements Freeze.
func (b *env) Deciding(ctx context.Context) context.Context { return ctx }

func (b *env) freeze(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = err
}

func newEnv(t *testing.T) *env {
	t.Helper()
	testenv.RunInParallel(t)
	b := &env{Env: agenttest.NewEnv(t)}
	b.namespace = agenttest.Namespace(t, b.Client)
	b.driver = fake.New(b.Clock, "v1.37", "v1.36")
	b.restart(b.driver)
	return b
}

// restart makes another process of the agent.
func (b *env) restart(runs clusterdriver.Driver) {
	b.T.Helper()
	gate := freeze.NewGate(b, freeze.NewMetrics(prometheus.NewRegistry()))
	if runs != nil {
		runs = gate.ClusterDriver(runs)
	}
	config := clients.Gated(b.Server.Config, gate.HubRoundTripper)
	scheme, err := clients.Scheme()
	b.Expect(err).NotTo(HaveOccurred())
	direct, err := client.New(config, client.Options{Scheme: scheme, Mapper: clients.Mapper()})
	b.Expect(err).NotTo(HaveOccurred())
	watches, err := metadata.NewForConfig(config)
	b.Expect(err).NotTo(HaveOccurred())
	b.Controller, err = New(Deps{
		Cluster: b.namespace, Hub: clients.Hub{Namespace: b.namespace, Client: direct, Live: direct}, Driver: runs, Lifetime: time.Hour, Freeze: b,
		Watch: watches.Resource(v1alpha1.GroupVersion.WithResource("simulatedclusters")).Namespace(b.namespace).Watch,
		Access: func() (clusterdriver.HubAccess, error) {
			return clusterdriver.HubAccess{Server: "https://hub:6443", CA: []byte("ca")}, nil
		},
		Runtime: poll.Runtime{Clock: b.Clock, Log: logr.Discard()},
	})
	b.Expect(err).NotTo(HaveOccurred())
}

// newOne makes a SimulatedCluster whose Cluster the hub has made.
func (b *env) newOne(change ...func(*v1alpha1.SimulatedCluster)) *v1alpha1.SimulatedCluster {
	b.T.Helper()
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: testenv.Name(), Finalizers: []string{v1alpha1.ClusterFinalizer}}}
	for _, edit := range change {
		edit(one)
	}
	b.ExpectApplied(one)
	b.created(one, metav1.ConditionTrue)
	return one
}

// created says as the hub whether the Cluster was made for the SimulatedCluster as it is now.
func (b *env) created(one *v1alpha1.SimulatedCluster, status metav1.ConditionStatus) {
	b.T.Helper()
	b.tell(one, metav1.Condition{Type: v1alpha1.ClusterCreatedCondition, Status: status, Reason: v1alpha1.ReasonCreated})
}

func (b *env) tell(one *v1alpha1.SimulatedCluster, condition metav1.Condition) {
	b.T.Helper()
	b.ExpectExists(one)
	condition.ObservedGeneration = one.Generation
	meta.SetStatusCondition(&one.Status.Conditions, condition)
	b.ExpectStatusApplied(one)
}

func (b *env) patch(object client.Object, patch string) {
	b.T.Helper()
	b.Expect(b.Client.Patch(b.T.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// round does rounds that have to succeed.
func (b *env) round(rounds int) {
	b.T.Helper()
	for range rounds {
		b.Expect(b.Work(b.T.Context())).To(Succeed())
	}
}

// request returns the certificate request for a cluster; nil if there is none.
func (b *env) request(one *v1alpha1.SimulatedCluster) *certificatesv1.CertificateSigningRequest {
	b.T.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	err := b.Client.Get(b.T.Context(), client.ObjectKey{Name: certrequest.NameOfHostedAgent(b.namespace, one.Name)}, csr)
	if apierrors.IsNotFound(err) {
		return nil
	}
	b.Expect(err).NotTo(HaveOccurred())
	return csr
}

// decide approves or denies the request for a cluster, and waits for the signer.
func (b *env) decide(one *v1alpha1.SimulatedCluster, of certificatesv1.RequestConditionType) {
	b.T.Helper()
	csr := b.request(one)
	b.Expect(csr).NotTo(BeNil(), "a certificate request")
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: of, Status: corev1.ConditionTrue, Reason: "Test", Message: "said by the test"}}
	b.Expect(b.Client.SubResource("approval").Update(b.T.Context(), csr)).To(Succeed())
	if of == certificatesv1.CertificateApproved {
		b.Eventually(func() []byte { return b.request(one).Status.Certificate }).WithTimeout(agenttest.Wait).ShouldNot(BeEmpty())
	}
}

// running brings a cluster up.
func (b *env) running(one *v1alpha1.SimulatedCluster) {
	b.T.Helper()
	b.round(1)
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(2)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

func (b *env) expectSaid(one *v1alpha1.SimulatedCluster, status metav1.ConditionStatus, reason, message string) {
	b.T.Helper()
	condition := b.ReadCondition(one, v1alpha1.ControlPlaneReadyCondition)
	b.Expect(condition).NotTo(BeNil())
	b.Expect(*condition).To(And(HaveField("Status", status), HaveField("Reason", reason), HaveField("Message", ContainSubstring(message))))
}

func (b *env) expectFinalizer(one *v1alpha1.SimulatedCluster, want bool) {
	b.T.Helper()
	b.ExpectExists(one)
	b.Expect(one.Finalizers).To(ContainElement(v1alpha1.ClusterFinalizer), "the finalizer of others")
	if want {
		b.Expect(one.Finalizers).To(ContainElement(v1alpha1.SimulatedClusterFinalizer))
	} else {
		b.Expect(one.Finalizers).NotTo(ContainElement(v1alpha1.SimulatedClusterFinalizer))
	}
}

// deleted deletes a SimulatedCluster whose Machines the hub has removed.
func (b *env) deleted(one *v1alpha1.SimulatedCluster) {
	b.T.Helper()
	b.ExpectDeleted(one)
	b.tell(one, metav1.Condition{Type: v1alpha1.MachinesRemovedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMachinesRemoved})
}

var errTest = errors.New("said by the test")
