package csrapprover

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// env is a controller, and a cluster with the name of its agent's request.
type env struct {
	*testenv.Env
	cluster *v1alpha1.Cluster
	request *certificatesv1.CertificateSigningRequest
}

func newEnv(t *testing.T, acceptance v1alpha1.Acceptance) *env {
	t.Helper()
	f := &env{Env: testenv.NewEnv(t)}
	f.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: acceptance}}
	f.request = &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: certrequest.NameOfAgent(f.cluster.Name)}}
	f.ExpectApplied(f.cluster)
	f.use(f.Client)
	return f
}

func (f *env) use(c client.Client) {
	f.T.Helper()
	logic, err := New(Deps{Client: c, Recorder: f.Recorder, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = logic
}

// asks creates a request for the identity of the env's agent with a join token of the clusters.
func (f *env) asks(tokenOf ...string) *certificatesv1.CertificateSigningRequest {
	f.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Expect(err).NotTo(HaveOccurred())
	csr, err := certrequest.NewForAgent(certrequest.NameOfAgent(f.cluster.Name), f.cluster.Name, key, 10*time.Minute)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.joining(tokenOf...).Create(f.T.Context(), csr)).To(Succeed())
	return csr
}

// joining is a client with a join token of the clusters.
func (f *env) joining(tokenOf ...string) client.Client {
	f.T.Helper()
	groups := []string{"system:masters"}
	for _, cluster := range tokenOf {
		groups = append(groups, v1alpha1.JoinGroupPrefix+cluster)
	}
	return f.acting("system:bootstrap:abc123", groups...)
}

// acting is a client of a user with these groups.
func (f *env) acting(user string, groups ...string) client.Client {
	f.T.Helper()
	config := rest.CopyConfig(f.Server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	acting, err := client.New(config, client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	return acting
}

// decided returns the one condition that the hub wrote, empty if it wrote none.
func (f *env) decided(csr *certificatesv1.CertificateSigningRequest) certificatesv1.CertificateSigningRequestCondition {
	f.T.Helper()
	f.ExpectExists(csr)
	switch len(csr.Status.Conditions) {
	case 0:
		return certificatesv1.CertificateSigningRequestCondition{}
	default:
		f.Expect(csr.Status.Conditions).To(HaveLen(1))
		return csr.Status.Conditions[0]
	}
}

func counted(verdict Verdict, reason string) float64 {
	return testutil.ToFloat64(decisions.WithLabelValues(string(verdict), reason))
}

func TestRightRequestIsApprovedAndSigned(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	csr := f.asks(f.cluster.Name)
	before := counted(Approve, ReasonJoined)
	f.ExpectReconciled(f.request)
	condition := f.decided(csr)
	f.Expect(condition.Type).To(Equal(certificatesv1.CertificateApproved))
	f.Expect(condition.Reason).To(Equal(ReasonJoined))
	f.Expect(counted(Approve, ReasonJoined)).To(Equal(before + 1))
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Normal CertificateApproved")))
	f.Eventually(func() []byte {
		f.ExpectExists(csr)
		return csr.Status.Certificate
	}).WithTimeout(time.Minute).ShouldNot(BeEmpty(), "the hub's own controller signs it")
	f.ExpectReconciled(f.request) // what is decided stays so
	f.Expect(f.Recorder.Events).NotTo(Receive())
}

// connected is what the hub's Cluster controller writes when it hears the agent.
func (f *env) connected(at time.Time, joinedBefore bool) {
	f.T.Helper()
	f.ExpectExists(f.cluster)
	f.cluster.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLeaseRenewed, LastTransitionTime: metav1.NewTime(at),
	}}
	if joinedBefore {
		f.cluster.Status.Conditions = append(f.cluster.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ClusterJoinedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, LastTransitionTime: metav1.NewTime(at),
		})
	}
	f.ExpectStatusApplied(f.cluster)
}

// token creates the Secret of the join token that asks uses.
func (f *env) token() *corev1.Secret {
	f.T.Helper()
	secret := joining.Token{ID: "abc123", Secret: "0123456789abcdef", Expires: time.Now().Add(time.Hour)}.Object(f.cluster.Name)
	f.ExpectApplied(secret)
	return secret
}

// A client that finds a token which was not deleted would get certificates until it expires.
// Edge case: Join tokens outlived joining. Also: TestSpentToken.
func TestATokenIsDeletedWhenItsAgentIsConnected(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	secret, csr := f.token(), f.asks(f.cluster.Name)
	gone := func() bool {
		err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
		f.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err != nil
	}
	f.connected(time.Now().Add(-time.Hour), true)
	f.ExpectReconciled(f.request)
	f.Eventually(func() []byte {
		f.ExpectExists(csr)
		return csr.Status.Certificate
	}).WithTimeout(time.Minute).ShouldNot(BeEmpty(), "the hub's own controller signs it")
	f.Expect(f.Recorder.Events).To(Receive(And(HavePrefix("Warning JoinedAgain"), ContainSubstring("set spec.acceptance to Denied"))))
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Normal CertificateApproved")))
	f.ExpectReconciled(f.request)
	f.Expect(gone()).To(BeFalse(), "the agent has not been heard of since, and may need the token to take its certificate")
	f.connected(time.Now().Add(time.Second), true)
	f.ExpectReconciled(f.request)
	f.Expect(gone()).To(BeTrue())
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Normal JoinTokenDeleted")))
	f.ExpectReconciled(f.request) // it is gone already
	f.Expect(f.Recorder.Events).NotTo(Receive())
}

// Whoever is first with a stolen token has a certificate: the second approval warns, although nobody has connected yet.
// Claim: A token used twice warns. Broken: only condition Joined is looked at.
func TestASecondKeyIsToldBeforeAnyAgentIsConnected(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	first := f.asks(f.cluster.Name)
	f.ExpectReconciled(f.request)
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Normal CertificateApproved")))
	again := first.DeepCopy()
	f.ExpectDeleted(first)
	again.ObjectMeta, again.Status = metav1.ObjectMeta{Name: first.Name}, certificatesv1.CertificateSigningRequestStatus{}
	f.Expect(f.joining(f.cluster.Name).Create(t.Context(), again)).To(Succeed())
	f.ExpectReconciled(f.request)
	f.Expect(f.Recorder.Events).To(Receive(HavePrefix("Normal CertificateApproved")), "the same key, asked for again")
	f.Expect(f.Recorder.Events).NotTo(Receive())

	f.ExpectDeleted(again)
	second := f.asks(f.cluster.Name)
	// The approval fails at first.
	f.use(failing(f.Client, apierrors.NewInternalError(context.DeadlineExceeded)))
	f.Expect(f.Reconcile(f.request)).Error().To(HaveOccurred())
	f.Expect(f.Recorder.Events).To(Receive(And(HavePrefix("Warning JoinedAgain"), ContainSubstring("set spec.acceptance to Denied"))))
	f.use(f.Client)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(second).Type).To(Equal(certificatesv1.CertificateApproved))
}

func TestWrongRequestIsDeniedWithItsFault(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	csr := f.asks("another")
	f.ExpectReconciled(f.request)
	condition := f.decided(csr)
	f.Expect(condition.Type).To(Equal(certificatesv1.CertificateDenied))
	f.Expect(condition.Reason).To(Equal(ReasonWrongRequester))
	f.Expect(condition.Message).To(ContainSubstring("is for another, not for Cluster " + f.cluster.Name))
	f.Expect(f.Recorder.Events).To(Receive(And(HavePrefix("Warning CertificateDenied"), ContainSubstring("is for another"))))
}

func TestRequestWaitsForAcceptance(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptancePending)
	csr := f.asks(f.cluster.Name)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(csr).Type).To(BeEmpty())
	f.Expect(f.Recorder.Events).To(Receive(And(HavePrefix("Normal JoinRequested"), ContainSubstring("set its spec.acceptance to Accepted"))))
	f.cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	f.ExpectApplied(f.cluster)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(csr).Type).To(Equal(certificatesv1.CertificateApproved))
}

func TestRequestOfAClusterThatIsNotThereWaits(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	csr := f.asks(f.cluster.Name)
	f.ExpectDeleted(f.cluster)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(csr).Type).To(BeEmpty())
	f.Expect(f.Recorder.Events).NotTo(Receive(), "there is no Cluster to tell it about")
}

func TestRequestThatIsGoneIsNoError(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.request)
	csr := f.asks(f.cluster.Name)
	f.use(failing(f.Client, apierrors.NewNotFound(schema.GroupResource{Resource: "certificatesigningrequests"}, csr.Name)))
	f.ExpectReconciled(f.request)
	f.Expect(f.Recorder.Events).NotTo(Receive())
}

// A decision that rests on what is no longer so is not written, and one that fails is tried again.
func TestDecisionIsWrittenWholeOrNotAtAll(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	csr := f.asks(f.cluster.Name)
	f.use(interceptor.NewClient(f.Client, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, object client.Object, options ...client.SubResourceUpdateOption) error {
			changed := csr.DeepCopy()
			changed.Annotations = map[string]string{"example.com/note": "changed"}
			f.Expect(f.Client.Update(ctx, changed)).To(Succeed())
			return c.SubResource(subresource).Update(ctx, object, options...)
		},
	}))
	f.ExpectReconciled(f.request) // a conflict: the event of the change looks again
	f.Expect(f.decided(csr).Type).To(BeEmpty())
	f.Expect(f.Recorder.Events).NotTo(Receive())
	f.use(failing(f.Client, apierrors.NewInternalError(context.DeadlineExceeded)))
	f.Expect(f.Reconcile(f.request)).Error().To(HaveOccurred())
	f.Expect(f.Recorder.Events).NotTo(Receive())
	f.use(f.Client)
	f.ExpectReconciled(f.request)
	f.Expect(f.decided(csr).Type).To(Equal(certificatesv1.CertificateApproved))
}

// failing is a client that cannot write decisions.
func failing(c client.WithWatch, err error) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return err
		},
	})
}
