package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// stall lets no answer to a request about a namespace come before release is closed, and counts those that wait.
type stall struct {
	namespace atomic.Pointer[string]
	waiting   atomic.Int32
	release   chan struct{}
}

func (s *stall) wrap(options *hub.Options) {
	options.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if namespace := s.namespace.Load(); namespace != nil && strings.Contains(request.URL.Path, "/namespaces/"+*namespace+"/") {
				s.waiting.Add(1)
				defer s.waiting.Add(-1)
				select {
				case <-s.release:
				case <-request.Context().Done():
				}
			}
			return next.RoundTrip(request)
		})
	})
}

// Claim: A namespace of endless objects holds up no MachineDeployment or MachineSet of another. Broken: the controllers have the queue of controller-runtime. Also: hub/internal/fairqueue TestTheQueueIsFairInAnyOrder.
// Edge case: The editor of one namespace held up every other one for minutes.
func TestANamespaceFullOfObjectsHoldsUpNoOther(t *testing.T) {
	stalled := &stall{release: make(chan struct{})}
	r := start(t, stalled.wrap)
	defer close(stalled.release)
	noisy := r.deployment(1)
	r.become(noisy, 1)
	stalled.namespace.Store(&noisy.Namespace)
	for i := range 3 * hub.DefaultConcurrency {
		labels := map[string]string{"app": fmt.Sprint("noisy-", i)}
		selector := v1alpha1.MachineSelector{MatchLabels: labels}
		r.ExpectApplied(&v1alpha1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: noisy.Namespace, Name: labels["app"]},
			Spec:       v1alpha1.MachineDeploymentSpec{ClusterName: noisy.Namespace, Replicas: new(int32(1)), Selector: selector, Template: testenv.Template(labels)},
		})
		labels = map[string]string{"app": fmt.Sprint("alone-", i)}
		selector.MatchLabels = labels
		r.ExpectApplied(&v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: noisy.Namespace, Name: labels["app"]},
			Spec:       v1alpha1.MachineSetSpec{ClusterName: noisy.Namespace, Replicas: new(int32(1)), Selector: selector, Template: testenv.Template(labels)},
		})
	}
	r.Eventually(stalled.waiting.Load).WithTimeout(time.Minute).Should(BeNumerically(">=", 2*(hub.DefaultConcurrency-1)), "the noisy namespace has its workers")
	quiet := r.deployment(2)
	r.become(quiet, 2)
}
