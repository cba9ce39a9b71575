package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Edge case: Failures delayed annotations.
func TestTheKindsHaveRateLimitersOfTheirOwn(t *testing.T) {
	g := NewWithT(t)
	shared := controller.Options{MaxConcurrentReconciles: 3, RateLimiter: reconciler.Retries()}
	deployments, sets := ofOneKind(shared), ofOneKind(shared)
	g.Expect(deployments.MaxConcurrentReconciles).To(Equal(3))
	request := reconciler.Request("c1", "pool")
	for range 5 {
		deployments.RateLimiter.When(request)
	}
	g.Expect(deployments.RateLimiter.NumRequeues(request)).To(Equal(5))
	g.Expect(sets.RateLimiter.NumRequeues(request)).To(BeZero(), "a set of the same name is not put off")
}
