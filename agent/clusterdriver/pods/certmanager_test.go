package pods_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func expectRunning(g *WithT, driver *pods.Driver, desired clusterdriver.Desired, message types.GomegaMatcher) {
	g.THelper()
	g.Eventually(func(g Gomega) {
		inventory, err := driver.List(context.Background())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(inventory.Clusters).To(ContainElement(And(HaveField("UID", desired.UID), HaveField("Phase", clusterdriver.Running), HaveField("Message", message))))
	}).WithTimeout(4 * time.Minute).Should(Succeed())
}

// servedBy is the certificate that the API server of a cluster shows now.
func servedBy(g Gomega, kubelet *kubelet, desired clusterdriver.Desired) *x509.Certificate {
	connection, err := kubelet.Dial(context.Background(), "tcp", net.JoinHostPort(rendering.ServerName(desired.Name), "6443"))
	g.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	secured := tls.Client(connection, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It is only looked at.
	g.Expect(secured.HandshakeContext(context.Background())).To(Succeed())
	return secured.ConnectionState().PeerCertificates[0]
}

// signer plays cert-manager: it issues what Certificates ask for.
type signer struct {
	client      client.Client
	authorities map[string]rendering.Pair
}

// installCertManager installs the kinds of cert-manager, from its module.
func installCertManager(t *testing.T) *signer {
	t.Helper()
	g := NewWithT(t)
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.InstallCRDs(t.Context(), admin(), os.DirFS(strings.TrimSpace(string(module))), "deploy/crds")).To(Succeed())
	known := runtime.NewScheme()
	g.Expect(certmanagerv1.AddToScheme(known)).To(Succeed())
	g.Expect(corev1.AddToScheme(known)).To(Succeed())
	c, err := client.New(testenv.Server().Config, client.Options{Scheme: known})
	g.Expect(err).NotTo(HaveOccurred())
	return &signer{client: c, authorities: map[string]rendering.Pair{}}
}

// issue issues all Certificates of a namespace again, in the order in which cert-manager can.
func (s *signer) issue(t *testing.T, namespace string) {
	t.Helper()
	g := NewWithT(t)
	list := &certmanagerv1.CertificateList{}
	g.Expect(s.client.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
	g.Expect(list.Items).To(HaveLen(7))
	slices.SortFunc(list.Items, func(a, b certmanagerv1.Certificate) int {
		if a.Spec.IsCA {
			return -1
		}
		return strings.Compare(a.Name, b.Name)
	})
	for i := range list.Items {
		each := &list.Items[i]
		pair := s.authorities[namespace]
		var err error
		switch {
		case each.Spec.IsCA && pair.Key == nil:
			pair, err = rendering.NewAuthority(each.Spec.CommonName, time.Now())
			s.authorities[namespace] = pair
		case !each.Spec.IsCA:
			wanted := rendering.Certificate{Name: each.Name, User: each.Spec.CommonName, Names: each.Spec.DNSNames, Addresses: each.Spec.IPAddresses}
			if each.Spec.Subject != nil {
				wanted.Group = each.Spec.Subject.Organizations[0]
			}
			wanted.Server = slices.Contains(each.Spec.Usages, certmanagerv1.UsageServerAuth)
			wanted.Client = slices.Contains(each.Spec.Usages, certmanagerv1.UsageClientAuth)
			pair, err = pair.Issue(wanted, time.Now())
		}
		g.Expect(err).NotTo(HaveOccurred())
		s.store(t, each, pair)
	}
}

func (s *signer) store(t *testing.T, certificate *certmanagerv1.Certificate, pair rendering.Pair) {
	t.Helper()
	g := NewWithT(t)
	data := map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": pair.CA}
	secret := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: data, ObjectMeta: metav1.ObjectMeta{
		Namespace: certificate.Namespace, Name: certificate.Spec.SecretName, Labels: certificate.Spec.SecretTemplate.Labels, Annotations: certificate.Spec.SecretTemplate.Annotations,
	}}
	found := &corev1.Secret{}
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(secret), found); err == nil {
		found.Data = data
		g.Expect(s.client.Update(t.Context(), found)).To(Succeed())
	} else {
		g.Expect(s.client.Create(t.Context(), secret)).To(Succeed())
	}
	s.say(t, certificate, cmmeta.ConditionTrue, "Ready")
}

func (s *signer) say(t *testing.T, certificate *certmanagerv1.Certificate, status cmmeta.ConditionStatus, reason string) {
	t.Helper()
	certificate.Status.Conditions = []certmanagerv1.CertificateCondition{{Type: certmanagerv1.CertificateConditionReady, Status: status, Reason: reason, Message: "said by the test"}}
	NewWithT(t).Expect(s.client.Status().Update(t.Context(), certificate)).To(Succeed())
}

// Claim: cert-manager's certificates are reported and renewed without a restart; their maker stays. Broken: auto decided again for each Ensure; a Certificate that is not ready not told.
func TestCertManager(t *testing.T) {
	testenv.Long(t)
	g, kubelet := NewWithT(t), startKubelet(t)
	host := shortName("host")
	with := func(choice pods.PKIChoice) *pods.Driver {
		return newDriver(t, func(o *pods.Options) { o.Dial, o.Host, o.Certificates = kubelet.Dial, host, choice })
	}
	early, late := newDesired(t), newDesired(t)
	expectRefusal(g, with(pods.PKICertManager).Ensure(t.Context(), late), clusterdriver.Invalid, "--simulated-clusters-pki=cert-manager", "does not have cert-manager")
	g.Expect(with(pods.PKIAuto).Ensure(t.Context(), early)).To(Succeed())
	signer := installCertManager(t)

	driver := with(pods.PKIAuto)
	g.Expect(driver.Ensure(t.Context(), early)).To(Succeed(), "it keeps the authority that it has")
	g.Expect(signer.client.List(t.Context(), &certmanagerv1.CertificateList{}, client.InNamespace(rendering.NamespaceOf(early.Name)))).To(Succeed())
	expectRunning(g, driver, early, ContainSubstring("by the host's agent"))
	g.Expect(driver.Ensure(t.Context(), late)).To(Succeed())
	namespace := rendering.NamespaceOf(late.Name)
	expectMessage(g, driver, late, clusterdriver.Starting, "certificates by cert-manager: "+rendering.SecretOf(rendering.Authority)+" is not issued yet: if it stays so, look at cert-manager")
	signer.issue(t, namespace)
	expectRunning(g, driver, late, HaveSuffix("certificates by cert-manager"))

	process, served := kubelet.supervisor(namespace), servedBy(g, kubelet, late)
	signer.issue(t, namespace)
	g.Eventually(func(g Gomega) {
		g.Expect(servedBy(g, kubelet, late).SerialNumber).NotTo(Equal(served.SerialNumber))
	}).WithTimeout(2 * time.Minute).Should(Succeed())
	g.Expect(kubelet.supervisor(namespace)).To(Equal(process))

	broken := &certmanagerv1.Certificate{ObjectMeta: named(late, rendering.SecretOf("admin"))}
	g.Expect(signer.client.Get(t.Context(), client.ObjectKeyFromObject(broken), broken)).To(Succeed())
	signer.say(t, broken, cmmeta.ConditionFalse, "IssuerNotFound")
	expectMessage(g, driver, late, clusterdriver.Running, "certificates by cert-manager: "+broken.Name+" is not ready: IssuerNotFound: said by the test")

	g.Expect(signer.client.DeleteAllOf(t.Context(), &certmanagerv1.Certificate{}, client.InNamespace(namespace))).To(Succeed())
	expectMessage(g, driver, late, clusterdriver.Running, "certificates by cert-manager: Certificate "+rendering.SecretOf(rendering.Authority)+" is missing")
	g.Expect(driver.RepairRequests()).To(Receive())
	g.Expect(driver.Repair(t.Context())).To(Succeed())
	signer.issue(t, namespace)
	expectRunning(g, driver, late, HaveSuffix("certificates by cert-manager"))
	g.Expect(kubelet.supervisor(namespace)).To(Equal(process))
}

func expectMessage(g *WithT, driver *pods.Driver, desired clusterdriver.Desired, phase clusterdriver.Phase, message string) {
	g.THelper()
	g.Eventually(func(g Gomega) {
		inventory, err := driver.List(context.Background())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(inventory.Clusters).To(ContainElement(And(HaveField("UID", desired.UID), HaveField("Phase", phase), HaveField("Message", ContainSubstring(message)))))
	}).WithTimeout(time.Minute).Should(Succeed())
}
