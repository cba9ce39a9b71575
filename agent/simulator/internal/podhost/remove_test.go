package podhost_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

// While an API server starts it says of each pod that a node deletes that
// there is none. The pods that ended meanwhile are removed all the same.
func TestPodsAreRemovedThoughAStartingAPIServerDoesNotKnowThem(t *testing.T) {
	h := newTestHost(t)
	config, err := clientcmd.BuildConfigFromFlags("", h.options.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", h.node).String()
	}))
	lister := factory.Core().V1().Pods().Lister()
	informer := factory.Core().V1().Pods().Informer()
	factory.Start(t.Context().Done())

	const count = 40
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, h.create(h.pod(fmt.Sprintf("p-%d", i))))
	}
	h.eventually("the watch knows the pods", func() error {
		if known := len(informer.GetStore().ListKeys()); known != count {
			return fmt.Errorf("it knows %d of %d", known, count)
		}
		return nil
	})
	h.apiServer("stop")
	// Some are about to try again whenever it is that the API server answers.
	var removing sync.WaitGroup
	for i, pod := range pods {
		removing.Go(func() {
			<-time.After(time.Duration(i) * 50 * time.Millisecond)
			h.eventually("the pod is removed", func() error { return podhost.Remove(t.Context(), client, lister, pod) })
			if _, err := h.get(pod.Name); !apierrors.IsNotFound(err) {
				t.Errorf("%s counts as removed, and the API server says %v", pod.Name, err)
			}
		})
	}
	h.apiServer("start")
	removing.Wait()
}
