package clientcert

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestJoin(t *testing.T) {
	b := newEnv(t)
	b.run()
	_, _, err := b.manager.Current()
	b.Expect(err).To(MatchError(ContainSubstring("no credential for the hub yet: waiting for ")))
	b.expectWaiting("acceptance: Cluster " + b.cluster + " is Pending; accept it with 'kubectl hollow cluster accept " + b.cluster + "'")

	csr := b.request()
	b.Expect(csr.Spec.SignerName).To(Equal("kubernetes.io/kube-apiserver-client"))
	b.Expect(csr.Spec.Usages).To(ConsistOf(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth))
	b.Expect(csr.Spec.ExpirationSeconds).To(HaveValue(BeEquivalentTo(3600)))
	block, _ := pem.Decode(csr.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(parsed.Subject.CommonName).To(Equal("hollowfleet.io:agent:" + b.cluster))
	b.Expect(parsed.Subject.Organization).To(Equal([]string{"hollowfleet.io:cluster:" + b.cluster}))
	b.Expect(parsed.Extensions).To(BeEmpty(), "no names, no extensions")

	b.accept()
	b.expectWaiting("approval of CertificateSigningRequest hollowfleet-agent-" + b.cluster + " by the hub")
	b.approve()
	b.soon(b.ready, "a credential")
	config, _, err := b.manager.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.get(config)).To(Succeed())
	b.Eventually(func() float64 { return b.counted(resultIssued) }).Should(Equal(1.0))
	b.Expect(testutil.ToFloat64(b.metrics.expiry)).To(BeNumerically("~", time.Now().Add(time.Hour).Unix(), 600))

	b.Eventually(func() []byte { return b.stored(kubeconfigKey) }).ShouldNot(BeEmpty())
	b.Eventually(func() []byte { return b.stored(pendingKey) }).Should(BeEmpty(), "the key of the request has become the key")
	for _, name := range []string{privateKeyKey, certificateKey, kubeconfigKey} {
		info, err := os.Stat(filepath.Join(b.dir, name))
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)), name)
	}
	info, err := os.Stat(b.dir)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o700)))
	people, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.dir, kubeconfigKey))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.get(people)).To(Succeed(), "the stored kubeconfig works for people")

	// The next process sends no request, not even without the bootstrap kubeconfig.
	b.Expect(os.Remove(b.path)).To(Succeed())
	server, err := Server(t.Context(), b.path, b.cluster, &Dir{path: b.dir})
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(server).To(Equal(b.Server.Config.Host))
	before := b.request().UID
	b.run()
	b.Eventually(b.ready).Should(BeTrue())
	config, _, err = b.manager.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.get(config)).To(Succeed())
	b.Expect(b.request().UID).To(Equal(before))
}

func TestARestartGoesOnWithItsRequest(t *testing.T) {
	b := newEnv(t)
	b.run()
	b.expectWaiting("acceptance")
	before := b.request().UID
	b.run()
	b.expectWaiting("acceptance")
	b.Expect(b.request().UID).To(Equal(before), "the request of the process before is its own")
	b.approve()
	b.soon(b.ready, "a credential")
}

func TestADeniedRequestIsMadeAgainLater(t *testing.T) {
	b := newEnv(t)
	b.run()
	b.decide(certificatesv1.CertificateDenied, "WrongGroup", "the group is not that of the cluster")
	denied := b.request()
	b.expectWaiting("was denied: WrongGroup: the group is not that of the cluster")
	b.Expect(b.counted(resultDenied)).To(Equal(1.0))
	b.Expect(b.request().UID).To(Equal(denied.UID), "not at once")
	b.pass(2*time.Minute, 5*time.Second, func() bool {
		csr := b.request()
		return csr != nil && csr.UID != denied.UID
	}, "a new request after a while")
	b.Expect(b.request().Spec.Request).NotTo(Equal(denied.Spec.Request), "with a new key")
	b.approve()
	b.soon(b.ready, "a credential")
}

func TestAnothersPendingRequestIsLeftAloneForAMinute(t *testing.T) {
	b := newEnv(t)
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	b.Expect(err).NotTo(HaveOccurred())
	foreign, err := newRequest(b.cluster, key, time.Hour)
	b.Expect(err).NotTo(HaveOccurred())
	b.ExpectApplied(foreign)
	b.run()
	b.expectWaiting("another agent: CertificateSigningRequest")
	began := b.Clock.Now()
	b.pass(2*time.Minute, time.Second, func() bool {
		csr := b.request()
		return csr == nil || csr.UID != foreign.UID
	}, "the other's request goes")
	b.Expect(b.Clock.Since(began)).To(BeNumerically(">=", 55*time.Second))
	b.approve()
	b.soon(b.ready, "a credential")
}

func TestATokenThatHasExpired(t *testing.T) {
	b := newEnv(t)
	b.bootstrap(b.token(time.Now().Add(-time.Minute)))
	b.run()
	b.expectWaiting("the hub rejects the one at " + b.path + "; it has expired, was removed, or is for another hub: create a new one with 'kubectl hollow cluster join " + b.cluster + " --again'")
	b.Expect(b.counted(resultError)).To(BeNumerically(">", 0))

	// A new one is taken without a restart.
	b.bootstrap(b.token(time.Now().Add(time.Hour)))
	b.approve()
	b.soon(b.ready, "a credential")
}

func TestATokenForAnotherCluster(t *testing.T) {
	b, other := newEnv(t), newEnv(t)
	b.bootstrap(other.token(time.Now().Add(time.Hour)))
	b.run()
	b.expectWaiting("the token at " + b.path + " is not for Cluster " + b.cluster + ", or that Cluster is denied or does not exist")
	b.Expect(b.request()).To(BeNil())
}

func TestTokensThatAreNone(t *testing.T) {
	b := newEnv(t)
	for token, want := range map[string]string{
		"":         "it has no token",
		"password": "its token is neither a join token nor a ServiceAccount token",
	} {
		b.bootstrap(token)
		b.run()
		b.expectWaiting(want)
	}
	b.Expect(b.request()).To(BeNil())
}

func TestALapsedCertificateIsReplacedWithTheToken(t *testing.T) {
	b := newEnv(t)
	b.join()
	first := b.stored(certificateKey)
	b.stop()
	b.Clock.SetTime(b.manager.present.NotAfter.Add(time.Second))
	b.approveAll()
	b.run()
	b.soon(func() bool { return b.ready() && b.counted(resultIssued) == 1 }, "a new credential")
	b.Expect(b.request().Spec.Username).To(HavePrefix("system:bootstrap:"))
	b.Expect(b.stored(certificateKey)).NotTo(Equal(first))
}

func TestALapsedCertificateAndAnExpiredToken(t *testing.T) {
	b := newEnv(t)
	b.join()
	b.stop()
	// The hub knows neither: the one is of another authority, the other too old.
	certificate, key := newAuthority(t).client(t, v1alpha1.AgentUserPrefix+b.cluster, v1alpha1.AgentGroupPrefix+b.cluster)
	b.Expect(os.WriteFile(filepath.Join(b.dir, certificateKey), certificate, 0o600)).To(Succeed())
	b.Expect(os.WriteFile(filepath.Join(b.dir, privateKeyKey), key, 0o600)).To(Succeed())
	b.bootstrap(b.token(time.Now().Add(-time.Minute)))
	b.Clock.SetTime(time.Now().Add(2 * time.Hour))
	b.run()
	b.expectWaiting("create a new one with 'kubectl hollow cluster join " + b.cluster + " --again' and put it at " + b.path)
	// It keeps asking, and takes a new token without a restart.
	b.bootstrap(b.token(time.Now().Add(time.Hour)))
	b.approveAll()
	b.soon(func() bool { return b.counted(resultIssued) == 1 }, "a new credential")
}

func TestACertificateThatTheHubDoesNotKnowIsReplacedWithTheToken(t *testing.T) {
	b := newEnv(t)
	b.join()
	b.stop()
	// What an agent has whose hub got another CA for clients: good in itself, and refused with 401.
	stranger := newAuthority(t)
	certificate, key := stranger.client(t, v1alpha1.AgentUserPrefix+b.cluster, v1alpha1.AgentGroupPrefix+b.cluster)
	b.Expect(os.WriteFile(filepath.Join(b.dir, certificateKey), certificate, 0o600)).To(Succeed())
	b.Expect(os.WriteFile(filepath.Join(b.dir, privateKeyKey), key, 0o600)).To(Succeed())
	b.run()
	b.Eventually(b.ready).Should(BeTrue())
	config, version, err := b.manager.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.get(config)).To(MatchError(ContainSubstring("Unauthorized")))
	b.approveAll()

	// One 401 may come from an API server that is just starting.
	b.manager.Answered(version, http.StatusUnauthorized)
	b.Clock.Step(time.Minute)
	b.manager.Answered(version, http.StatusOK)
	b.Expect(b.manager.heldNow().Refused).To(BeFalse())
	for range refusalsInARow {
		b.manager.Answered(version, http.StatusUnauthorized)
		b.Clock.Step(refusalTime / 2)
	}
	b.soon(func() bool { return b.counted(resultIssued) == 1 }, "a new credential")
	b.Expect(b.request().Spec.Username).To(HavePrefix("system:bootstrap:"))
	config, _, err = b.manager.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.get(config)).To(Succeed())
}

func TestAnotherClustersCredentialIsNotUsed(t *testing.T) {
	b, other := newEnv(t), newEnv(t)
	other.join()
	other.stop()
	b.dir = other.dir
	b.run()
	b.expectWaiting("acceptance")
	b.Expect(b.log.String()).To(ContainSubstring("Ignoring the credential in directory"))
}

func TestServiceAccountTokens(t *testing.T) {
	b := newEnv(t)
	b.ExpectApplied(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.cluster, Name: v1alpha1.AgentServiceAccount}})
	name := "tokens:" + b.cluster
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: b.cluster, Name: v1alpha1.AgentServiceAccount}
	b.grant("account", []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, ResourceNames: []string{b.cluster}, Verbs: []string{"get"}},
	}, account)
	b.ExpectApplied(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: b.cluster, Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{v1alpha1.AgentServiceAccount}, Verbs: []string{"create"}},
	}})
	b.ExpectApplied(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: b.cluster, Name: name}, Subjects: []rbacv1.Subject{account},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}})
	admin := &Manager{Options: Options{Cluster: b.cluster, Lifetime: 10 * time.Minute}}
	first, err := admin.requestToken(t.Context(), b.Client)
	b.Expect(err).NotTo(HaveOccurred())

	b.bootstrap(first.Token)
	b.run()
	b.soon(b.ready, "a credential")
	config, _, err := b.manager.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(config.BearerToken).NotTo(Equal(first.Token), "its own from the start")
	b.Expect(b.get(config)).To(Succeed())
	b.Eventually(func() string { return string(b.stored(tokenKey)) }).Should(Equal(config.BearerToken))
	b.Expect(b.stored(privateKeyKey)).To(BeNil())

	// 23 % of an hour are left: renewed with its own token.
	b.Expect(os.Remove(b.path)).To(Succeed())
	b.Clock.Step(47 * time.Minute)
	b.soon(func() bool { return b.counted(resultIssued) == 2 }, "a new token")
	b.Expect(string(b.stored(tokenKey))).NotTo(Equal(config.BearerToken))
	b.Expect(b.request()).To(BeNil(), "no certificate was asked for")
	b.run()
	b.Eventually(b.ready).Should(BeTrue(), "the stored token is used without a bootstrap kubeconfig")
}

func TestSecretStore(t *testing.T) {
	b := newEnv(t)
	key := client.ObjectKey{Namespace: b.cluster, Name: "hub-credential"}
	inSecret := func(o *Options) { o.Store = NewSecret(b.Client, key) }
	b.run(inSecret)
	b.approve()
	b.soon(b.ready, "a credential")
	secret := &corev1.Secret{}
	b.Eventually(func() map[string][]byte {
		b.Expect(client.IgnoreNotFound(b.Client.Get(context.Background(), key, secret))).To(Succeed())
		return secret.Data
	}).Should(And(HaveKey(privateKeyKey), HaveKey(certificateKey), HaveKey(kubeconfigKey), Not(HaveKey(pendingKey))))
	first := b.manager

	// A second agent shares it, and takes over what the first one renews. It keeps what is not its own.
	secret.Data["note"] = []byte("ours")
	b.Expect(b.Client.Update(context.Background(), secret)).To(Succeed())
	b.stop()
	b.run(inSecret)
	b.Eventually(b.ready).Should(BeTrue())
	b.Expect(b.manager.present.NotAfter).To(Equal(first.present.NotAfter))
	b.approveAll()
	b.Eventually(func() time.Time { return time.Now().Add(time.Hour) }).WithTimeout(agenttest.Wait).
		Should(BeTemporally(">", first.present.NotAfter.Add(time.Second)), "certificates count in whole seconds")
	b.Clock.Step(47 * time.Minute)
	b.soon(func() bool { return b.counted(resultIssued) == 1 }, "a new credential")
	b.Eventually(func() time.Time {
		contents, err := NewSecret(b.Client, key).Load(context.Background())
		b.Expect(err).NotTo(HaveOccurred())
		stored, _, err := contents.readCredential(b.cluster)
		b.Expect(err).NotTo(HaveOccurred())
		return stored.NotAfter
	}).Should(BeTemporally(">", first.present.NotAfter))
	b.Expect(b.Client.Get(context.Background(), key, secret)).To(Succeed())
	b.Expect(secret.Data).To(HaveKeyWithValue("note", []byte("ours")))

	renewed := b.manager.present
	before := b.request().UID
	b.Clock.SetTime(first.held.RenewAt.Add(time.Second))
	b.Expect(first.loadCredential(context.Background())).To(Succeed())
	b.Expect(first.present.NotAfter).To(Equal(renewed.NotAfter), "the other agent uses it too")
	b.Expect(b.request().UID).To(Equal(before))
}
