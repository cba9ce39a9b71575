package drain

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// neverFrozen is an agent that was never frozen.
type neverFrozen struct{}

func (neverFrozen) FrozenSince(time.Time) time.Duration { return 0 }

// nodeServer is an API server with the pods of one Node, which notes the evictions.
type nodeServer struct {
	pods    []corev1.Pod
	evicted []string
}

func (s *nodeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost {
		s.evicted = append(s.evicted, strings.Split(r.URL.Path, "/")[6])
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
		return
	}
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: s.pods}
	_ = json.NewEncoder(w).Encode(&list)
}

// podOf is a pod of a ReplicaSet on the Node.
func podOf(set, name string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, Controller: ptr.To(true)}}
	return pod
}

func newNodeServer(t *testing.T) (*nodeServer, *Drainer, *clocktesting.FakeClock) {
	t.Helper()
	s := &nodeServer{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	return s, New(clientset, clock, neverFrozen{}), clock
}

func readyNode() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

// A drain as a whole waits for pods that come back, until it is another one.
func TestARoundHoldsPodsBackThatComeBack(t *testing.T) {
	g := NewWithT(t)
	s, d, clock := newNodeServer(t)
	round := func(pods ...corev1.Pod) Round {
		s.pods, s.evicted = pods, nil
		round, err := d.Round(t.Context(), readyNode())
		g.Expect(err).NotTo(HaveOccurred())
		return round
	}
	round(podOf("web", "web-1"))
	g.Expect(s.evicted).To(Equal([]string{"web-1"}))
	held := round(podOf("web", "web-2"))
	g.Expect(s.evicted).To(BeEmpty())
	g.Expect(held.Returning).To(ConsistOf(HaveField("Owner", "ReplicaSet ns/web")))
	clock.Step(minRefillWait)
	round(podOf("web", "web-2"))
	g.Expect(s.evicted).To(Equal([]string{"web-2"}))
	d.Forget("n")
	round(podOf("web", "web-3"))
	g.Expect(s.evicted).To(Equal([]string{"web-3"}), "the next drain of the Node starts over")
}

func TestARoundNamesTheFinalizersOfPodsThatLeave(t *testing.T) {
	g := NewWithT(t)
	s, d, _ := newNodeServer(t)
	held := podOf("web", "web-1")
	held.Finalizers, held.DeletionTimestamp = []string{"example.com/a", "example.com/b"}, &metav1.Time{Time: time.Unix(1000, 0)}
	s.pods = []corev1.Pod{held}
	round, err := d.Round(t.Context(), readyNode())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.evicted).To(BeEmpty())
	g.Expect(Evaluate(round, time.Minute, time.Hour).Message).To(ContainSubstring("ns/web-1, kept by finalizers: example.com/a, example.com/b"))
}
