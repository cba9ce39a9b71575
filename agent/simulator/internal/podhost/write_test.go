package podhost

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
)

// Claim: A status whose write may have failed is written again as a whole, and what others write stays. Broken: compared with what may not have arrived; compared with all that is there.
func TestAStatusOfUnknownArrivalIsWrittenAgain(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, HostIP: "127.0.0.1"},
	}
	stored := pod.DeepCopy()
	stored.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	client := fake.NewClientset(stored)
	writes, fails := 0, true
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes++
		return fails, nil, errors.New("the connection was lost")
	})
	p := &pods{ctx: t.Context(), client: client, known: map[types.UID]*knownPod{}, settled: time.NewTimer(time.Hour)}
	known := &knownPod{Pod: podlife.New(&podlife.Runtime{Changed: func(types.UID) {}}, pod), written: corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "127.0.0.1"}}
	if p.writeStatus(known, false) {
		t.Error("a write that failed counts as done")
	}
	fails = false
	for range 2 {
		if !p.writeStatus(known, false) {
			t.Error("the write is not done")
		}
	}
	got, err := client.CoreV1().Pods("n").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if writes != 2 || got.Status.Phase != corev1.PodPending || len(got.Status.Conditions) != 1 {
		t.Errorf("after %d writes, want 2, the status is %+v", writes, got.Status)
	}
}
