package autoscaler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// programVariable is the path of cluster-autoscaler; make test-autoscaler builds it and sets this.
const programVariable = "HOLLOWFLEET_CLUSTER_AUTOSCALER"

// slowly is how long cluster-autoscaler may take for a step: it waits between its looks, and before it removes a Node.
const slowly = 4 * time.Minute

// pods is a workload in which each pod takes a Node of pool for itself.
type pods struct {
	member     *localfleet.Member
	deployment *appsv1.Deployment
}

func newPods(ctx context.Context, member *localfleet.Member, pool string, replicas int32) *pods {
	GinkgoHelper()
	labels := map[string]string{"app": pool}
	w := &pods{member: member, deployment: &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pool},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:                  map[string]string{fleettest.PoolLabel: pool},
					AutomountServiceAccountToken:  new(false),
					TerminationGracePeriodSeconds: new(int64(1)),
					Containers: []corev1.Container{{
						Name: "web", Image: "example.com/web:1",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}},
					}},
				},
			},
		},
	}}
	Expect(member.Client.Create(ctx, w.deployment)).To(Succeed())
	return w
}

func (w *pods) scale(ctx context.Context, replicas int) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	Expect(w.member.Client.Patch(ctx, w.deployment, patch)).To(Succeed())
}

// nodes are those that the running pods are on.
func (w *pods) nodes(ctx context.Context, g Gomega) []string {
	list := &corev1.PodList{}
	g.Expect(w.member.Client.List(ctx, list, client.InNamespace("default"), client.MatchingLabels(w.deployment.Spec.Template.Labels))).To(Succeed())
	nodes := []string{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes
}

// startProgram runs cluster-autoscaler as docs/autoscaling.md says, but in more of a hurry.
func startProgram(program string, hub *rest.Config, member *localfleet.Member) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	hubKubeconfig := filepath.Join(dir, "hub.kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"hub": {
			Server: hub.Host, CertificateAuthorityData: hub.CAData, CertificateAuthority: hub.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{account: {Token: hub.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"hub": {Cluster: "hub", AuthInfo: account}},
		CurrentContext: "hub",
	}, hubKubeconfig)).To(Succeed())
	running, err := process.Start(process.Spec{
		Name: account, Path: program, Env: []string{"CAPI_GROUP=" + group}, LogFile: filepath.Join(dir, account+".log"),
		Args: []string{
			"--cloud-provider=clusterapi", "--cloud-config=" + hubKubeconfig, "--kubeconfig=" + member.Cluster.AdminKubeconfig(),
			"--node-group-auto-discovery=clusterapi:namespace=" + member.Name, "--leader-elect=false", "--address=127.0.0.1:0",
			"--scan-interval=2s", "--scale-down-delay-after-add=5s", "--scale-down-unneeded-time=5s", "--v=2",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(running.Done()).NotTo(BeClosed(), "cluster-autoscaler has continued to the end")
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println(process.Tail(running.LogFile(), 200))
		}
		Expect(running.Stop(time.Minute)).To(Succeed())
	})
}

var _ = Describe("cluster-autoscaler itself, unmodified", func() {
	// Claim: cluster-autoscaler itself scales from zero, up, down, to zero. Broken: the role without `update machines`: it never scales down.
	It("should scale a deployment from zero, further up, down by the Nodes that it chose, and to zero", func(ctx SpecContext) {
		program := os.Getenv(programVariable)
		if program == "" {
			Skip(programVariable + " is not set: make test-autoscaler builds the program and runs this")
		}
		fleet := fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1"}})
		Expect(config.Apply(ctx, fleet.HubClient, config.RBAC, "rbac/autoscaler")).To(Succeed())
		member := fleet.Members[0]
		deployment := fleet.NewDeployment(ctx, member, "pool", 0, func(d *v1alpha1.MachineDeployment) { d.Annotations = sizes("0", "3") })
		class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: deployment.Name}}
		Expect(fleet.HubClient.Patch(ctx, class, client.RawPatch("application/merge-patch+json",
			[]byte(`{"spec":{"nodeTemplate":{"capacity":{"cpu":"4","memory":"16Gi","pods":"110"}}}}`)))).To(Succeed())
		startProgram(program, credential(ctx, fleet.HubClient, fleet.HubConfig, member.Name), member)

		// settled waits until there are count Machines, with a pod on the Node of each.
		workload := newPods(ctx, member, deployment.Name, 1)
		settled := func(count int) []string {
			GinkgoHelper()
			var names []string
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
				g.Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(count)))
				machines := fleet.MachinesOf(ctx, g, member, deployment.Name)
				g.Expect(machines).To(HaveLen(count))
				names = []string{}
				for i := range machines {
					g.Expect(fleettest.MachineReady(&machines[i])).To(BeTrue())
					names = append(names, machines[i].Status.NodeRef.Name)
				}
				g.Expect(workload.nodes(ctx, g)).To(ConsistOf(names))
			}).WithTimeout(slowly).Should(Succeed())
			return names
		}
		settled(1)
		workload.scale(ctx, 3)
		three := settled(3)
		workload.scale(ctx, 1)
		one := settled(1)
		Expect(three).To(ContainElements(one), "the Node that still had a pod stays")
		workload.scale(ctx, 0)
		Expect(settled(0)).To(BeEmpty())
	}, SpecTimeout(5*slowly))
})
