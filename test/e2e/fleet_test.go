package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The blocks of commands of docs/install.md.
const (
	installHub = iota
	joinCluster
	firstMachines
	simulatedCluster
)

const (
	older = "v1.36.2" // The kubelet of the machines of docs/install.md.
	newer = "v1.37.1"
)

// One fleet goes through its life, so each spec starts where the one before has ended.
var _ = Describe("A fleet on kind", Ordered, func() {
	begins()
	holdsASimulatedCluster()
	hostsSimulatedClusters()
	standsPartitions()
	outlivesReleases()
	standsADrain()
	isRehearsed()
	servesWithCertManager()
	hostsWithCertManager()
	measuresManySimulatedClusters()
})

func begins() {
	// Claim: The documented commands make Ready nodes on kind. Broken: not broken alone.
	It("should be installed by the README's commands, under PodSecurity restricted", Label("hosted"), func(ctx SpecContext) {
		restricted(ctx, hub, hubNamespace)
		readme(ctx, installHub, "KIND=hub", "KIND="+hub.name)
		took := untilAvailable(ctx, hub, hubNamespace, "hollowfleet-hub")
		figure("helm install of two hubs, until Available (budget: 30 s)", took)
		for name, in := range workloadClusters() {
			restricted(ctx, in, agentNamespace)
			readme(ctx, joinCluster, "KIND=c1", "KIND="+in.name, "https://HUB:6443", "https://"+hub.nodeName()+":6443", "c1", name)
			Eventually(condition(ctx, name, v1alpha1.ReadyCondition)).Should(HavePrefix("True"))
			figure("helm install of the agent of "+name+", until Joined (budget: 20 s)", untilJoined(ctx, in, name))
		}
	})

	It("should make Ready hollow nodes, in real containers", func(ctx SpecContext) {
		for name, in := range workloadClusters() {
			started := time.Now()
			readme(ctx, firstMachines, "c1", name)
			Eventually(readyKubelets(ctx, in)).Should(ConsistOf(older, older))
			figure("2 hollow nodes in "+name+", from kubectl apply to Ready", seconds(started))
			pods := hollowNodePods(ctx, in)
			Expect(pods).To(HaveLen(2))
			for _, pod := range pods {
				Expect(pod.Spec.NodeName).To(Equal(in.podNodeName()), "the node of kind runs it")
				Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
				Expect(pod.Status.ContainerStatuses[0].ContainerID).To(HavePrefix("containerd://"))
				Expect(pod.Status.ContainerStatuses[0].Image).To(ContainSubstring("hollowfleet/hollow-node"))
			}
		}
	})

	It("should run a Deployment on hollow nodes", func(ctx SpecContext) {
		shellIn(ctx, c1.kubeconfig, web)
		Eventually(runningPods(ctx, c1, "web")).Should(HaveLen(2), "all pods run, on both hollow nodes")
	})

	It("should upgrade the kubelets of both clusters by a MachineFleet", func(ctx SpecContext) {
		run(ctx, "kubectl label clusters.hollowfleet.io c1 stage=canary\nkubectl label clusters.hollowfleet.io c2 stage=production\n"+
			"kubectl apply -f config/samples/machinefleet.yaml\n"+
			"kubectl hollow rollout status machinefleet workers --timeout 5m\n")
		for _, in := range workloadClusters() {
			Eventually(readyKubelets(ctx, in)).Should(ConsistOf(older, older))
		}
		started := time.Now()
		printed := run(ctx, "kubectl hollow upgrade fleet/workers --kubelet "+newer+" --wait --timeout 5m\nkubectl hollow fleet status workers\n")
		figure("MachineFleet: 2 nodes in each of 2 clusters upgraded, in 2 waves", seconds(started))
		Expect(printed).To(ContainSubstring("has rolled out: 2 of 2 clusters updated"))
		for _, in := range workloadClusters() {
			Eventually(readyKubelets(ctx, in)).Should(ConsistOf(newer, newer))
		}
		Eventually(runningPods(ctx, c1, "web")).ShouldNot(BeEmpty(), "the Deployment has moved to the new nodes")
	})

	It("should take little memory", func(ctx SpecContext) {
		figure("memory of each hub", memory(ctx, hub, hubNamespace, client.MatchingLabels{"app.kubernetes.io/name": "hollowfleet-hub"}))
		figure("memory of an agent with 2 Machines", memory(ctx, c1, agentNamespace, client.MatchingLabels{"app.kubernetes.io/name": "hollowfleet-agent"}))
		figure("memory of each hollow-node pod", memory(ctx, c1, agentNamespace, client.HasLabels{v1alpha1.MachineNameLabel}))
	})
}

func workloadClusters() map[string]*kindCluster { return map[string]*kindCluster{"c1": c1, "c2": c2} }

// web is a Deployment for hollow nodes.
const web = `kubectl apply -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 4
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      nodeSelector: {hollowfleet.io/hollow: "true"}
      tolerations: [{key: hollowfleet.io/hollow, operator: Exists}]
      topologySpreadConstraints:
      - {topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers:
      - {name: web, image: "registry.example.com/web:1"}
END
kubectl rollout status deployment web --timeout 2m
`

// runningPods are how many pods of an app run on each hollow Node, and nil unless all of them do.
func runningPods(ctx context.Context, in *kindCluster, app string) func() (map[string]int, error) {
	return func() (map[string]int, error) {
		all, err := hollowNodes(ctx, in)
		if err != nil {
			return nil, err
		}
		names := map[string]bool{}
		for i := range all {
			names[all[i].Name] = true
		}
		pods := &corev1.PodList{}
		if err := in.client.List(ctx, pods, client.InNamespace("default"), client.MatchingLabels{"app": app}); err != nil {
			return nil, err
		}
		counts := map[string]int{}
		for i := range pods.Items {
			if pods.Items[i].Status.Phase != corev1.PodRunning || !names[pods.Items[i].Spec.NodeName] {
				return nil, nil
			}
			counts[pods.Items[i].Spec.NodeName]++
		}
		return counts, nil
	}
}
