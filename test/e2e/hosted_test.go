package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// hosted are the SimulatedClusters of c1.
var hosted = []string{"s1", "s2"}

// hostsSimulatedClusters has the agent of c1 run simulated clusters that are asked for by objects, and takes them away again.
func hostsSimulatedClusters() {
	// Claim: A host on kind runs simulated clusters as pods, upgrades one in place, and leaves nothing of them. Broken: not broken alone.
	It("should host simulated clusters as pods once its administrator allows it", func(ctx SpecContext) {
		run(ctx, "helm --kubeconfig c1.kubeconfig upgrade agent bin/charts/agent.tgz --namespace "+agentNamespace+
			" --reuse-values --set simulatedClusters.enabled=true --wait\n")
		Eventually(condition(ctx, "c1", v1alpha1.ClusterSimulatedClustersAllowedCondition)).Should(HavePrefix("True"))
		for _, name := range hosted {
			makeVolume(ctx, name, "simulated-"+name, "data-simcluster-0")
		}
		started := time.Now()
		for _, name := range hosted {
			run(ctx, strings.ReplaceAll(`kubectl apply -f - <<END
apiVersion: hollowfleet.io/v1alpha1
kind: SimulatedCluster
metadata: {namespace: c1, name: NAME}
spec: {versions: {controlPlane: v1.36}}
END
`, "NAME", name))
		}
		working(ctx, hosted...)
		figure("2 simulated clusters as pods of one host, from kubectl apply to Ready", seconds(started))
		for _, name := range hosted {
			Expect(controlPlaneVersion(ctx, name)()).To(HavePrefix("v1.36"))
			for _, used := range memoryOf(ctx, c1, "simulated-"+name, client.MatchingLabels{"app.kubernetes.io/name": "hollowfleet-simcluster"}) {
				figure("memory of the pod of "+name+", agent included, at rest",
					fmt.Sprintf("%.0f MiB (RSS %.0f)", float64(used.WorkingSetBytes)/mebibyte, float64(used.RSSBytes)/mebibyte))
			}
		}
	})

	It("should upgrade the control plane of one in place", func(ctx SpecContext) {
		started := time.Now()
		run(ctx, `kubectl --namespace c1 patch simulatedcluster s1 --type merge --patch '{"spec":{"versions":{"controlPlane":"v1.37"}}}'`+"\n")
		Eventually(controlPlaneVersion(ctx, "s1")).Should(HavePrefix("v1.37"))
		working(ctx, hosted...)
		figure("upgrade of a simulated cluster as a pod, until it is Ready", seconds(started))
		Expect(controlPlaneVersion(ctx, "s2")()).To(HavePrefix("v1.36"))
	})

	It("should leave nothing of them", func(ctx SpecContext) {
		run(ctx, "kubectl --namespace c1 delete simulatedclusters --all --wait\n")
		for _, name := range hosted {
			err := c1.client.Get(ctx, client.ObjectKey{Name: "simulated-" + name}, &corev1.Namespace{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			Expect(apierrors.IsNotFound(hub.client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.Cluster{}))).To(BeTrue())
			run(ctx, "kubectl --kubeconfig c1.kubeconfig delete persistentvolume "+name+"\n")
		}
		run(ctx, "helm --kubeconfig c1.kubeconfig upgrade agent bin/charts/agent.tgz --namespace "+agentNamespace+
			" --reuse-values --set simulatedClusters.enabled=false --wait\n")
		working(ctx, "c1", "c2")
	})
}

// controlPlaneVersion is what a simulated cluster of c1 runs.
func controlPlaneVersion(ctx context.Context, name string) func() (string, error) {
	return func() (string, error) {
		one := &v1alpha1.SimulatedCluster{}
		err := hub.client.Get(ctx, client.ObjectKey{Namespace: "c1", Name: name}, one)
		if one.Status.Versions == nil {
			return "", err
		}
		return one.Status.Versions.ControlPlane, err
	}
}
