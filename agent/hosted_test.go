package agent_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// emptyKeeper runs no clusters, and would run v1.37.
type emptyKeeper struct{ localclusters.Keeper }

func (emptyKeeper) List(context.Context) (localclusters.ClusterList, error) {
	return localclusters.ClusterList{Versions: []string{"v1.37"}}, nil
}

func serveKeeper(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), localclusters.SocketName)
	listener, err := net.Listen("unix", socket) //nolint:noctx // a test's own socket
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: localclusters.NewHandler(emptyKeeper{}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

// hosted makes a SimulatedCluster whose Cluster exists, and which wants a version.
func (f *env) hosted(version string) *v1alpha1.SimulatedCluster {
	f.t.Helper()
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: f.cluster + "-sim"}}
	one.Spec.Versions.ControlPlane = version
	f.Expect(f.admin.Create(context.Background(), one)).To(Succeed())
	f.t.Cleanup(func() { _ = f.admin.Delete(context.Background(), one) })
	one.Status.Conditions = append(one.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterCreatedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCreated, ObservedGeneration: one.Generation, LastTransitionTime: metav1.Now(),
	})
	f.Expect(f.admin.Status().Update(context.Background(), one)).To(Succeed())
	return one
}

func (f *env) expectAllowed(status metav1.ConditionStatus, reason, message string) {
	f.t.Helper()
	f.Eventually(func(g Gomega) {
		cluster := &v1alpha1.Cluster{}
		g.Expect(f.exists(cluster, "", f.cluster)()).To(Succeed())
		g.Expect(meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterSimulatedClustersAllowedCondition)).To(HaveValue(And(
			HaveField("Status", status), HaveField("Reason", reason), HaveField("Message", ContainSubstring(message)),
		)))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

// Claim: An agent hosts simulated clusters only if told. Broken: the condition is always True; the flag reaches no driver.
func TestAnAgentHostsSimulatedClustersIfItIsTold(t *testing.T) {
	t.Parallel()
	socket := serveKeeper(t)
	f := start(t, "hosting-1", func(o *agent.Options) { o.SimulatedClustersSocket = socket })
	f.accept()
	f.expectThawed()
	f.expectAllowed(metav1.ConditionTrue, v1alpha1.ReasonTurnedOn, "")
	one := f.hosted("v1.34")
	f.Eventually(func(g Gomega) {
		g.Expect(f.admin.Get(context.Background(), client.ObjectKeyFromObject(one), one)).To(Succeed())
		g.Expect(meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)).To(HaveValue(HaveField("Message", ContainSubstring("choose one of v1.37"))))
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the keeper is asked")
}

func TestAnAgentHostsSimulatedClustersAsPodsIfItIsTold(t *testing.T) {
	t.Parallel()
	f := start(t, "hosting-3", func(o *agent.Options) { o.SimulatedPods.By = agent.SimulatedByPods })
	f.accept()
	f.expectThawed()
	f.expectAllowed(metav1.ConditionTrue, v1alpha1.ReasonTurnedOn, "")
	one := f.hosted("v1.99")
	f.Eventually(func(g Gomega) {
		g.Expect(f.admin.Get(context.Background(), client.ObjectKeyFromObject(one), one)).To(Succeed())
		g.Expect(meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)).To(HaveValue(HaveField("Message", ContainSubstring("choose one of v1.34"))))
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the driver is asked")
}

func TestAnAgentHostsNoSimulatedClustersByItself(t *testing.T) {
	t.Parallel()
	f := start(t, "hosting-2", nil)
	f.accept()
	f.expectThawed()
	f.expectAllowed(metav1.ConditionFalse, v1alpha1.ReasonTurnedOff, "neither --simulated-clusters nor --simulated-clusters-socket is set")
}
