package drain

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestARoundBeginsWithAnyPodAndComesToAll(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fromAnywhere(nil)).To(BeEmpty())
	var pods []corev1.Pod
	for i := range 4 {
		pod := corev1.Pod{}
		pod.Name = strconv.Itoa(i)
		pods = append(pods, pod)
	}
	first := map[string]bool{}
	for range 200 {
		turned := fromAnywhere(pods)
		g.Expect(turned).To(ConsistOf(pods))
		first[turned[0].Name] = true
	}
	g.Expect(first).To(HaveLen(4), "each pod comes first some time")
}

// An API server that answers slowly ends a round by its timeout, with pods that have had no turn.
// Edge case: A short round ended a drain.
func TestARoundThatEndsEarlyHasMoreToDo(t *testing.T) {
	g := NewWithT(t)
	var end context.CancelFunc
	slow := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/pods/"+slow+"/") {
			_, _ = io.Copy(io.Discard, r.Body) // Only then the server sees that the client has gone.
			end()
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	g.Expect(err).NotTo(HaveOccurred())
	var pods []corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		pod := corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "ns", name, types.UID(name)
		pods = append(pods, pod)
	}
	tried := sets.New[types.UID]()
	d := New(clientset, nil, nil)
	round := func(hangs string) (round Round) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end, slow = cancel, hangs
		_, err := evictAll(ctx, d.newHelper(ctx), untriedFirst(pods, tried), tried, &round)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(round.Refused).To(HaveLen(3))
		return round
	}
	g.Expect(round("b").More).To(BeTrue(), "b and c have not been tried")
	g.Expect(sets.List(tried)).To(Equal([]types.UID{"a"}), "b was not answered")
	g.Expect(round("c").More).To(BeTrue(), "c has not been tried")
	g.Expect(round("c").More).To(BeTrue())
	g.Expect(round("").More).To(BeFalse(), "all have been tried")
	g.Expect(round("a").More).To(BeFalse(), "each was tried in some round")
}
