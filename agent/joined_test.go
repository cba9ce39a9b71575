package agent_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// joined has, by cluster, what its agent got from the hub when it joined. It is good in each round of a test.
var joined sync.Map

// join lets a cluster join as every cluster does, with a join token and a certificate request that the hub's part
// approves, and returns the path of a kubeconfig with what the agent got.
func join(t *testing.T, cluster string) string {
	t.Helper()
	known, ok := joined.Load(cluster)
	if !ok {
		known = credentialOf(t, cluster)
		joined.Store(cluster, known)
	}
	path := filepath.Join(t.TempDir(), "hub.kubeconfig")
	if err := clientcmd.WriteToFile(*known.(*clientcmdapi.Config), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// credentialOf is that of a cluster's agent, as a kubeconfig that needs no other file.
func credentialOf(t *testing.T, cluster string) *clientcmdapi.Config {
	t.Helper()
	f := &env{t: t, WithT: NewWithT(t), env: agenttest.Environment(t), cluster: cluster}
	f.admin = f.env.Client
	f.Expect(f.admin.Create(t.Context(), &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}})).To(Succeed())
	store, err := clientcert.NewDir(t.TempDir())
	f.Expect(err).NotTo(HaveOccurred())
	credentials, err := clientcert.New(clientcert.Options{
		Cluster: cluster, Bootstrap: f.bootstrap(cluster), Store: store, Lifetime: 24 * time.Hour,
		Dial: func(config *rest.Config) (client.Client, error) {
			direct, err := clients.NewDirect(config)
			if err != nil {
				return nil, err
			}
			return direct.Ungated(clients.Credentials(cluster)), nil
		},
		Random: rand.Float64, Runtime: poll.Runtime{Clock: clock.RealClock{}, Log: logr.Discard()}, Metrics: clientcert.NewMetrics(prometheus.NewRegistry()),
	})
	f.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- credentials.Run(ctx) }()
	defer func() {
		cancel()
		f.Eventually(ended).WithTimeout(agenttest.Wait).Should(Receive(BeNil()))
	}()

	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AgentRequestPrefix + cluster}}
	f.removeLater(csr)
	f.Eventually(f.exists(csr, "", csr.Name)).WithTimeout(agenttest.Wait).Should(Succeed(), "the agent does not ask for a certificate")
	f.approve(csr)
	var own *rest.Config
	f.Eventually(func() (err error) {
		own, _, err = credentials.Current()
		return err
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the agent does not get its certificate")

	// A test starts with a hub that has never heard of the cluster.
	f.Expect(f.admin.Delete(t.Context(), &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}})).To(Succeed())
	return f.hubKubeconfig(&clientcmdapi.AuthInfo{ClientCertificateData: own.CertData, ClientKeyData: own.KeyData})
}

// approve does what the hub does with the certificate request of a cluster that joins.
func (f *env) approve(csr *certificatesv1.CertificateSigningRequest) {
	f.t.Helper()
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
	f.Expect(f.admin.SubResource("approval").Update(context.Background(), csr)).To(Succeed())
}
