package agent_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/fake"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/testenv"
)

// fixture is an agent that runs with the rights it has in production, beside the hub's part played by the test.
type fixture struct {
	t *testing.T
	*WithT
	ctx     context.Context
	env     *testenv.Environment
	admin   client.Client
	cluster string
	health  string
	log     *lockedBuffer
	stopped chan error
	cancel  context.CancelFunc
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// hostNamespace is that of config/rbac/agent-workload.
const hostNamespace = "hollowfleet"

func freePort(g *WithT) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// start runs an agent. change may change its options.
func start(t *testing.T, cluster string, change func(*agent.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, WithT: NewWithT(t), ctx: context.Background(), env: agenttest.Environment(t), cluster: cluster, log: &lockedBuffer{}}
	f.admin = f.env.Client
	f.health = freePort(f.WithT)
	hub, err := f.env.Cluster.Kubeconfig(f.ctx, "hollowfleet.io:agent:"+cluster, v1alpha1.AgentGroupPrefix+cluster)
	f.Expect(err).NotTo(HaveOccurred())
	target, err := f.env.Cluster.Kubeconfig(f.ctx, "hollowfleet-agent", "hollowfleet:agents")
	f.Expect(err).NotTo(HaveOccurred())
	options := agent.Options{
		ClusterName: cluster, HubKubeconfig: hub, TargetKubeconfig: target, HealthAddress: f.health,
		Version: "v0-test", Log: logr.FromSlogHandler(slog.NewTextHandler(f.log, nil)),
	}
	if change != nil {
		change(&options)
	}
	f.run(options)
	return f
}

func (f *fixture) run(options agent.Options) {
	ctx, cancel := context.WithCancel(f.ctx)
	f.cancel, f.stopped = cancel, make(chan error, 1)
	stopped := f.stopped
	go func() { stopped <- agent.Run(ctx, options) }()
	f.t.Cleanup(func() {
		cancel()
		select {
		case <-stopped:
		case <-time.After(agenttest.Wait):
			f.t.Error("the agent does not stop")
		}
		if f.t.Failed() {
			f.t.Logf("log of the agent:\n%s", f.log)
		}
	})
}

// accept does what the hub does for a cluster that a user has accepted.
func (f *fixture) accept() {
	f.t.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.cluster}}
	cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	name := "agent-" + f.cluster
	agents := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: v1alpha1.AgentGroupPrefix + f.cluster}}
	for _, object := range []client.Object{
		cluster,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.cluster}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, ResourceNames: []string{f.cluster}, Verbs: []string{"get"}},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{f.cluster}, Verbs: []string{"patch"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: agents, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: name}, Subjects: agents, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hollowfleet-agent"}},
	} {
		f.Expect(client.IgnoreAlreadyExists(f.admin.Create(f.ctx, object))).To(Succeed())
	}
	f.Expect(f.admin.Get(f.ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
	cluster.Status.Namespace = f.cluster
	f.Expect(f.admin.Status().Update(f.ctx, cluster)).To(Succeed())
}

func (f *fixture) get(path string) (int, string) {
	response, err := http.Get("http://" + f.health + path) //nolint:noctx // a test's own server on loopback
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func (f *fixture) frozen() freeze.State {
	_, body := f.get("/frozenz?format=json")
	var state freeze.State
	_ = json.Unmarshal([]byte(body), &state)
	return state
}

func (f *fixture) waitThawed() {
	f.t.Helper()
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(And(HaveField("Frozen", false), HaveField("Endpoints", Not(BeEmpty()))), "the agent does not thaw")
}

func (f *fixture) machine(name string) *v1alpha1.Machine {
	f.t.Helper()
	machine := agenttest.Machine(f.cluster, name)
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
	machine.Spec.Roles = []string{"worker"}
	f.Expect(f.admin.Create(f.ctx, machine)).To(Succeed())
	return machine
}

func (f *fixture) exists(o client.Object, namespace, name string) func() error {
	return func() error { return f.admin.Get(f.ctx, client.ObjectKey{Namespace: namespace, Name: name}, o) }
}

func (f *fixture) goes(o client.Object, namespace, name string) {
	f.t.Helper()
	f.Eventually(func() bool { return apierrors.IsNotFound(f.exists(o, namespace, name)()) }).
		WithTimeout(agenttest.Wait).Should(BeTrue(), "%T %s/%s stays", o, namespace, name)
}

// kubelet does what the hollow-node of a Machine does: it joins with what is in the Secret, under the rules that
// hold for kubelets, and registers the Node.
func (f *fixture) kubelet(name string) client.Client {
	f.t.Helper()
	secret := &corev1.Secret{}
	f.Eventually(f.exists(secret, hostNamespace, name)).WithTimeout(agenttest.Wait).Should(Succeed())
	configuration, err := hollownode.Parse(secret.Data[hollownode.ConfigFileName])
	f.Expect(err).NotTo(HaveOccurred())
	bootstrap, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[hollownode.BootstrapKubeconfigFileName])
	f.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(f.identity(bootstrap, name), client.Options{Scheme: testenv.Scheme()})
	f.Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: configuration.NodeName, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	node.Spec.ProviderID = configuration.ProviderID
	f.Expect(c.Create(f.ctx, node)).To(Succeed())
	f.t.Cleanup(func() { _ = f.admin.Delete(f.ctx, node) })
	return c
}

// identity asks for the client certificate of a node and waits for it.
func (f *fixture) identity(bootstrap *rest.Config, name string) *rest.Config {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
	}, key)
	f.Expect(err).NotTo(HaveOccurred())
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-csr-"}}
	csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	csr.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	asker, err := client.New(bootstrap, client.Options{Scheme: testenv.Scheme()})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(asker.Create(f.ctx, csr)).To(Succeed())
	f.Eventually(func() ([]byte, error) {
		err := f.admin.Get(f.ctx, client.ObjectKeyFromObject(csr), csr)
		return csr.Status.Certificate, err
	}).WithTimeout(agenttest.Wait).ShouldNot(BeEmpty(), "the node's certificate is not issued")
	keyDER, err := x509.MarshalECPrivateKey(key)
	f.Expect(err).NotTo(HaveOccurred())
	own := rest.AnonymousClientConfig(bootstrap)
	own.CertData, own.KeyData = csr.Status.Certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	return own
}

func (f *fixture) nodeReady(c client.Client, name string) {
	f.t.Helper()
	f.Eventually(func() error {
		node := &corev1.Node{}
		if err := c.Get(f.ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		node.Status.Capacity = corev1.ResourceList{"cpu": *node.Status.Capacity.Cpu()}
		return c.Status().Update(f.ctx, node)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

func (f *fixture) podReady(name string) {
	f.t.Helper()
	pod := &corev1.Pod{}
	f.Eventually(f.exists(pod, hostNamespace, name)).WithTimeout(agenttest.Wait).Should(Succeed())
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	f.Expect(f.admin.Status().Update(f.ctx, pod)).To(Succeed())
}

func (f *fixture) waitReady(machine *v1alpha1.Machine) {
	f.t.Helper()
	f.Eventually(func() (bool, error) {
		err := f.admin.Get(f.ctx, client.ObjectKeyFromObject(machine), machine)
		return meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition), err
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "the machine does not get Ready")
}

// machineWrites counts the successful writes to Machines that the API server has seen.
func (f *fixture) machineWrites() int {
	f.t.Helper()
	httpClient, err := rest.HTTPClientFor(f.env.Config)
	f.Expect(err).NotTo(HaveOccurred())
	response, err := httpClient.Get(f.env.Config.Host + "/metrics") //nolint:noctx // a test's own server on loopback
	f.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	f.Expect(err).NotTo(HaveOccurred())
	total := 0
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		writes := map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true}
		if labels["resource"] == "machines" && writes[labels["verb"]] && strings.HasPrefix(labels["code"], "2") {
			total += int(metric.GetCounter().GetValue())
		}
	}
	return total
}

func TestRun(t *testing.T) {
	f := start(t, "run-1", nil)

	// Not accepted: it waits, says so, and is healthy and ready all the same.
	f.Eventually(func() string { _, body := f.get("/readyz"); return body }).WithTimeout(agenttest.Wait).
		Should(ContainSubstring(`the hub to show this agent Cluster "run-1": Forbidden`))
	code, _ := f.get("/readyz")
	f.Expect(code).To(Equal(http.StatusOK))
	f.Expect(f.frozen().Reason).To(Equal(v1alpha1.ReasonStarting))

	f.accept()
	f.waitThawed()
	f.Eventually(func() bool {
		cluster := &v1alpha1.Cluster{}
		f.Expect(f.exists(cluster, "", f.cluster)()).To(Succeed())
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterTargetReachableCondition) &&
			meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition) &&
			cluster.Status.AgentVersion == "v0-test" && cluster.Status.KubernetesVersion != "" && cluster.Status.ClusterUID != ""
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "the agent's part of the Cluster's status")

	before := f.machineWrites()
	machine := f.machine("run-m1")
	kubelet := f.kubelet(machine.Name)
	f.Eventually(func() (*string, error) {
		err := f.exists(machine, f.cluster, machine.Name)()
		return machine.Spec.ProviderID, err
	}).WithTimeout(agenttest.Wait).Should(HaveValue(Equal("hollowfleet://run-1/run-m1")))
	f.podReady(machine.Name)
	f.nodeReady(kubelet, machine.Name)
	f.waitReady(machine)
	f.Expect(f.machineWrites()-before).To(Equal(3), "hub writes per machine from creation to Ready: create, providerID, status")
	node := &corev1.Node{}
	f.Expect(f.exists(node, "", machine.Name)()).To(Succeed())
	f.Expect(node.Labels).To(HaveKey("node-role.kubernetes.io/worker"))

	// A pod that is lost comes back; the Secret has a new token.
	pod := &corev1.Pod{}
	f.Expect(f.exists(pod, hostNamespace, machine.Name)()).To(Succeed())
	lost := pod.UID
	f.Expect(f.admin.Delete(f.ctx, pod)).To(Succeed())
	f.Eventually(func() (bool, error) {
		err := client.IgnoreNotFound(f.exists(pod, hostNamespace, machine.Name)())
		return pod.UID != lost, err
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "the pod does not come back")

	f.Expect(f.admin.Delete(f.ctx, machine)).To(Succeed())
	f.goes(&v1alpha1.Machine{}, f.cluster, machine.Name)
	f.goes(&corev1.Node{}, "", machine.Name)
	f.goes(&corev1.Pod{}, hostNamespace, machine.Name)
	f.goes(&corev1.Secret{}, hostNamespace, machine.Name)
	requests := &certificatesv1.CertificateSigningRequestList{}
	f.Expect(f.admin.List(f.ctx, requests)).To(Succeed())
	f.Expect(requests.Items).To(BeEmpty(), "the node's certificate requests are left")

	f.cancel()
	f.Eventually(f.stopped).WithTimeout(agenttest.Wait).Should(Receive(BeNil()))
	f.stopped <- nil
	f.Expect(f.log.String()).NotTo(ContainSubstring("level=ERROR"), "an uneventful life logs no error")
}

func TestAnotherMachinesTokenGetsNoIdentity(t *testing.T) {
	f := start(t, "run-2", nil)
	f.accept()
	f.waitThawed()
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
	thief, err := client.New(bootstrap, client.Options{Scheme: testenv.Scheme()})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(thief.Create(f.ctx, csr)).To(Succeed())
	// The agent has looked at it when it has approved one that came later.
	f.identity(bootstrap, "theft-1")
	f.Expect(f.admin.Get(f.ctx, client.ObjectKeyFromObject(csr), csr)).To(Succeed())
	f.Expect(csr.Status.Conditions).To(BeEmpty())
}

// tunnel forwards TCP connections to an API server until it is cut.
type tunnel struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	cut      bool
	open     []net.Conn
}

func newTunnel(t *testing.T, to string) *tunnel {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tunnel := &tunnel{listener: listener, to: to}
	go tunnel.serve()
	t.Cleanup(func() { _ = listener.Close(); tunnel.set(true) })
	return tunnel
}

func (n *tunnel) serve() {
	for {
		from, err := n.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", n.to)
		n.mu.Lock()
		if n.cut || err != nil {
			_ = from.Close()
			n.mu.Unlock()
			continue
		}
		n.open = append(n.open, from, to)
		n.mu.Unlock()
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

// set cuts all connections and refuses new ones, or lets them through again.
func (n *tunnel) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	if cut {
		for _, connection := range n.open {
			_ = connection.Close()
		}
		n.open = nil
	}
}

// through returns a kubeconfig that is path, but goes through a tunnel.
func through(f *WithT, t *testing.T, path string) (string, *tunnel) {
	config, err := clientcmd.LoadFromFile(path)
	f.Expect(err).NotTo(HaveOccurred())
	var n *tunnel
	for _, cluster := range config.Clusters {
		n = newTunnel(t, strings.TrimPrefix(cluster.Server, "https://"))
		cluster.Server = "https://" + n.listener.Addr().String()
	}
	file := t.TempDir() + "/kubeconfig"
	f.Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	return file, n
}

func TestFreezeAndThaw(t *testing.T) {
	var hub, target *tunnel
	f := start(t, "run-3", func(o *agent.Options) {
		g := NewWithT(t)
		o.HubKubeconfig, hub = through(g, t, o.HubKubeconfig)
		o.TargetKubeconfig, target = through(g, t, o.TargetKubeconfig)
		o.FreezeAfter = 2 * time.Second
	})
	f.accept()
	f.waitThawed()
	machine := f.machine("freeze-m1")
	pod := &corev1.Pod{}
	f.Eventually(f.exists(pod, hostNamespace, machine.Name)).WithTimeout(agenttest.Wait).Should(Succeed())

	// Without the hub: a lost pod stays lost, however well the target is.
	hub.set(true)
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(And(HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonHubUnreachable)))
	code, body := f.get("/readyz")
	f.Expect(code).To(Equal(http.StatusOK), "a frozen agent must not be restarted: %s", body)
	f.Expect(f.admin.Delete(f.ctx, pod)).To(Succeed())
	f.goes(&corev1.Pod{}, hostNamespace, machine.Name)
	f.Consistently(func() bool { return apierrors.IsNotFound(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)()) }).
		WithTimeout(3*time.Second).Should(BeTrue(), "a pod was made while frozen")
	hub.set(false)
	f.waitThawed()
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
	f.Expect(f.admin.Delete(f.ctx, machine)).To(Succeed())
	f.Consistently(f.exists(pod, hostNamespace, machine.Name)).WithTimeout(2 * time.Second).Should(Succeed())
	target.set(false)
	f.goes(&v1alpha1.Machine{}, f.cluster, machine.Name)
	f.goes(&corev1.Pod{}, hostNamespace, machine.Name)
}

func TestRunRefusesBadOptions(t *testing.T) {
	tests := map[string]struct {
		options agent.Options
		want    string
	}{
		"no cluster name":    {agent.Options{HubKubeconfig: "x"}, "--cluster-name: "},
		"a bad cluster name": {agent.Options{ClusterName: "A.b", HubKubeconfig: "x"}, `--cluster-name: "A.b"`},
		"no hub":             {agent.Options{ClusterName: "c1"}, "--hub-kubeconfig: required"},
		"a bad namespace":    {agent.Options{ClusterName: "c1", HubKubeconfig: "x", HostNamespace: "a/b"}, `--host-namespace: "a/b"`},
		"a short freeze":     {agent.Options{ClusterName: "c1", HubKubeconfig: "x", FreezeAfter: time.Millisecond}, "--freeze-after: want at least 1s"},
		"a missing file":     {agent.Options{ClusterName: "c1", HubKubeconfig: "/nonexistent"}, `loading kubeconfig "/nonexistent"`},
		"a second hollow":    {agent.Options{ClusterName: "c1", HubKubeconfig: "x", Drivers: drivers("hollow")}, `provider "hollow" is built in`},
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

func TestRunFailsWhenItsPortIsTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	environment := agenttest.Environment(t)
	err = agent.Run(context.Background(), agent.Options{
		ClusterName: "c1", HubKubeconfig: environment.Cluster.AdminKubeconfig(), TargetKubeconfig: environment.Cluster.AdminKubeconfig(),
		HealthAddress: listener.Addr().String(), Log: logr.Discard(),
	})
	if err == nil || !strings.Contains(err.Error(), "opening the port of the health server") {
		t.Errorf("Run = %v", err)
	}
}

func drivers(names ...string) map[string]driver.Factory {
	factories := map[string]driver.Factory{}
	for _, name := range names {
		factories[name] = fake.New("c1").Factory()
	}
	return factories
}
