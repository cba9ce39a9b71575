package hollownode

import (
	"errors"
	"io"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
)

// Claim: A node killed while its kubelet is built ends alone. Broken: its end was not told, and the podhost ended its pack.
func TestANodeThatIsKilledWhileItIsBuiltEnds(t *testing.T) {
	l := newLife()
	err := l.runNode(func() error {
		l.endNode()
		return l.endGoroutine()
	})
	if !errors.Is(err, ErrKilled) {
		t.Errorf("got %v, want ErrKilled", err)
	}
	if err := newLife().runNode(func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the node's own error", err)
	}
}

// Claim: A node that ends while it starts holds up no other. Broken: what it was lent was not given back, and the podhost ended its pack.
func TestANodeThatEndsGivesBackWhatItWasLent(t *testing.T) {
	n := &node{life: newLife()}
	n.configuration.NodeName = "n"
	dependencies := &kubelet.Dependencies{
		KubeClient: fake.NewClientset(), Recorder: record.NewFakeRecorder(1), PodStartupLatencyTracker: kubeletutil.NewPodStartupLatencyTracker(),
	}
	synced := make(chan struct{})
	if err := n.watchPods(t.Context(), dependencies, func() bool {
		shared.building.Lock() // Another node is built meanwhile.
		go func() {
			n.life.endNode()
			close(synced)
			shared.building.Unlock()
		}()
		return true
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-synced:
	case <-time.After(time.Minute):
		t.Fatal("the source of pods does not start")
	}
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		// The source may not have come as far as to be lent anything.
		if shared.building.TryLock() {
			n.life.mu.Lock()
			wasLent := n.life.last != nil
			n.life.mu.Unlock()
			shared.building.Unlock()
			if wasLent {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no other node can be built")
		}
	}
}
