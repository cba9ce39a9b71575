package joining

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// agent is one agent process of the suite's own.
type agent struct {
	cluster string
	// bootstrap is the path of its bootstrap kubeconfig, credential that of its directory.
	bootstrap, credential string
	// secret, if set, is the Secret of the workload cluster that is used instead of that directory.
	secret  string
	target  string
	log     string
	process *process.Process
}

// newAgent prepares an agent of a cluster, whose Nodes would be in member's. Each has files of its own.
func newAgent(ctx context.Context, member *localfleet.Member, cluster, name string) *agent {
	GinkgoHelper()
	target, err := member.Cluster.Kubeconfig(ctx, "hollowfleet-agent", "hollowfleet:agents")
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(directory, name)
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	return &agent{
		cluster: cluster, bootstrap: filepath.Join(dir, "bootstrap.kubeconfig"), credential: filepath.Join(dir, "credential"),
		target: target, log: filepath.Join(dir, "agent.log"),
	}
}

// join does for the agent what kubectl hollow cluster join does.
func (a *agent) join(ctx context.Context, accept joining.Acceptance, change ...func(*joining.Request)) {
	GinkgoHelper()
	request := joining.Request{Cluster: a.cluster, Accept: accept, TokenTTL: time.Hour, Again: true}
	for _, edit := range change {
		edit(&request)
	}
	result, err := request.Do(ctx, fleet.HubClient, time.Now())
	Expect(err).NotTo(HaveOccurred())
	if result.Created {
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, result.Cluster))).To(Succeed())
		}, NodeTimeout(fleettest.Patience))
	}
	a.give(result.Token)
}

// give puts a token where the agent looks for it.
func (a *agent) give(token string) {
	GinkgoHelper()
	server, err := joining.ServerOf(fleet.HubConfig)
	Expect(err).NotTo(HaveOccurred())
	content, err := server.Kubeconfig(a.cluster, token)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(a.bootstrap, content, 0o600)).To(Succeed())
}

// start starts the agent; it ends with the spec.
func (a *agent) start() {
	GinkgoHelper()
	binary, err := testenv.Binary("agent")
	Expect(err).NotTo(HaveOccurred())
	Expect(os.RemoveAll(a.log)).To(Succeed())
	store := []string{"--credential-dir", a.credential}
	if a.secret != "" {
		store = []string{"--credential-secret", a.secret}
	}
	a.process, err = process.Start(process.Spec{Name: "agent of " + a.cluster, Path: binary, LogFile: a.log, Args: append(store,
		"--cluster-name", a.cluster, "--bootstrap-kubeconfig", a.bootstrap,
		"--target-kubeconfig", a.target, "--hollow-node-image", localfleet.HollowNodeImage,
		"--health-address", "127.0.0.1:0", "--metrics-address", "0",
	)})
	Expect(err).NotTo(HaveOccurred())
	started := a.process
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("the end of the log of the agent of %s:\n%s\n", a.cluster, process.Tail(a.log, 40))
		}
		Expect(started.Stop(fleettest.Patience)).To(Succeed())
	})
}

func end(p *process.Process, signal syscall.Signal) {
	GinkgoHelper()
	Expect(p.Signal(signal)).To(Succeed())
	Eventually(p.Done()).Should(BeClosed())
}

var healthAddress = regexp.MustCompile(`msg=Listening server=health address=(\S+)`)

// says returns what the agent answers at path.
func (a *agent) says(ctx context.Context, g Gomega, path string) string {
	log, err := os.ReadFile(a.log)
	g.Expect(err).NotTo(HaveOccurred())
	addresses := healthAddress.FindAllSubmatch(log, -1)
	g.Expect(addresses).NotTo(BeEmpty(), "the agent's log tells its address")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(addresses[len(addresses)-1][1])+path, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	return string(body)
}

func (a *agent) expectSays(ctx context.Context, path, text string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(a.says(ctx, g, path)).To(ContainSubstring(text))
	}).Should(Succeed())
}

// frozenz is what an agent says of itself.
type frozenz struct {
	Frozen bool
	Reason string
}

func (a *agent) frozen(ctx context.Context, g Gomega) frozenz {
	var state frozenz
	g.Expect(json.Unmarshal([]byte(a.says(ctx, g, "/frozenz?format=json")), &state)).To(Succeed())
	return state
}

func (a *agent) expectFrozen(ctx context.Context, want frozenz) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(a.frozen(ctx, g)).To(Equal(want))
	}).Should(Succeed())
}

// expectThawed waits until the agent works and nothing keeps it from acting.
func (a *agent) expectThawed(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(a.says(ctx, g, "/readyz")).To(HavePrefix("ok: working; freeze: NotFrozen"))
	}).WithPolling(20 * time.Millisecond).Should(Succeed())
}

func clusterOf(ctx context.Context, g Gomega, name string) *v1alpha1.Cluster {
	cluster := &v1alpha1.Cluster{}
	g.Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Name: name}, cluster)).To(Succeed())
	return cluster
}

// expectWorking waits until the hub sees that the cluster's agent works.
func expectWorking(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		conditions := clusterOf(ctx, g, name).Status.Conditions
		g.Expect(meta.IsStatusConditionTrue(conditions, v1alpha1.ClusterAgentConnectedCondition)).To(BeTrue(), "%+v", conditions)
		g.Expect(meta.IsStatusConditionFalse(conditions, v1alpha1.ClusterAgentFrozenCondition)).To(BeTrue(), "%+v", conditions)
	}).Should(Succeed(), "the agent of %s works", name)
}

// change patches the spec of a Cluster.
func change(ctx context.Context, name string, edit func(*v1alpha1.ClusterSpec)) {
	GinkgoHelper()
	cluster := clusterOf(ctx, NewWithT(GinkgoT()), name)
	before := cluster.DeepCopy()
	edit(&cluster.Spec)
	Expect(fleet.HubClient.Patch(ctx, cluster, client.MergeFrom(before))).To(Succeed())
}

func setAcceptance(ctx context.Context, name string, to v1alpha1.Acceptance) {
	GinkgoHelper()
	change(ctx, name, func(spec *v1alpha1.ClusterSpec) { spec.Acceptance = to })
}

func leaseOf(ctx context.Context, g Gomega, cluster string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	g.Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Namespace: cluster, Name: v1alpha1.AgentLeaseName}, lease)).To(Succeed())
	return lease
}

func report(format string, args ...any) {
	AddReportEntry("figure", fmt.Sprintf(format, args...))
	GinkgoWriter.Printf(format+"\n", args...)
}
