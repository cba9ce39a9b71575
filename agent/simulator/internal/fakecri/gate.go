package fakecri

import (
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Gate decides what the runtime says about its own health, and how pods start. The zero value is healthy. A failed
// RuntimeReady or NetworkReady condition makes the kubelet report its Node as not ready.
type Gate struct {
	mu     sync.Mutex
	failed map[string]Failure
	// podStart disturbs the start of pods; nil if nothing does. changed is closed when it is another one; it is nil until a pod
	// waits for that.
	podStart PodStart
	changed  chan struct{}
}

// Failure is why a condition does not hold; both parts are shown in the Node's Ready condition.
type Failure struct {
	Reason, Message string
}

// Fail makes the condition (runtimeapi.RuntimeReady or runtimeapi.NetworkReady) false until Restore.
func (g *Gate) Fail(condition string, failure Failure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == nil {
		g.failed = map[string]Failure{}
	}
	g.failed[condition] = failure
}

// Restore ends a failure set with Fail.
func (g *Gate) Restore(condition string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.failed, condition)
}

// Failed reports whether the condition was made to fail.
func (g *Gate) Failed(condition string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, failed := g.failed[condition]
	return failed
}

func (g *Gate) runtimeCondition(name string) *runtimeapi.RuntimeCondition {
	g.mu.Lock()
	defer g.mu.Unlock()
	failure, failed := g.failed[name]
	return &runtimeapi.RuntimeCondition{
		Type: name, Status: !failed, Reason: failure.Reason, Message: failure.Message,
	}
}
