package tenancy

import (
	"context"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	// The clusters of the table. The name of one starts with the name of another.
	clusterA, clusterAB, clusterB = "a", "ab", "b"
	// clusterS uses tokens of a ServiceAccount.
	clusterS = "s"
	// machineName is a Machine that each of them has, className a MachineClass.
	machineName, className = "m", "small"

	stopGrace = 30 * time.Second
)

// testHub is a hub with its control plane, and what its clusters were given to use it.
type testHub struct {
	*testenv.Environment
	process *process.Process
	// agents are the identities that the clusters got by joining, tokens what they joined with.
	agents, tokens map[string]*rest.Config
}

// startHub starts a control plane with a hub, which ends with the suite.
func startHub(ctx context.Context) *testHub {
	GinkgoHelper()
	environment, err := testenv.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	started := &testHub{Environment: environment, agents: map[string]*rest.Config{}, tokens: map[string]*rest.Config{}}
	DeferCleanup(func() {
		started.stopProcess()
		Expect(environment.Stop()).To(Succeed())
	})
	binary, err := testenv.Binary("hub")
	Expect(err).NotTo(HaveOccurred())
	install, err := process.Start(process.Spec{
		Name: "hub install", Path: binary, Args: []string{"install", "--kubeconfig", environment.Cluster.AdminKubeconfig()},
		LogFile: filepath.Join(GinkgoT().TempDir(), "install.log"),
	})
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, install.Done()).Should(BeClosed(), "hub install ends")
	started.startProcess(ctx)
	return started
}

// startProcess starts the hub's process, with the hub's own rights.
func (h *testHub) startProcess(ctx context.Context) {
	GinkgoHelper()
	binary, err := testenv.Binary("hub")
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := h.Cluster.Kubeconfig(ctx, "hollowfleet-hub", "hollowfleet:hub")
	Expect(err).NotTo(HaveOccurred())
	h.process, err = process.Start(process.Spec{
		Name: "hub", Path: binary, LogFile: filepath.Join(GinkgoT().TempDir(), "hub.log"),
		Args: []string{"--kubeconfig", kubeconfig, "--health-address", "127.0.0.1:0", "--metrics-address", "0"},
	})
	Expect(err).NotTo(HaveOccurred())
}

func (h *testHub) stopProcess() {
	GinkgoHelper()
	if h.process != nil {
		Expect(h.process.Stop(stopGrace)).To(Succeed())
		h.process = nil
	}
}

// settle lets the clusters of the table join.
func (h *testHub) settle(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{clusterA, clusterAB, clusterB} {
		h.create(ctx, cluster(name, v1alpha1.ClusterSpec{
			Acceptance:   v1alpha1.AcceptanceAccepted,
			HealthChecks: []v1alpha1.ClusterHealthCheck{{Type: healthCheck, Deployment: v1alpha1.DeploymentReference{Namespace: "default", Name: "web"}}},
		}))
		h.tokens[name] = h.invite(ctx, name, time.Hour)
		h.agents[name] = h.join(ctx, h.tokens[name], name)
	}
	h.create(ctx, cluster(clusterS, v1alpha1.ClusterSpec{
		Acceptance: v1alpha1.AcceptanceAccepted, Credential: v1alpha1.CredentialServiceAccountToken,
	}))
	h.agents[clusterS] = h.accountToken(ctx, clusterS)
	for _, name := range []string{clusterA, clusterAB, clusterB, clusterS} {
		h.expectWork(ctx, name)
		h.create(ctx, machine(name, machineName))
		h.create(ctx, &v1alpha1.MachineClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: className}, Spec: v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow},
		})
		h.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "secret"}})
	}
	h.expectPolicy(ctx)
}

// expectWork waits until the agent of cluster has its access: the API server's authorizer sees it a moment later.
func (h *testHub) expectWork(ctx context.Context, cluster string) {
	GinkgoHelper()
	agent := clientFor(h.agents[cluster])
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(agent.Get(ctx, client.ObjectKey{Name: cluster}, &v1alpha1.Cluster{})).To(Succeed())
		g.Expect(agent.List(ctx, &v1alpha1.MachineList{}, client.InNamespace(cluster))).To(Succeed())
	}).Should(Succeed(), "the agent of %s has its access", cluster)
}

// expectPolicy waits until the API server minds the policy.
func (h *testHub) expectPolicy(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		return clientFor(h.agents[clusterA]).Create(ctx, lease(clusterA, "probe"))
	}).Should(refusedBy(policy), "the API server minds the policy")
}

func (h *testHub) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(h.Client.Create(ctx, object))
	}).Should(Succeed(), "creating %T %s", object, object.GetName())
}

// decide sets the acceptance of a cluster, as its user does.
func (h *testHub) decide(ctx context.Context, name string, acceptance v1alpha1.Acceptance) {
	GinkgoHelper()
	found := &v1alpha1.Cluster{}
	Expect(h.Client.Get(ctx, client.ObjectKey{Name: name}, found)).To(Succeed())
	changed := found.DeepCopy()
	changed.Spec.Acceptance = acceptance
	Expect(h.Client.Patch(ctx, changed, client.MergeFrom(found))).To(Succeed())
}

// expectReason waits until the condition Accepted of a cluster has that reason.
func (h *testHub) expectReason(ctx context.Context, name, reason string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		found := &v1alpha1.Cluster{}
		g.Expect(h.Client.Get(ctx, client.ObjectKey{Name: name}, found)).To(Succeed())
		accepted := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ClusterAcceptedCondition)
		g.Expect(accepted).NotTo(BeNil())
		g.Expect(accepted.Reason).To(Equal(reason), accepted.Message)
	}).Should(Succeed(), "Accepted of Cluster %s has reason %s", name, reason)
}

// expectNoAccess waits until the API server refuses everything to an identity of cluster.
func expectNoAccess(ctx context.Context, config *rest.Config, cluster string) {
	GinkgoHelper()
	without := clientFor(config)
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		for _, err := range []error{
			without.Get(ctx, client.ObjectKey{Name: cluster}, &v1alpha1.Cluster{}),
			without.List(ctx, &v1alpha1.MachineList{}, client.InNamespace(cluster)),
			without.Create(ctx, lease(cluster, v1alpha1.AgentLeaseName)),
			without.Create(ctx, signingRequest(cluster, nil)),
		} {
			g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		}
	}).Should(Succeed(), "cluster %s has no access", cluster)
}

func clientFor(config *rest.Config) client.WithWatch {
	GinkgoHelper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

func cluster(name string, spec v1alpha1.ClusterSpec) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func machine(cluster, name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name, Labels: map[string]string{"app": "x"}},
		Spec: v1alpha1.MachineSpec{ClusterName: cluster, MachineTemplateBody: v1alpha1.MachineTemplateBody{
			Versions:       v1alpha1.MachineVersions{Kubelet: "v1.37.1"},
			ProviderConfig: v1alpha1.ProviderConfig{Provider: v1alpha1.ProviderHollow, Value: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}},
		}},
	}
}
