package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// simulated is the release of the simulated cluster, its Cluster on the hub and its namespace in c1.
	simulated = "c7"
	// most is what a simulated cluster may take at rest, with its agent.
	most = 350 * mebibyte
)

// holdsASimulatedCluster adds a cluster that is a pod of c1, and takes it away again.
func holdsASimulatedCluster() {
	It("should hold a simulated cluster as a pod, by the README's commands", func(ctx SpecContext) {
		restricted(ctx, c1, simulated)
		makeVolume(ctx, simulated, simulated, "data-"+simulated+"-0")
		started := time.Now()
		readme(ctx, simulatedCluster, "KIND=c1", "KIND="+c1.name, "https://HUB:6443", "https://"+hub.nodeName()+":6443")
		Eventually(condition(ctx, simulated, v1alpha1.ReadyCondition)).Should(HavePrefix("True"))
		figure("a simulated cluster as a pod, from make images-load to Ready", seconds(started))

		By("giving it machines, whose pods run in c1")
		inside := lookInto(ctx, simulated)
		started = time.Now()
		readme(ctx, firstMachines, "c1", simulated)
		Eventually(readyKubelets(ctx, inside)).Should(ConsistOf(older, older))
		figure("2 hollow nodes in it, from kubectl apply to Ready", seconds(started))
		pods := hollowNodePodsIn(ctx, c1, simulated)
		Expect(pods).To(HaveLen(2))
		for _, pod := range pods {
			Expect(pod.Spec.NodeName).To(Equal(c1.nodeName()), "the node of kind runs it")
			err := c1.client.Get(ctx, client.ObjectKey{Name: pod.Name}, &corev1.Node{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "its Node is in the simulated cluster alone: %v", err)
			Expect(inside.client.Get(ctx, client.ObjectKey{Name: pod.Name}, &corev1.Node{})).To(Succeed())
		}

		used := memoryOf(ctx, c1, simulated, client.MatchingLabels{"app.kubernetes.io/name": "hollowfleet-simcluster"})
		Expect(used).To(HaveLen(1))
		figure("memory of its pod, agent included, with 2 nodes (budget: 350 MiB)",
			fmt.Sprintf("%.0f MiB (RSS %.0f)", float64(used[0].WorkingSetBytes)/mebibyte, float64(used[0].RSSBytes)/mebibyte))
		Expect(used[0].RSSBytes).To(BeNumerically("<=", most))
	})

	// Claim: A simulated cluster survives its pod, within 350 MiB. Broken: not broken alone.
	It("should keep the simulated cluster's nodes when its pod is lost", func(ctx SpecContext) {
		before := uids(hollowNodePodsIn(ctx, c1, simulated))
		run(ctx, "kubectl --kubeconfig c1.kubeconfig --namespace c7 delete pod c7-0 --wait\n"+
			"kubectl --kubeconfig c1.kubeconfig --namespace c7 rollout status statefulset c7 --timeout 3m\n")
		working(ctx, simulated)
		inside := lookInto(ctx, simulated)
		Eventually(readyKubelets(ctx, inside)).Should(ConsistOf(older, older))
		Expect(uids(hollowNodePodsIn(ctx, c1, simulated))).To(Equal(before))
	})

	It("should leave nothing of the simulated cluster when it is removed in order", func(ctx SpecContext) {
		removeInOrder(ctx, simulated)
		working(ctx, "c1", "c2")
	})
}

// removeInOrder takes a simulated cluster away as docs/install.md says: its machines first.
func removeInOrder(ctx context.Context, release string) {
	GinkgoHelper()
	run(ctx, "kubectl --namespace "+release+" delete machinedeployments --all --wait\n")
	Eventually(func() []corev1.Pod { return hollowNodePodsIn(ctx, c1, release) }).Should(BeEmpty())
	run(ctx, "kubectl hollow cluster remove "+release+" --yes\n"+
		"helm --kubeconfig c1.kubeconfig uninstall "+release+" --namespace "+release+" --wait\n"+
		"kubectl --kubeconfig c1.kubeconfig delete namespace "+release+" --wait\n"+
		"kubectl delete namespace "+release+" --wait\n")
}

// makeVolume makes an empty volume for a claim: the image of the nodes that is built here has nothing that provisions one. What a cluster
// of that name has left there is removed, as a provisioner would: another one cannot start with it.
func makeVolume(ctx context.Context, name, namespace, claim string) {
	GinkgoHelper()
	Expect(c1.exec("rm", "-rf", "/var/local/"+name)).To(Succeed())
	Expect(c1.exec("mkdir", "-p", "/var/local/"+name)).To(Succeed())
	Expect(c1.exec("chown", "65532:65532", "/var/local/"+name)).To(Succeed())
	shellIn(ctx, c1.kubeconfig, strings.NewReplacer("NAMESPACE", namespace, "CLAIM", claim, "NAME", name).Replace(`kubectl apply -f - <<END
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec:
  capacity: {storage: 2Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: standard
  hostPath: {path: /var/local/NAME}
  claimRef: {namespace: NAMESPACE, name: CLAIM}
END
`))
}

// lookInto makes a kubeconfig for a simulated cluster, as the notes of its release say, and forwards a port to its API server for as
// long as the spec runs.
func lookInto(ctx context.Context, release string) *kindCluster {
	GinkgoHelper()
	content := run(ctx, "kubectl --kubeconfig c1.kubeconfig --namespace "+release+" exec "+release+"-0 --container simcluster -- "+
		"/simcluster kubeconfig --data-dir /var/lib/simcluster/cluster --user admin --group system:masters\n")
	address := forward(ctx, c1, release, "service/"+release, 6443)
	path := filepath.Join(work, release+".kubeconfig")
	Expect(os.WriteFile(path, []byte(strings.ReplaceAll(content, "https://127.0.0.1:6443", "https://"+address)), 0o600)).To(Succeed())
	inside := &kindCluster{name: release, kubeconfig: path}
	var err error
	inside.config, err = clientcmd.BuildConfigFromFlags("", path)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (err error) {
		inside.client, err = client.New(inside.config, client.Options{Scheme: scheme()})
		return err
	}).Should(Succeed(), "the port is not forwarded")
	return inside
}

// forward forwards a port of a pod or Service to this machine for as long as the spec runs, and returns the address here. kubectl
// gives up when a connection fails, so it is started again.
func forward(ctx context.Context, in *kindCluster, namespace, target string, port int) string {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	address := listener.Addr().(*net.TCPAddr)
	Expect(listener.Close()).To(Succeed())
	forwarding, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for forwarding.Err() == nil {
			command := exec.CommandContext(forwarding, filepath.Join(os.Getenv("HOLLOWFLEET_E2E_PATH"), "kubectl"), "--kubeconfig", in.kubeconfig,
				"--namespace", namespace, "port-forward", target, fmt.Sprintf("%d:%d", address.Port, port))
			command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
			if err := command.Run(); err != nil && forwarding.Err() == nil {
				GinkgoWriter.Printf("forwarding to %s: %v\n", target, err)
			}
		}
	}()
	DeferCleanup(func() {
		end()
		<-ended
	})
	return address.String()
}

func uids(pods []corev1.Pod) map[string]types.UID {
	all := map[string]types.UID{}
	for _, pod := range pods {
		all[pod.Name] = pod.UID
	}
	return all
}
