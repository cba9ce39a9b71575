package agent_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// An agent works for a hub that is one minor version older or newer, and for no other: then it deletes nothing, and says which
// of the two has to be upgraded.
func TestVersionSkew(t *testing.T) {
	t.Parallel()
	f := start(t, "run-skew", func(o *agent.Options) { o.Version = "v0.3.2" })
	f.accept()
	f.hubVersion("v0.4.0")
	f.expectThawed()
	machine := f.machine("skew-m1")
	f.Eventually(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)).WithTimeout(agenttest.Wait).Should(Succeed())

	const older = "agent v0.3.2 does not work for hub v0.5.0: it is more than one minor version older; upgrade the agent to v0.4 or v0.5.0"
	f.hubVersion("v0.5.0")
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(And(
		HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonVersionSkew), HaveField("Message", older)))
	f.Eventually(f.agentFrozen).WithTimeout(agenttest.Wait).Should(Equal("True VersionSkew " + older))
	f.Expect(f.log.String()).To(ContainSubstring(older))
	f.Expect(f.admin.Delete(context.Background(), machine)).To(Succeed())
	f.Consistently(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)).WithTimeout(2*time.Second).Should(Succeed(), "a pod is gone")

	// One that starts is refused just the same, and says so to the end.
	const newer = "agent v0.6.0 does not work for hub v0.4.9: it is more than one minor version newer; upgrade the hub to v0.5 or v0.6.0"
	f.hubVersion("v0.4.9")
	f.stop()
	second := start(t, "run-skew", func(o *agent.Options) { o.Version = "v0.6.0" })
	second.Eventually(func() string { _, body := second.get("/readyz"); return body }).WithTimeout(agenttest.Wait).Should(ContainSubstring(newer))
	second.Eventually(second.agentFrozen).WithTimeout(agenttest.Wait).Should(Equal("True VersionSkew " + newer))
	second.Consistently(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)).WithTimeout(2*time.Second).Should(Succeed(), "a pod is gone")
	second.stop()
	second.Expect(second.log.String()).To(MatchRegexp(`msg=Stopped was=.*agent v0\.6\.0 does not work for hub v0\.4\.9`))

	// The right one carries out what was ordered meanwhile.
	start(t, "run-skew", func(o *agent.Options) { o.Version = "v0.5.0" }).expectThawed()
	f.expectGone(&v1alpha1.Machine{}, f.cluster, machine.Name)
	f.expectGone(&corev1.Pod{}, hostNamespace, machine.Name)
}

// hubVersion does what a hub of that version does.
func (f *env) hubVersion(version string) {
	f.t.Helper()
	f.Eventually(func() error {
		cluster := &v1alpha1.Cluster{}
		if err := f.exists(cluster, "", f.cluster)(); err != nil {
			return err
		}
		cluster.Status.HubVersion = version
		return f.admin.Status().Update(context.Background(), cluster)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

// agentFrozen is what the Cluster says of the agent's freeze.
func (f *env) agentFrozen() string {
	cluster := &v1alpha1.Cluster{}
	if err := f.exists(cluster, "", f.cluster)(); err != nil {
		return err.Error()
	}
	condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition)
	if condition == nil {
		return ""
	}
	return string(condition.Status) + " " + condition.Reason + " " + condition.Message
}

// An agent that cannot get to its hub names the cause: where a probe asks, in its log, and at its end.
func TestTheAgentSaysWhyItCannotJoin(t *testing.T) {
	environment := agenttest.Environment(t)
	otherCA, otherKey, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	early, err := tls.X509KeyPair(otherCA, otherKey)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	notAPI := httptest.NewUnstartedServer(http.NotFoundHandler())
	notAPI.TLS = &tls.Config{Certificates: []tls.Certificate{early}}
	notAPI.StartTLS()
	t.Cleanup(notAPI.Close)
	const token = "abcdef.0123456789abcdef"
	for name, test := range map[string]struct {
		server string
		ca     []byte
		token  string
		want   string
	}{
		"a missing token": {environment.Config.Host, environment.Config.CAData, "", "it has no token"},
		"a strange token": {environment.Config.Host, environment.Config.CAData, token, "a valid join token: the hub rejects the one at"},
		"a wrong URL":     {"https://" + freeAddress(NewWithT(t)), environment.Config.CAData, token, "wrong URL, or the server is down"},
		"a wrong CA":      {environment.Config.Host, otherCA, token, "wrong CA: the kubeconfig's certificate authority"},
		"another server":  {notAPI.URL, otherCA, token, "the server could not find the requested resource"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bootstrap.kubeconfig")
			config := clientcmdapi.NewConfig()
			config.Clusters["hub"] = &clientcmdapi.Cluster{Server: test.server, CertificateAuthorityData: test.ca}
			config.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: test.token}
			config.Contexts["hub"], config.CurrentContext = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "user"}, "hub"
			NewWithT(t).Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
			f := run(t, "cannot-join", func(o *agent.Options) { o.BootstrapKubeconfig, o.CredentialDir = path, t.TempDir() })
			f.Eventually(func() string { _, body := f.get("/readyz"); return body }).WithTimeout(agenttest.Wait).Should(ContainSubstring(test.want))
			f.Eventually(func() string { return f.frozen().Message }).WithTimeout(agenttest.Wait).Should(ContainSubstring(test.want))
			f.stop()
			f.Expect(f.log.String()).To(MatchRegexp(`msg="Getting a credential for the hub failed; trying again" .*` + test.want))
			f.Expect(f.log.String()).To(MatchRegexp(`msg=Stopped was=.*` + test.want))
		})
	}
}
