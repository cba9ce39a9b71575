package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
)

// A cluster is accepted, and its agent let in, once; who denies it meanwhile is obeyed at once, told or not.
func TestStatusWritesOfAClusterThatFailFiftyTimesInARow(t *testing.T) {
	for name, failure := range reconcilertest.Failures() {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, v1alpha1.AcceptanceAccepted)
			cached := interceptor.NewClient(f.Writes.Count(f.Client), reconcilertest.Failing(&v1alpha1.Cluster{}, failure))
			runner := reconciler.New(cached, cached, f.logic)
			accepted := func() bool { return f.refresh().Status.Namespace != "" }
			history := reconcilertest.Drive(t, runner, f.cluster, 0, f.Clock.Step, accepted)
			f.Expect(len(history.At)).To(BeNumerically(">=", reconcilertest.Times))
			f.Expect(history.Busiest()).To(BeNumerically("<=", 61), "a hot loop: %v", history.At)
			f.Expect(f.get(&corev1.Namespace{}, "", f.cluster.Name)).To(Succeed())
			f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", f.cluster.Generation)))
			counts := f.Writes.Counts()
			f.Expect(counts["create Namespace"]).To(Equal(1))

			cached = interceptor.NewClient(f.Writes.Count(f.Client), reconcilertest.Failing(&v1alpha1.Cluster{}, failure))
			runner = reconciler.New(cached, cached, f.logic)
			f.accept(v1alpha1.AcceptanceDenied)
			denied := 0
			history = reconcilertest.Drive(t, runner, f.cluster, 0, f.Clock.Step, func() bool {
				denied++
				f.Expect(apierrors.IsNotFound(f.get(&rbacv1.ClusterRoleBinding{}, "", RoleName(f.cluster.Name)))).To(BeTrue(), "the agent has access after attempt %d", denied)
				return f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition).Status == metav1.ConditionFalse
			})
			f.Expect(history.Busiest()).To(BeNumerically("<=", 61), "a hot loop: %v", history.At)
			f.Expect(f.get(&corev1.Namespace{}, "", f.cluster.Name)).To(Succeed(), "the namespace stays")
		})
	}
}
