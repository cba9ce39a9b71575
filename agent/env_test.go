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
	"io"
	"log/slog"
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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// env is an agent that runs with the rights it has in production, beside the hub's part played by the test.
type env struct {
	t *testing.T
	*WithT
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

func freeAddress(g *WithT) string {
	address, err := testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	return address
}

// start runs the agent of a cluster that has joined. change may change its options.
func start(t *testing.T, cluster string, change func(*agent.Options)) *env {
	t.Helper()
	hub := join(t, cluster)
	return run(t, cluster, func(o *agent.Options) {
		o.HubKubeconfig = hub
		if change != nil {
			change(o)
		}
	})
}

// run runs an agent whose way to the hub change sets.
func run(t *testing.T, cluster string, change func(*agent.Options)) *env {
	t.Helper()
	f := &env{t: t, WithT: NewWithT(t), env: agenttest.Environment(t), cluster: cluster, log: &lockedBuffer{}}
	f.admin = f.env.Client
	f.forgetLater()
	f.health = freeAddress(f.WithT)
	options := agent.Options{
		ClusterName:     cluster,
		WorkloadOptions: agent.WorkloadOptions{TargetKubeconfig: targetKubeconfig(f.WithT, f.env)},
		ServeOptions:    telemetry.ServeOptions{HealthAddress: f.health},
		Version:         "v0-test",
		Log:             logr.FromSlogHandler(slog.NewTextHandler(f.log, nil)),
	}
	change(&options)
	f.run(options)
	return f
}

// targetKubeconfig has the rights of config/rbac/agent-workload.
func targetKubeconfig(g *WithT, env *testenv.Environment) string {
	path, err := env.Cluster.Kubeconfig(context.Background(), "hollowfleet-agent", "hollowfleet:agents")
	g.Expect(err).NotTo(HaveOccurred())
	return path
}

// ofKubelets selects the certificate requests of nodes.
var ofKubelets = client.MatchingFields{"spec.signerName": certificatesv1.KubeAPIServerClientKubeletSignerName}

// clusters are those of the test that runs.
var clusters sync.Map

// forgetLater removes, after the test and the last of its agents, what hub and workload cluster know of the test's
// cluster: the next round of the test must start as the first did.
func (f *env) forgetLater() {
	if _, known := clusters.LoadOrStore(f.cluster, true); known {
		return
	}
	f.t.Cleanup(func() {
		clusters.Delete(f.cluster)
		ctx := context.Background()
		machines := &v1alpha1.MachineList{}
		f.Expect(f.admin.List(ctx, machines, client.InNamespace(f.cluster))).To(Succeed())
		unfinished := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		for i := range machines.Items {
			f.Expect(client.IgnoreNotFound(f.admin.Patch(ctx, &machines.Items[i], unfinished))).To(Succeed())
			f.Expect(client.IgnoreNotFound(f.admin.Delete(ctx, &machines.Items[i]))).To(Succeed())
		}
		own := []client.DeleteAllOfOption{client.InNamespace(hostNamespace), client.MatchingLabels{v1alpha1.ClusterNameLabel: f.cluster}}
		f.Expect(f.admin.DeleteAllOf(ctx, &corev1.Pod{}, append(own, client.GracePeriodSeconds(0))...)).To(Succeed())
		f.Expect(f.admin.DeleteAllOf(ctx, &corev1.Secret{}, own...)).To(Succeed())
		f.Expect(f.admin.DeleteAllOf(ctx, &corev1.ConfigMap{}, own...)).To(Succeed())
		f.Expect(f.admin.DeleteAllOf(ctx, &certificatesv1.CertificateSigningRequest{}, ofKubelets)).To(Succeed())
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: v1alpha1.AgentLeaseName}}
		for _, object := range append(f.accepted(), lease) {
			if _, kept := object.(*corev1.Namespace); !kept { // One that was deleted does not come back at once.
				f.Expect(client.IgnoreNotFound(f.admin.Delete(ctx, object))).To(Succeed())
			}
		}
	})
}

func (f *env) run(options agent.Options) {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.stopped = cancel, make(chan error, 1)
	stopped := f.stopped
	go func() { stopped <- agent.Run(ctx, options) }()
	f.t.Cleanup(func() {
		cancel()
		select {
		case err := <-stopped:
			if err != nil {
				f.t.Errorf("the agent ended with %v", err)
			}
		case <-time.After(agenttest.Wait):
			f.t.Error("the agent does not stop")
		}
		if f.t.Failed() {
			f.t.Logf("log of the agent:\n%s", f.log)
		}
	})
}

// accept does what the hub does for a cluster that a user has accepted.
func (f *env) accept() {
	f.t.Helper()
	for _, object := range f.accepted() {
		f.Expect(client.IgnoreAlreadyExists(f.admin.Create(context.Background(), object))).To(Succeed())
	}
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.admin.Get(context.Background(), client.ObjectKey{Name: f.cluster}, cluster)).To(Succeed())
	cluster.Status.Namespace = f.cluster
	f.Expect(f.admin.Status().Update(context.Background(), cluster)).To(Succeed())
}

// accepted is what there is on the hub for a cluster that a user has accepted.
func (f *env) accepted() []client.Object {
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.cluster}}
	cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	name := "agent-" + f.cluster
	agents := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: v1alpha1.AgentGroupPrefix + f.cluster}}
	return []client.Object{
		cluster,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.cluster}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, ResourceNames: []string{f.cluster}, Verbs: []string{"get"}},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{f.cluster}, Verbs: []string{"patch"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: agents, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: name}, Subjects: agents, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hollowfleet-agent"}},
	}
}

func (f *env) get(path string) (int, string) {
	response, err := http.Get("http://" + f.health + path) //nolint:noctx // a test's own server on loopback
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func (f *env) frozen() freeze.State {
	_, body := f.get("/frozenz?format=json")
	var state freeze.State
	_ = json.Unmarshal([]byte(body), &state)
	return state
}

func (f *env) expectThawed() {
	f.t.Helper()
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(And(HaveField("Frozen", false), HaveField("Endpoints", Not(BeEmpty()))), "the agent does not thaw")
}

func (f *env) machine(name string) *v1alpha1.Machine {
	f.t.Helper()
	machine := agenttest.Machine(f.cluster, name)
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
	machine.Spec.Roles = []string{"worker"}
	f.Expect(f.admin.Create(context.Background(), machine)).To(Succeed())
	return machine
}

func (f *env) exists(o client.Object, namespace, name string) func() error {
	return func() error {
		return f.admin.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	}
}

func (f *env) expectGone(o client.Object, namespace, name string) {
	f.t.Helper()
	f.Eventually(func() bool { return apierrors.IsNotFound(f.exists(o, namespace, name)()) }).
		WithTimeout(agenttest.Wait).Should(BeTrue(), "%T %s/%s stays", o, namespace, name)
}

// kubelet does what the hollow-node of a Machine does: it joins with what is in the Secret, under the rules that
// hold for kubelets, and registers the Node.
func (f *env) kubelet(name string) client.Client {
	f.t.Helper()
	secret := &corev1.Secret{}
	f.Eventually(f.exists(secret, hostNamespace, name)).WithTimeout(agenttest.Wait).Should(Succeed())
	configuration, err := hollownode.Parse(secret.Data[hollownode.ConfigFileName])
	f.Expect(err).NotTo(HaveOccurred())
	bootstrap, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[hollownode.BootstrapKubeconfigFileName])
	f.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(f.identity(bootstrap, name), client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: configuration.NodeName, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	node.Spec.ProviderID = configuration.ProviderID
	f.Expect(c.Create(context.Background(), node)).To(Succeed())
	f.t.Cleanup(func() { _ = f.admin.Delete(context.Background(), node) })
	return c
}

// identity asks for the client certificate of a node and waits for it.
func (f *env) identity(bootstrap *rest.Config, name string) *rest.Config {
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
	asker, err := client.New(bootstrap, client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(asker.Create(context.Background(), csr)).To(Succeed())
	f.Eventually(func() ([]byte, error) {
		err := f.admin.Get(context.Background(), client.ObjectKeyFromObject(csr), csr)
		return csr.Status.Certificate, err
	}).WithTimeout(agenttest.Wait).ShouldNot(BeEmpty(), "the node's certificate is not issued")
	keyDER, err := x509.MarshalECPrivateKey(key)
	f.Expect(err).NotTo(HaveOccurred())
	own := rest.AnonymousClientConfig(bootstrap)
	own.CertData, own.KeyData = csr.Status.Certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	return own
}

func (f *env) markNodeReady(c client.Client, name string) {
	f.t.Helper()
	f.Eventually(func() error {
		node := &corev1.Node{}
		if err := c.Get(context.Background(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		node.Status.Capacity = corev1.ResourceList{"cpu": *node.Status.Capacity.Cpu()}
		return c.Status().Update(context.Background(), node)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

func (f *env) markPodReady(name string) {
	f.t.Helper()
	// The scheduler writes the pod's status too.
	f.Eventually(func() error {
		pod := &corev1.Pod{}
		if err := f.exists(pod, hostNamespace, name)(); err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return f.admin.Status().Update(context.Background(), pod)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

func (f *env) expectReady(machine *v1alpha1.Machine) {
	f.t.Helper()
	f.Eventually(func() (bool, error) {
		err := f.admin.Get(context.Background(), client.ObjectKeyFromObject(machine), machine)
		return meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition), err
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "the machine does not get Ready")
}

// machineWrites counts the successful writes to Machines that the API server has seen.
func (f *env) machineWrites() int {
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
