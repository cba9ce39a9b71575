package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clusterstatus"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// bootstrap does what a user and the hub do for a cluster that is to join, and returns the bootstrap kubeconfig.
func (f *env) bootstrap(cluster string) string {
	f.t.Helper()
	id, secret := rand.String(6), rand.String(16)
	name := "join-" + cluster
	for _, object := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{
				"token-id": id, "token-secret": secret, "expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
				"usage-bootstrap-authentication": "true", "auth-extra-groups": v1alpha1.JoinGroupPrefix + cluster,
			},
		},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, ResourceNames: []string{cluster}, Verbs: []string{"get"}},
			{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"}},
			{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, ResourceNames: []string{v1alpha1.AgentRequestPrefix + cluster}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: v1alpha1.JoinGroupPrefix + cluster}}},
	} {
		f.Expect(f.admin.Create(context.Background(), object)).To(Succeed())
		f.removeLater(object)
	}
	path := filepath.Join(f.t.TempDir(), "bootstrap.kubeconfig")
	f.Expect(clientcmd.WriteToFile(*f.hubKubeconfig(&clientcmdapi.AuthInfo{Token: id + "." + secret}), path)).To(Succeed())
	return path
}

// hubKubeconfig leads to the hub with user's credential.
func (f *env) hubKubeconfig(user *clientcmdapi.AuthInfo) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: f.env.Config.Host, CertificateAuthorityData: f.env.Config.CAData}
	config.AuthInfos["user"] = user
	config.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "user"}
	config.CurrentContext = "hub"
	return config
}

// removeLater deletes an object after the test, if it is there then.
func (f *env) removeLater(object client.Object) {
	f.t.Cleanup(func() { f.Expect(client.IgnoreNotFound(f.admin.Delete(context.Background(), object))).To(Succeed()) })
}

// An agent that runs in its cluster joins, and keeps its credential there, with the rights of config/rbac.
func TestJoinWithASecret(t *testing.T) {
	const cluster = "join-1"
	seed := &env{t: t, WithT: NewWithT(t), env: agenttest.Environment(t), cluster: cluster}
	seed.admin = seed.env.Client
	path := seed.bootstrap(cluster)
	seed.accept()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AgentRequestPrefix + cluster}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: "hub-credential"}}
	seed.removeLater(csr)
	seed.removeLater(secret)
	f := run(t, cluster, func(o *agent.Options) {
		o.BootstrapKubeconfig, o.CredentialSecret = path, hostNamespace+"/hub-credential"
	})
	waiting := "approval of CertificateSigningRequest hollowfleet-agent-join-1 by the hub"
	for _, where := range []string{"/readyz", "/frozenz"} {
		f.Eventually(func() string { _, body := f.get(where); return body }).WithTimeout(agenttest.Wait).Should(ContainSubstring(waiting))
	}
	f.Expect(f.frozen().Frozen).To(BeTrue())
	f.Expect(f.exists(csr, "", csr.Name)()).To(Succeed())
	f.approve(csr)
	f.expectThawed()
	f.Expect(f.exists(secret, secret.Namespace, secret.Name)()).To(Succeed())
	f.Expect(secret.Data).To(And(HaveKey("tls.key"), HaveKey("tls.crt"), HaveKey("kubeconfig")))
	_, metrics := f.get("/metrics")
	f.Expect(metrics).To(ContainSubstring("404"), "metrics are served elsewhere")

	// The next one starts with it, and works without the bootstrap kubeconfig.
	f.cancel()
	f.Eventually(f.stopped).WithTimeout(agenttest.Wait).Should(Receive(BeNil()))
	f.stopped <- nil
	f.Expect(os.Remove(path)).To(Succeed())
	again := run(t, cluster, func(o *agent.Options) {
		o.BootstrapKubeconfig, o.CredentialSecret = path, hostNamespace+"/hub-credential"
	})
	again.expectThawed()
}

func (f *env) lease() *coordinationv1.Lease {
	f.t.Helper()
	lease := &coordinationv1.Lease{}
	f.Expect(f.exists(lease, f.cluster, v1alpha1.AgentLeaseName)()).To(Succeed())
	return lease
}

// beat makes the agent renew its Lease every second.
func (f *env) beat() {
	f.t.Helper()
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.exists(cluster, "", f.cluster)()).To(Succeed())
	cluster.Spec.Heartbeat = v1alpha1.Heartbeat{PeriodSeconds: 1, GraceSeconds: 60}
	f.Expect(f.admin.Update(context.Background(), cluster)).To(Succeed())
}

// Else each restart in the middle of a drain would start its deadline again.
func TestAnAgentKnowsWhenTheOneBeforeItCouldAct(t *testing.T) {
	first := start(t, "restart-1", nil)
	first.accept()
	first.beat()
	intervals := func() freeze.Uptime {
		return freeze.ParseUptime(first.lease().Annotations[v1alpha1.ActedAnnotation])
	}
	first.expectThawed()
	first.Eventually(func() time.Duration {
		known := intervals()
		if len(known) != 1 {
			return 0
		}
		return known[0].To.Sub(known[0].From)
	}).WithTimeout(agenttest.Wait).Should(BeNumerically(">=", time.Second), "the Lease tells how long the agent could act")
	first.stop()
	handed := intervals()
	first.Expect(handed).To(HaveLen(1))

	second := start(t, "restart-1", nil)
	second.expectThawed()
	second.Eventually(intervals).WithTimeout(agenttest.Wait).Should(HaveLen(2), "it continues where the other one ended")
	now := intervals()
	second.Expect(now[0]).To(Equal(handed[0]))
	second.Expect(now[1].From).To(BeTemporally(">=", handed[0].To))
}

func TestOfTwoAgentsOneStandsBy(t *testing.T) {
	first := start(t, "pair-1", nil)
	first.accept()
	first.expectThawed()
	second := start(t, "pair-1", nil)
	second.Eventually(second.frozen).WithTimeout(agenttest.Wait).Should(HaveField("Reason", v1alpha1.ReasonAnotherAgent))
	holder := ptr.Deref(first.lease().Spec.HolderIdentity, "?")
	second.Eventually(func() string { _, body := second.get("/readyz"); return body }).WithTimeout(agenttest.Wait).Should(ContainSubstring(holder))
	second.Expect(second.log.String()).To(ContainSubstring("Freezing: nothing is created, changed or deleted"))
	second.Expect(second.log.String()).NotTo(ContainSubstring("msg=Working"), "its controllers would report on the same Machines")
	second.Expect(first.frozen().Frozen).To(BeFalse())

	// A clean stop gives the Lease up, so that the other need not wait for its end: 40 s.
	stopped := time.Now()
	first.cancel()
	second.expectThawed()
	second.Expect(time.Since(stopped)).To(BeNumerically("<", 30*time.Second))
	second.Expect(second.lease().Spec.HolderIdentity).NotTo(HaveValue(Equal(holder)))
	machine := second.machine("pair-m1")
	second.Eventually(second.exists(&corev1.Pod{}, hostNamespace, machine.Name)).WithTimeout(agenttest.Wait).Should(Succeed())
	second.Expect(second.admin.Delete(context.Background(), machine)).To(Succeed())
	second.expectGone(&v1alpha1.Machine{}, second.cluster, machine.Name)
}

func TestTheSameDirectoryIsForOneProcess(t *testing.T) {
	dir := t.TempDir()
	inDir := func(o *agent.Options) { o.CredentialDir = dir }
	first := start(t, "pair-2", inDir)
	first.accept()
	first.expectThawed()
	holder := first.lease().Spec.HolderIdentity
	second := start(t, "pair-2", inDir)
	second.Eventually(second.frozen).WithTimeout(agenttest.Wait).Should(And(
		HaveField("Reason", v1alpha1.ReasonAnotherAgent), HaveField("Message", ContainSubstring("another agent process uses directory "+dir))))
	first.cancel()
	second.expectThawed()
	second.Expect(second.lease().Spec.HolderIdentity).NotTo(Equal(holder), "each process has an identity of its own")
}

func TestAnAgentThatHasLostItsLeaseEnds(t *testing.T) {
	f := start(t, "pair-3", nil)
	f.accept()
	f.beat()
	f.expectThawed()
	f.Eventually(func() error {
		lease := f.lease()
		lease.Spec.HolderIdentity = ptr.To("thief")
		return f.admin.Update(context.Background(), lease)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	var err error
	f.Eventually(f.stopped).WithTimeout(agenttest.Wait).Should(Receive(&err))
	f.Expect(errors.Is(err, clusterstatus.ErrLeaseLost)).To(BeTrue(), "%v", err)
	f.Expect(err).To(MatchError(ContainSubstring("thief")))
	f.Expect(f.lease().Spec.HolderIdentity).To(HaveValue(Equal("thief")))
	f.stopped <- nil
}
