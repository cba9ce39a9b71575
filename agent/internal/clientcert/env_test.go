package clientcert

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// env is a Manager beside a real hub, whose approver is the test.
type env struct {
	*testenv.Env
	cluster string
	// dir has the credential, path is the bootstrap kubeconfig.
	dir, path string
	registry  *prometheus.Registry
	metrics   *Metrics
	log       *buffer
	manager   *Manager
	stop      func()
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newEnv makes a Cluster that waits for acceptance, with the rights that the hub gives for joining it.
func newEnv(t *testing.T) *env {
	t.Helper()
	b := &env{
		Env: agenttest.NewEnv(t), log: &buffer{},
		dir: filepath.Join(t.TempDir(), "credential"), path: filepath.Join(t.TempDir(), "bootstrap.kubeconfig"),
	}
	b.cluster = agenttest.Namespace(t, b.Client)
	b.ExpectApplied(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: b.cluster}})
	requests := []string{"certificatesigningrequests"}
	own := []string{v1alpha1.AgentRequestPrefix + b.cluster}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, ResourceNames: []string{b.cluster}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: requests, Verbs: []string{"create"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: requests, ResourceNames: own, Verbs: []string{"get", "delete"}},
	}
	b.grant("join", rules, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: v1alpha1.JoinGroupPrefix + b.cluster})
	b.grant("agent", rules, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: v1alpha1.AgentGroupPrefix + b.cluster})
	b.bootstrap(b.token(time.Now().Add(time.Hour)))
	t.Cleanup(func() {
		if b.stop != nil {
			b.stop()
		}
		if t.Failed() {
			t.Logf("log of the manager:\n%s", b.log)
		}
	})
	return b
}

func (b *env) grant(kind string, rules []rbacv1.PolicyRule, subject rbacv1.Subject) {
	b.T.Helper()
	name := kind + ":" + b.cluster
	b.ExpectApplied(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	b.ExpectApplied(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	})
}

// token makes a join token.
func (b *env) token(expires time.Time) string {
	b.T.Helper()
	id, secret := rand.String(6), rand.String(16)
	b.ExpectApplied(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "expiration": expires.UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "auth-extra-groups": v1alpha1.JoinGroupPrefix + b.cluster,
		},
	})
	return id + "." + secret
}

// bootstrap writes the bootstrap kubeconfig.
func (b *env) bootstrap(token string) {
	b.T.Helper()
	b.bootstrapWith(token, b.Server.Config.CAData)
}

func (b *env) bootstrapWith(token string, ca []byte) {
	b.T.Helper()
	config := newKubeconfig(&clientcmdapi.Cluster{Server: b.Server.Config.Host, CertificateAuthorityData: ca}, &clientcmdapi.AuthInfo{Token: token})
	content, err := clientcmd.Write(*config)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(os.WriteFile(b.path+".new", content, 0o600)).To(Succeed())
	b.Expect(os.Rename(b.path+".new", b.path)).To(Succeed())
}

// run starts a Manager, after the one before has ended.
func (b *env) run(change ...func(*Options)) {
	b.T.Helper()
	if b.stop != nil {
		b.stop()
	}
	dir, err := NewDir(b.dir)
	b.Expect(err).NotTo(HaveOccurred())
	b.registry = prometheus.NewRegistry()
	b.metrics = NewMetrics(b.registry)
	options := Options{
		Cluster: b.cluster, Bootstrap: b.path, Store: dir, Lifetime: time.Hour, Dial: b.dial,
		Random: func() float64 { return 0.5 }, Metrics: b.metrics,
		Runtime: poll.Runtime{Clock: b.Clock, Log: logr.FromSlogHandler(slog.NewTextHandler(b.log, nil))},
	}
	for _, edit := range change {
		edit(&options)
	}
	b.manager, err = New(options)
	b.Expect(err).NotTo(HaveOccurred())
	manager := b.manager
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = manager.Run(ctx) }()
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
}

func (b *env) dial(config *rest.Config) (client.Client, error) {
	direct, err := clients.NewDirect(config)
	if err != nil {
		return nil, err
	}
	return direct.Ungated(clients.Credentials(b.cluster)), nil
}

// pass lets time pass for the manager until check succeeds: at most as much as total, in steps.
func (b *env) pass(total, step time.Duration, check func() bool, what string, args ...any) {
	b.T.Helper()
	left := total
	b.Eventually(func() bool {
		if check() {
			return true
		}
		if left > 0 && b.Clock.HasWaiters() {
			b.Clock.Step(step)
			left -= step
		}
		return false
	}).WithTimeout(agenttest.Wait).WithPolling(10*time.Millisecond).Should(BeTrue(), what, args)
}

// soon lets enough time pass for a manager to look again a few times, which makes no certificate old.
func (b *env) soon(check func() bool, what string, args ...any) {
	b.T.Helper()
	b.pass(30*time.Second, 200*time.Millisecond, check, what, args...)
}

func (b *env) expectWaiting(text string) {
	b.T.Helper()
	b.soon(func() bool { return bytes.Contains([]byte(b.manager.Waiting()), []byte(text)) }, "the manager waits for %q", text)
}

func (b *env) ready() bool { return b.manager.Waiting() == "" }

// request returns the request that stands now, nil if there is none.
func (b *env) request() *certificatesv1.CertificateSigningRequest {
	b.T.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	err := b.Client.Get(context.Background(), client.ObjectKey{Name: v1alpha1.AgentRequestPrefix + b.cluster}, csr)
	if apierrors.IsNotFound(err) {
		return nil
	}
	b.Expect(err).NotTo(HaveOccurred())
	return csr
}

// decide approves or denies the request that stands.
func (b *env) decide(of certificatesv1.RequestConditionType, reason, message string) {
	b.T.Helper()
	var csr *certificatesv1.CertificateSigningRequest
	b.soon(func() bool {
		csr = b.request()
		return csr != nil && len(csr.Status.Conditions) == 0
	}, "a request")
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: of, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
	b.Expect(b.Client.SubResource("approval").Update(context.Background(), csr)).To(Succeed())
}

func (b *env) approve() {
	b.T.Helper()
	b.decide(certificatesv1.CertificateApproved, "Test", "the test approves")
}

// approveAll approves every request of the cluster from now on, as the hub does for an accepted one.
func (b *env) approveAll() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			csr := &certificatesv1.CertificateSigningRequest{}
			err := b.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.AgentRequestPrefix + b.cluster}, csr)
			if err == nil && len(csr.Status.Conditions) == 0 {
				csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
				_ = b.Client.SubResource("approval").Update(ctx, csr)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	b.T.Cleanup(func() { cancel(); <-done })
}

func (b *env) accept() {
	b.T.Helper()
	cluster := &v1alpha1.Cluster{}
	b.Expect(b.Client.Get(context.Background(), client.ObjectKey{Name: b.cluster}, cluster)).To(Succeed())
	cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	b.Expect(b.Client.Update(context.Background(), cluster)).To(Succeed())
}

// join brings the manager to its first certificate.
func (b *env) join() {
	b.T.Helper()
	b.run()
	b.approve()
	b.soon(b.ready, "a credential")
	b.Eventually(func() []byte { return b.stored(kubeconfigKey) }).ShouldNot(BeEmpty())
	b.Eventually(func() []byte { return b.stored(pendingKey) }).Should(BeEmpty())
}

func (b *env) stored(name string) []byte {
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		return nil
	}
	return content
}

func (b *env) counted(result string) float64 {
	return testutil.ToFloat64(b.metrics.renewals.WithLabelValues(result))
}

// get reads the Cluster as the agent.
func (b *env) get(config *rest.Config) error {
	made, err := b.dial(config)
	if err != nil {
		return err
	}
	if err := made.Get(context.Background(), client.ObjectKey{Name: b.cluster}, &v1alpha1.Cluster{}); err != nil {
		return fmt.Errorf("as the agent: %w", err)
	}
	return nil
}
