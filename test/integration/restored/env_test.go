package restored

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// still is how long nothing may happen where nothing must: longer than an agent takes to renew its Lease, to probe
// and to look at the hub.
const still = 15 * time.Second

var (
	agentArgs = []string{"--freeze-after", "8s"}
	hubArgs   = []string{"--heartbeat-period", "2s", "--heartbeat-grace", "20s"}
	// hubComponents in the order in which they start.
	hubComponents = []string{"etcd", "kube-apiserver", "kube-controller-manager"}
)

// stopHub ends the hub process and its control plane.
func stopHub(ctx context.Context) {
	GinkgoHelper()
	end(fleet.HubProcess, syscall.SIGKILL)
	stopServers(ctx)
}

// stopServers ends the hub's control plane alone.
func stopServers(ctx context.Context) {
	GinkgoHelper()
	for _, component := range slices.Backward(hubComponents) {
		Expect(fleet.Hub.Component(ctx, "stop", component)).To(Succeed())
	}
}

// startHub starts them again.
func startHub(ctx context.Context) {
	GinkgoHelper()
	startServers(ctx, &v1alpha1.ClusterList{})
	Expect(fleet.StartHubProcess(ctx)).To(Succeed())
}

// startServers starts the hub's control plane and waits until it answers with what it has.
func startServers(ctx context.Context, has client.ObjectList) {
	GinkgoHelper()
	for _, component := range hubComponents {
		Expect(fleet.Hub.Component(ctx, "start", component)).To(Succeed())
	}
	Eventually(ctx, func(ctx context.Context) error {
		return fleet.HubClient.List(ctx, has)
	}).Should(Succeed(), "the hub's API server answers")
}

// backUp copies what the hub's etcd has, and returns how to put it back while the control plane is stopped.
func backUp(ctx context.Context) (putBack func()) {
	GinkgoHelper()
	data, kept := filepath.Join(fleet.Hub.Dir(), "etcd"), filepath.Join(GinkgoT().TempDir(), "etcd")
	stopHub(ctx)
	Expect(os.CopyFS(kept, os.DirFS(data))).To(Succeed())
	startHub(ctx)
	return func() {
		GinkgoHelper()
		Expect(os.RemoveAll(data)).To(Succeed())
		Expect(os.CopyFS(data, os.DirFS(kept))).To(Succeed())
	}
}

// age loses as many writes as some minutes bring: the hub cannot tell a backup of seconds ago.
func age(ctx context.Context) {
	GinkgoHelper()
	note := &corev1.ConfigMap{}
	note.Namespace, note.Name = metav1.NamespaceDefault, "restored-age"
	Expect(fleet.HubClient.Create(ctx, note)).To(Succeed())
	for range 200 {
		note.Data = map[string]string{"note": note.ResourceVersion}
		Expect(fleet.HubClient.Update(ctx, note)).To(Succeed())
	}
}

// alone starts a hub that need not be elected: one that leads ends anyway when its API server is away for long.
func alone(ctx context.Context) *process.Process {
	GinkgoHelper()
	kubeconfig, err := fleet.Hub.Kubeconfig(ctx, "hollowfleet-hub", "hollowfleet:hub")
	Expect(err).NotTo(HaveOccurred())
	binary, err := testenv.Binary("hub")
	Expect(err).NotTo(HaveOccurred())
	log := filepath.Join(GinkgoT().TempDir(), "hub.log")
	started, err := process.Start(process.Spec{Name: "hub", Path: binary, LogFile: log, Args: append([]string{
		"--kubeconfig", kubeconfig, "--leader-elect=false", "--health-address", "127.0.0.1:0", "--metrics-address", "0",
	}, hubArgs...)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("the end of the hub's log:\n%s\n", process.Tail(log, 60))
		}
		Expect(started.Stop(fleettest.Patience)).To(Succeed())
	})
	return started
}

func end(p *process.Process, signal syscall.Signal) {
	GinkgoHelper()
	Expect(p.Signal(signal)).To(Succeed())
	Eventually(p.Done()).Should(BeClosed())
}

func clusterOf(ctx context.Context, g Gomega, hub *fleettest.Fleet, name string) *v1alpha1.Cluster {
	cluster := &v1alpha1.Cluster{}
	g.Expect(hub.HubClient.Get(ctx, client.ObjectKey{Name: name}, cluster)).To(Succeed())
	return cluster
}

// expectAtWork waits until hub and agent work for a cluster without a person's help.
func expectAtWork(ctx context.Context, hub *fleettest.Fleet, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		cluster := clusterOf(ctx, g, hub, name)
		for _, want := range []metav1.Condition{
			{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue},
			{Type: v1alpha1.ClusterAgentFrozenCondition, Status: metav1.ConditionFalse},
			{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse},
			{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue},
		} {
			got := meta.FindStatusCondition(cluster.Status.Conditions, want.Type)
			g.Expect(got).NotTo(BeNil(), want.Type)
			g.Expect(got.Status).To(Equal(want.Status), "%+v", got)
		}
		g.Expect(cluster.Status.UnacknowledgedHub).To(BeEmpty())
	}).Should(Succeed(), "cluster %s is at work", name)
}

// expectStrange waits until the Cluster says what its agent has found, and returns the finding.
func expectStrange(ctx context.Context, hub *fleettest.Fleet, name, reason string) string {
	GinkgoHelper()
	var finding string
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		cluster := clusterOf(ctx, g, hub, name)
		for _, conditionType := range []string{v1alpha1.ClusterAgentFrozenCondition, v1alpha1.FrozenCondition} {
			got := meta.FindStatusCondition(cluster.Status.Conditions, conditionType)
			g.Expect(got).NotTo(BeNil(), conditionType)
			g.Expect(got.Status).To(Equal(metav1.ConditionTrue), "%+v", got)
			g.Expect(got.Reason).To(Equal(reason), "%+v", got)
			g.Expect(got.Message).To(ContainSubstring("kubectl hollow cluster acknowledge " + name))
		}
		finding = cluster.Status.UnacknowledgedHub
		g.Expect(finding).NotTo(BeEmpty())
	}).Should(Succeed(), "cluster %s waits for a person", name)
	return finding
}

// hollow runs kubectl-hollow as the administrator of a hub.
func hollow(ctx context.Context, hub *fleettest.Fleet, args ...string) (code int, output string) {
	GinkgoHelper()
	program, err := testenv.Binary("kubectl-hollow")
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, program, append(args, "--kubeconfig", hub.Hub.AdminKubeconfig())...)
	combined, err := command.CombinedOutput()
	Expect(command.ProcessState).NotTo(BeNil(), "%v", err)
	GinkgoWriter.Printf("$ kubectl hollow %v\n%s\n", args, combined)
	return command.ProcessState.ExitCode(), string(combined)
}

// acknowledge does what a person does who has looked.
func acknowledge(ctx context.Context, hub *fleettest.Fleet, name string) {
	GinkgoHelper()
	hollow(ctx, hub, "cluster", "list", "-o", "wide")
	code, output := hollow(ctx, hub, "cluster", "acknowledge", name, "--yes")
	Expect(code).To(BeZero(), output)
	expectAtWork(ctx, hub, name)
	code, output = hollow(ctx, hub, "cluster", "acknowledge", name, "--yes")
	Expect(code).To(Equal(4), output)
}

// snapshot is what there is in busy, by UID: the name, and whether it goes.
type snapshot map[types.UID]string

// look sees the pods and Nodes of all Machines.
func look(ctx context.Context, g Gomega) snapshot {
	seen := snapshot{}
	note := func(object client.Object, kind string) {
		seen[object.GetUID()] = kind + " " + object.GetName()
		if object.GetDeletionTimestamp() != nil {
			seen[object.GetUID()] += " goes"
		}
	}
	pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
	g.Expect(busy.Client.List(ctx, pods, client.HasLabels{v1alpha1.MachineNameLabel})).To(Succeed())
	g.Expect(busy.Client.List(ctx, nodes, client.MatchingLabels{v1alpha1.HollowNodeLabel: "true"})).To(Succeed())
	for i := range pods.Items {
		note(&pods.Items[i], "Pod")
	}
	for i := range nodes.Items {
		g.Expect(fleettest.NodeReady(nodes.Items[i])).To(BeTrue(), "Node %s is Ready", nodes.Items[i].Name)
		note(&nodes.Items[i], "Node")
	}
	return seen
}

// machines sees the Machines of busy on a hub.
func machines(ctx context.Context, g Gomega, hub *fleettest.Fleet) snapshot {
	seen, list := snapshot{}, &v1alpha1.MachineList{}
	g.Expect(hub.HubClient.List(ctx, list, client.InNamespace(busy.Name))).To(Succeed())
	for i := range list.Items {
		seen[list.Items[i].UID] = list.Items[i].Name
		if list.Items[i].DeletionTimestamp != nil {
			seen[list.Items[i].UID] += " goes"
		}
	}
	return seen
}

// expectStill asks that for a while nothing comes or goes, in the cluster and on the hub.
func expectStill(ctx context.Context, hub *fleettest.Fleet, was snapshot) {
	GinkgoHelper()
	known := machines(ctx, NewWithT(GinkgoT()), hub)
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(look(ctx, g)).To(Equal(was))
		g.Expect(machines(ctx, g, hub)).To(Equal(known))
	}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "nothing is created or deleted")
}

// newcomer is an agent of busy with nothing but its cluster, which joins another hub.
func newcomer(ctx context.Context, hub *fleettest.Fleet) *process.Process {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	request := joining.Request{Cluster: busy.Name, Accept: joining.AcceptNow, TokenTTL: time.Hour}
	result, err := request.Do(ctx, hub.HubClient, time.Now())
	Expect(err).NotTo(HaveOccurred())
	server, err := joining.ServerOf(hub.HubConfig)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := server.Kubeconfig(busy.Name, result.Token)
	Expect(err).NotTo(HaveOccurred())
	bootstrap := filepath.Join(dir, "bootstrap.kubeconfig")
	Expect(os.WriteFile(bootstrap, kubeconfig, 0o600)).To(Succeed())
	target, err := busy.Cluster.Kubeconfig(ctx, "hollowfleet-agent", "hollowfleet:agents")
	Expect(err).NotTo(HaveOccurred())
	binary, err := testenv.Binary("agent")
	Expect(err).NotTo(HaveOccurred())
	log := filepath.Join(dir, "agent.log")
	started, err := process.Start(process.Spec{Name: "newcomer", Path: binary, LogFile: log, Args: append([]string{
		"--cluster-name", busy.Name, "--bootstrap-kubeconfig", bootstrap, "--credential-dir", filepath.Join(dir, "credential"),
		"--target-kubeconfig", target, "--hollow-node-image", localfleet.HollowNodeImage,
		"--health-address", "127.0.0.1:0", "--metrics-address", "0",
	}, agentArgs...)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("the end of the newcomer's log:\n%s\n", process.Tail(log, 60))
		}
		Expect(started.Stop(fleettest.Patience)).To(Succeed())
	})
	return started
}

// sweep removes what has no Machine, as a person does who has looked.
func sweep(ctx context.Context, hub *fleettest.Fleet) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		known := map[string]bool{}
		for _, name := range machines(ctx, g, hub) {
			known[name] = true
		}
		pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
		g.Expect(busy.Client.List(ctx, pods, client.HasLabels{v1alpha1.MachineNameLabel})).To(Succeed())
		g.Expect(busy.Client.List(ctx, nodes, client.MatchingLabels{v1alpha1.HollowNodeLabel: "true"})).To(Succeed())
		left := 0
		remove := func(object client.Object) {
			if known[object.GetName()] {
				return
			}
			left++
			g.Expect(client.IgnoreNotFound(busy.Client.Delete(ctx, object))).To(Succeed())
		}
		for i := range pods.Items {
			remove(&pods.Items[i])
		}
		for i := range nodes.Items {
			remove(&nodes.Items[i])
		}
		g.Expect(left).To(BeZero())
	}).Should(Succeed(), "what has no Machine goes when a person deletes it")
}
