package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/fake"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	machinecontroller "github.com/hollowfleet/hollowfleet/agent/internal/machine"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// Claim: An agent watches its own namespace only. Broken: the cache watches all namespaces. Also: test/integration/lifecycle "should reach nothing of another cluster with its credentials".
func TestRun(t *testing.T) {
	f := start(t, "run-1", nil)

	// Not accepted: it waits, says so, and is healthy and ready all the same.
	f.Eventually(func() string { _, body := f.get("/readyz"); return body }).WithTimeout(agenttest.Wait).
		Should(ContainSubstring(`the hub to show this agent Cluster "run-1": Forbidden`))
	code, _ := f.get("/readyz")
	f.Expect(code).To(Equal(http.StatusOK))
	f.Expect(f.frozen().Reason).To(Equal(v1alpha1.ReasonStarting))

	f.accept()
	f.expectThawed()
	f.Eventually(func() bool {
		cluster := &v1alpha1.Cluster{}
		f.Expect(f.exists(cluster, "", f.cluster)()).To(Succeed())
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterTargetReachableCondition) &&
			meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition) &&
			cluster.Status.AgentVersion == "v0-test" && cluster.Status.KubernetesVersion != "" && cluster.Status.ClusterUID != ""
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "the agent's part of the Cluster's status")

	before, begun := f.machineWrites(), time.Now()
	machine := f.machine("run-m1")
	kubelet := f.kubelet(machine.Name)
	f.Eventually(func() (*string, error) {
		err := f.exists(machine, f.cluster, machine.Name)()
		return machine.Spec.ProviderID, err
	}).WithTimeout(agenttest.Wait).Should(HaveValue(Equal("hollowfleet://run-1/run-m1")))
	f.markPodReady(machine.Name)
	f.markNodeReady(kubelet, machine.Name)
	f.expectReady(machine)
	// On a slow host a step takes so long that the agent tells the hub of the wait.
	stalls := int(time.Since(begun) / machinecontroller.DefaultStallAfter)
	f.Expect(f.machineWrites()-before).To(And(BeNumerically(">=", 3), BeNumerically("<=", 3+stalls)), "hub writes per machine from creation to Ready: create, providerID, status")
	node := &corev1.Node{}
	f.Expect(f.exists(node, "", machine.Name)()).To(Succeed())
	f.Expect(node.Labels).To(HaveKey("node-role.kubernetes.io/worker"))

	// A pod that is lost comes back; the Secret has a new token.
	pod := &corev1.Pod{}
	f.Expect(f.exists(pod, hostNamespace, machine.Name)()).To(Succeed())
	lost := pod.UID
	f.Expect(f.admin.Delete(context.Background(), pod)).To(Succeed())
	f.Eventually(func() (bool, error) {
		err := client.IgnoreNotFound(f.exists(pod, hostNamespace, machine.Name)())
		return pod.UID != lost, err
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "the pod does not come back")

	f.Expect(f.admin.Delete(context.Background(), machine)).To(Succeed())
	f.expectGone(&v1alpha1.Machine{}, f.cluster, machine.Name)
	f.expectGone(&corev1.Node{}, "", machine.Name)
	f.expectGone(&corev1.Pod{}, hostNamespace, machine.Name)
	f.expectGone(&corev1.Secret{}, hostNamespace, machine.Name)
	requests := &certificatesv1.CertificateSigningRequestList{}
	f.Expect(f.admin.List(context.Background(), requests, ofKubelets)).To(Succeed())
	f.Expect(requests.Items).To(BeEmpty(), "the node's certificate requests are left")

	f.cancel()
	f.Eventually(f.stopped).WithTimeout(agenttest.Wait).Should(Receive(BeNil()))
	f.stopped <- nil
	f.Expect(f.log.String()).NotTo(ContainSubstring("level=ERROR"), "an uneventful life logs no error")
}

func TestAnotherMachinesTokenGetsNoIdentity(t *testing.T) {
	f := start(t, "run-2", nil)
	f.accept()
	f.expectThawed()
	f.machine("theft-1")
	f.machine("theft-2")
	secret := &corev1.Secret{}
	f.Eventually(f.exists(secret, hostNamespace, "theft-1")).WithTimeout(agenttest.Wait).Should(Succeed())
	f.Eventually(f.exists(&corev1.Secret{}, hostNamespace, "theft-2")).WithTimeout(agenttest.Wait).Should(Succeed())
	bootstrap, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[hollownode.BootstrapKubeconfigFileName])
	f.Expect(err).NotTo(HaveOccurred())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:theft-2", Organization: []string{"system:nodes"}},
	}, key)
	f.Expect(err).NotTo(HaveOccurred())
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "theft-"}}
	csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	csr.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	thief, err := client.New(bootstrap, client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(thief.Create(context.Background(), csr)).To(Succeed())
	// The agent has looked at it when it has approved one that came later.
	f.identity(bootstrap, "theft-1")
	f.Expect(f.admin.Get(context.Background(), client.ObjectKeyFromObject(csr), csr)).To(Succeed())
	f.Expect(csr.Status.Conditions).To(BeEmpty())
}

// Claim: A node gets a serving certificate for its own name and addresses alone. Broken: the agent does not watch that signer; its role does not name it; the addresses of the Node, which the node writes, count. Also: agent/internal/csrapprover TestServingCertificates; agent/driver/hollow TestAddressesAreThoseOfThePod.
func TestServingCertificatesAreForTheNodesOwnAddress(t *testing.T) {
	f := start(t, "run-port", nil)
	f.accept()
	f.expectThawed()
	machine := f.machine("port-1")
	kubelet := f.kubelet(machine.Name)
	ask := func(addresses ...net.IP) *certificatesv1.CertificateSigningRequest {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		f.Expect(err).NotTo(HaveOccurred())
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: "system:node:port-1", Organization: []string{"system:nodes"}},
			DNSNames: []string{"port-1"}, IPAddresses: addresses,
		}, key)
		f.Expect(err).NotTo(HaveOccurred())
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"}}
		csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		csr.Spec.SignerName = certificatesv1.KubeletServingSignerName
		csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
		f.Expect(kubelet.Create(context.Background(), csr)).To(Succeed())
		return csr
	}
	f.Eventually(func() error {
		pod := &corev1.Pod{}
		if err := f.exists(pod, hostNamespace, machine.Name)(); err != nil {
			return err
		}
		pod.Status.PodIP, pod.Status.PodIPs = "127.64.0.9", []corev1.PodIP{{IP: "127.64.0.9"}}
		return f.admin.Status().Update(context.Background(), pod)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	f.Eventually(func() error {
		node := &corev1.Node{}
		if err := kubelet.Get(context.Background(), client.ObjectKey{Name: machine.Name}, node); err != nil {
			return err
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.64.0.10"}}
		return kubelet.Status().Update(context.Background(), node)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	stolen := ask(net.IPv4(127, 64, 0, 10))
	own := ask(net.IPv4(127, 64, 0, 9), net.IPv4(241, 64, 0, 9))
	f.Eventually(func() ([]byte, error) {
		err := f.admin.Get(context.Background(), client.ObjectKeyFromObject(own), own)
		return own.Status.Certificate, err
	}).WithTimeout(agenttest.Wait).ShouldNot(BeEmpty(), "the serving certificate is not issued")
	f.Expect(f.admin.Get(context.Background(), client.ObjectKeyFromObject(stolen), stolen)).To(Succeed())
	f.Expect(stolen.Status.Conditions).To(BeEmpty())

	f.Expect(f.admin.Delete(context.Background(), machine)).To(Succeed())
	f.expectGone(&v1alpha1.Machine{}, f.cluster, machine.Name)
	for _, csr := range []*certificatesv1.CertificateSigningRequest{own, stolen} {
		f.expectGone(&certificatesv1.CertificateSigningRequest{}, "", csr.Name)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	var hub, target *tunnel
	f := start(t, "run-3", func(o *agent.Options) {
		g := NewWithT(t)
		o.HubKubeconfig, hub = through(g, t, o.HubKubeconfig)
		o.TargetKubeconfig, target = through(g, t, o.TargetKubeconfig)
		o.FreezeAfter = 2 * time.Second
	})
	f.accept()
	f.expectThawed()
	machine := f.machine("freeze-m1")
	pod := &corev1.Pod{}
	f.Eventually(f.exists(pod, hostNamespace, machine.Name)).WithTimeout(agenttest.Wait).Should(Succeed())

	// Without the hub: a lost pod stays lost, however well the target is.
	hub.set(true)
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(And(HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonHubUnreachable)))
	code, body := f.get("/readyz")
	f.Expect(code).To(Equal(http.StatusOK), "a frozen agent must not be restarted: %s", body)
	f.Expect(f.admin.Delete(context.Background(), pod)).To(Succeed())
	f.expectGone(&corev1.Pod{}, hostNamespace, machine.Name)
	f.Consistently(func() bool { return apierrors.IsNotFound(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)()) }).
		WithTimeout(3*time.Second).Should(BeTrue(), "a pod was made while frozen")
	hub.set(false)
	f.expectThawed()
	f.Eventually(f.exists(pod, hostNamespace, machine.Name)).WithTimeout(agenttest.Wait).Should(Succeed(), "the thaw wakes the machine")

	// Without the target: the hub is told, and a deletion waits.
	target.set(true)
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(HaveField("Reason", v1alpha1.ReasonTargetUnreachable))
	cluster := &v1alpha1.Cluster{}
	f.Eventually(func() (bool, error) {
		err := f.exists(cluster, "", f.cluster)()
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition) &&
			meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ClusterTargetReachableCondition), err
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "the hub is not told")
	f.Expect(f.admin.Delete(context.Background(), machine)).To(Succeed())
	f.Consistently(f.exists(pod, hostNamespace, machine.Name)).WithTimeout(2 * time.Second).Should(Succeed())
	target.set(false)
	f.expectGone(&v1alpha1.Machine{}, f.cluster, machine.Name)
	f.expectGone(&corev1.Pod{}, hostNamespace, machine.Name)
}

func TestRunRefusesBadOptions(t *testing.T) {
	admin := agenttest.Environment(t).Cluster.AdminKubeconfig()
	tests := map[string]struct {
		options agent.Options
		want    string
	}{
		"no cluster name":             {agent.Options{HubOptions: agent.HubOptions{HubKubeconfig: "x"}}, "--cluster-name: "},
		"a bad cluster name":          {agent.Options{ClusterName: "A.b", HubOptions: agent.HubOptions{HubKubeconfig: "x"}}, `--cluster-name: "A.b"`},
		"no hub":                      {agent.Options{ClusterName: "c1"}, "--bootstrap-kubeconfig: required"},
		"two ways":                    {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x", BootstrapKubeconfig: "y"}}, "--hub-kubeconfig, --bootstrap-kubeconfig: only one"},
		"no store":                    {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{BootstrapKubeconfig: "y"}}, "--credential-dir: required with --bootstrap-kubeconfig"},
		"two stores":                  {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{BootstrapKubeconfig: "y", CredentialDir: "d", CredentialSecret: "a/b"}}, "--credential-dir, --credential-secret: only one"},
		"a Secret without namespace":  {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{BootstrapKubeconfig: "y", CredentialSecret: "b"}}, `--credential-secret: want namespace/name, got "b"`},
		"a Secret of no use":          {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x", CredentialSecret: "a/b"}}, "--credential-secret: of use with --bootstrap-kubeconfig only"},
		"a short lifetime":            {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x", CertificateLifetime: time.Minute}}, "--certificate-lifetime: want 10m0s to"},
		"no way to the hub at all":    {agent.Options{ClusterName: "c1", WorkloadOptions: agent.WorkloadOptions{TargetKubeconfig: admin}, HubOptions: agent.HubOptions{BootstrapKubeconfig: "/nonexistent", CredentialDir: t.TempDir()}}, "/nonexistent: no such file or directory; and there is no credential in directory"},
		"a bad namespace":             {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, WorkloadOptions: agent.WorkloadOptions{HostNamespace: "a/b"}}, `--host-namespace: "a/b"`},
		"no deletions after a freeze": {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, FreezeOptions: agent.FreezeOptions{ThawDeletionsPerMinute: -1}}, "--thaw-deletions-per-minute: want at least 1, got -1"},
		"a negative thaw period":      {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, FreezeOptions: agent.FreezeOptions{ThawPeriod: -time.Second}}, "--thaw-period: want more than 0, got -1s"},
		"a taint of another kind":     {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, NodeOptions: agent.NodeOptions{HollowTaint: "always"}}, `--hollow-taint: want Auto, Always or Never, got "always"`},
		"a short freeze":              {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, FreezeOptions: agent.FreezeOptions{FreezeAfter: time.Millisecond}}, "--freeze-after: want at least 1s"},
		"no target outside a cluster": {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: admin}}, "--target-kubeconfig: no kubeconfig given, and this is not a pod"},
		"a missing file":              {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "/nonexistent"}, WorkloadOptions: agent.WorkloadOptions{TargetKubeconfig: admin}}, `--hub-kubeconfig: loading kubeconfig "/nonexistent"`},
		"a relative socket":           {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedClustersSocket: "keeper.sock"}, `--simulated-clusters-socket: want an absolute path, got "keeper.sock"`},
		"a long socket":               {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedClustersSocket: "/" + strings.Repeat("a", 107)}, "--simulated-clusters-socket: want at most 107 bytes, got 108"},
		"two ways to simulate":        {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedClustersSocket: "/s", SimulatedPods: agent.SimulatedPodOptions{By: "pods"}}, "--simulated-clusters, --simulated-clusters-socket: only one of them"},
		"no pods":                     {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedPods: agent.SimulatedPodOptions{By: "vms"}}, `--simulated-clusters: want pods or nothing, got "vms"`},
		"no PKI":                      {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedPods: agent.SimulatedPodOptions{Certificates: "vault"}}, `--simulated-clusters-pki: want auto, cert-manager or self-signed, got "vault"`},
		"no size":                     {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedPods: agent.SimulatedPodOptions{StorageSize: "big"}}, `--simulated-clusters-storage-size: want a size such as 2Gi, got "big"`},
		"no class":                    {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedPods: agent.SimulatedPodOptions{StorageClass: "a b"}}, `--simulated-clusters-storage-class: "a b" is not`},
		"no quota":                    {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedPods: agent.SimulatedPodOptions{Quota: map[string]string{"pods": "many"}}}, "--simulated-clusters-quota: want a resource and a quantity"},
		"no room":                     {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, SimulatedPods: agent.SimulatedPodOptions{Max: -1}}, "--simulated-clusters-max: want at least 1, got -1"},
		"a Secret of the hub":         {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{BootstrapKubeconfig: "y", CredentialSecret: "a/b", CredentialSecretCluster: "hub"}}, `--credential-secret-cluster: want target or host, got "hub"`},
		"a cluster without a Secret":  {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{BootstrapKubeconfig: "y", CredentialDir: "d", CredentialSecretCluster: "host"}}, "--credential-secret-cluster: of use with --credential-secret only"},
		"a second hollow":             {agent.Options{ClusterName: "c1", HubOptions: agent.HubOptions{HubKubeconfig: "x"}, NodeOptions: agent.NodeOptions{Drivers: drivers("hollow")}}, `provider "hollow" is built in`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := agent.Run(context.Background(), test.options)
			var usage *agent.UsageError
			if !errors.As(err, &usage) || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("Run = %v, want a usage error with %q", err, test.want)
			}
		})
	}
}

func TestRunStopsBeforeItHasSeenItsTarget(t *testing.T) {
	f := start(t, "blind", func(o *agent.Options) {
		var target *tunnel
		o.TargetKubeconfig, target = through(NewWithT(t), t, o.TargetKubeconfig)
		target.set(true)
	})
	f.accept()
	f.Eventually(f.log.String).WithTimeout(agenttest.Wait).Should(ContainSubstring("msg=Working"))
	f.Consistently(f.stopped).Should(BeEmpty(), "it waits for the target")
	f.stop()
	f.Expect(f.log.String()).To(ContainSubstring("msg=Stopped"))
}

func TestRunFailsWhenItsPortIsTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	environment := agenttest.Environment(t)
	hub, target := join(t, "c1"), targetKubeconfig(NewWithT(t), environment)
	err = agent.Run(context.Background(), agent.Options{
		ClusterName:     "c1",
		HubOptions:      agent.HubOptions{HubKubeconfig: hub},
		WorkloadOptions: agent.WorkloadOptions{TargetKubeconfig: target},
		ServeOptions:    telemetry.ServeOptions{HealthAddress: listener.Addr().String()},
		Log:             logr.Discard(),
	})
	if err == nil || !strings.Contains(err.Error(), "opening the port of the health server") {
		t.Errorf("Run = %v", err)
	}
}

// No rule of the hub would keep an agent with such credentials to its own cluster.
func TestRunRefusesAnotherIdentityThanTheAgentsOwn(t *testing.T) {
	environment := agenttest.Environment(t)
	another, target := join(t, "c10"), targetKubeconfig(NewWithT(t), environment)
	for name, test := range map[string]struct{ hub, want string }{
		"an administrator's": {environment.Cluster.AdminKubeconfig(), "--hub-kubeconfig: the hub identifies its user as"},
		"another cluster's":  {another, `--hub-kubeconfig: the hub identifies its user as "hollowfleet.io:agent:c10", want "hollowfleet.io:agent:c1"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, cancel := context.WithTimeout(t.Context(), agenttest.Wait)
			defer cancel()
			err := agent.Run(ctx, agent.Options{
				ClusterName:     "c1",
				HubOptions:      agent.HubOptions{HubKubeconfig: test.hub},
				WorkloadOptions: agent.WorkloadOptions{TargetKubeconfig: target},
				ServeOptions:    telemetry.ServeOptions{HealthAddress: freeAddress(g)},
				Log:             logr.Discard(),
			})
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

// The program that renews the kubeconfig may replace it with a wrong one at any time.
func TestAnotherIdentityIsNotTakenWhileTheAgentRuns(t *testing.T) {
	var path string
	f := start(t, "run-5", func(o *agent.Options) { path = o.HubKubeconfig })
	f.accept()
	f.expectThawed()
	admin, err := os.ReadFile(f.env.Cluster.AdminKubeconfig())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(os.WriteFile(path, admin, 0o600)).To(Succeed())
	f.Eventually(f.log.String).WithTimeout(agenttest.Wait).Should(And(
		ContainSubstring("Following the hub's kubeconfig failed; trying again"), ContainSubstring(`want \"hollowfleet.io:agent:run-5\"`)))
	f.Expect(f.log.String()).NotTo(ContainSubstring("Following a change of the hub's kubeconfig"))
}

func TestRunAsksAgainWhoItIsOfAHubThatRefuses(t *testing.T) {
	environment := agenttest.Environment(t)
	another, target := join(t, "c11"), targetKubeconfig(NewWithT(t), environment)
	for name, test := range map[string]struct {
		refusals int64
		ended    types.GomegaMatcher
		log      string
	}{
		"for a moment, as one that starts":           {2, MatchError(ContainSubstring(`want "hollowfleet.io:agent:c1"`)), "Waiting to know who this agent is"},
		"for good, and continues without knowing it": {math.MaxInt64, BeNil(), "Continuing without knowing who this agent is"},
	} {
		t.Run(name, func(t *testing.T) {
			g, log := NewWithT(t), &lockedBuffer{}
			hub, asked := refusing(g, t, another, test.refusals)
			ctx, cancel := context.WithTimeout(t.Context(), agenttest.Wait)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- agent.Run(ctx, agent.Options{
					ClusterName:     "c1",
					HubOptions:      agent.HubOptions{HubKubeconfig: hub},
					WorkloadOptions: agent.WorkloadOptions{TargetKubeconfig: target},
					ServeOptions:    telemetry.ServeOptions{HealthAddress: freeAddress(g)},
					Log:             logr.FromSlogHandler(slog.NewTextHandler(log, nil)),
				})
			}()
			g.Eventually(asked.Load).WithTimeout(agenttest.Wait).Should(BeNumerically("==", 3), "how often it asks")
			g.Eventually(log.String).WithTimeout(agenttest.Wait).Should(ContainSubstring(test.log))
			if test.refusals == math.MaxInt64 {
				cancel()
			}
			g.Eventually(ended).WithTimeout(agenttest.Wait).Should(Receive(test.ended))
		})
	}
}

// refusing returns a kubeconfig of the hub whose user is path's, who may not ask who it is the first times; asked counts
// how often it did.
func refusing(g *WithT, t *testing.T, path string, times int64) (kubeconfig string, asked *atomic.Int64) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	g.Expect(err).NotTo(HaveOccurred())
	server, err := url.Parse(config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.Transport, err = rest.TransportFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	asked = &atomic.Int64{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") && asked.Add(1) <= times {
			http.Error(w, "not yet", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	through := clientcmdapi.NewConfig()
	through.Clusters["hub"] = &clientcmdapi.Cluster{Server: front.URL}
	through.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub"}
	through.CurrentContext = "hub"
	kubeconfig = t.TempDir() + "/kubeconfig"
	g.Expect(clientcmd.WriteToFile(*through, kubeconfig)).To(Succeed())
	return kubeconfig, asked
}

func drivers(names ...string) map[string]driver.Factory {
	factories := map[string]driver.Factory{}
	for _, name := range names {
		factories[name] = fake.New("c1").Factory()
	}
	return factories
}
