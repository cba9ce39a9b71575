package measurement

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	nodes "github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// longDisrupted is how long a Node that a disruption was on may not be Ready when the steps are over.
const longDisrupted = time.Minute

// NodeTracker measures how long Nodes take to be Ready, and knows whose kubelets were late.
type NodeTracker struct {
	record recordFunc

	mu sync.Mutex
	// since is when a Node was new or became not Ready; Nodes that were not Ready before the run started are not in it.
	since map[string]time.Time
	ready map[string]bool
	// isHollow has the Nodes that are there.
	isHollow map[string]bool
	// over is that the steps are: what happens to Nodes later is not measured.
	over bool
	// late has the Nodes whose kubelet was late at some time, those that are gone as well.
	late map[string]LateKubelet
}

// LateKubelet is why a kubelet was late.
type LateKubelet struct{ Queue, Starved bool }

func newNodeTracker(record recordFunc) *NodeTracker {
	return &NodeTracker{record: record, since: map[string]time.Time{}, ready: map[string]bool{}, isHollow: map[string]bool{}, late: map[string]LateKubelet{}}
}

// ObserveNode notes what the watch shows of a Node. There says that it was there before the watch started.
func (t *NodeTracker) ObserveNode(node *corev1.Node, there bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ready := nodes.Ready(node)
	was, known := t.ready[node.Name]
	t.ready[node.Name], t.isHollow[node.Name] = ready, node.Labels[v1alpha1.HollowNodeLabel] == "true"
	t.observeKubelet(node)
	since, waits := t.since[node.Name]
	switch {
	case t.over:
	case ready && waits:
		delete(t.since, node.Name)
		t.record(measure.Key{Measurement: v1alpha1.LoadNodeReady}, max(now.Sub(since), 0), now)
	case !ready && (known && was || !known && !there):
		t.since[node.Name] = now
	}
}

// recordUnready records how long Nodes have waited that are not Ready when the steps are over. Of those that a disruption was on, only such as
// should have been Ready again long ago: the others are away on purpose.
func (t *NodeTracker) recordUnready(disrupted map[string]bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, since := range t.since {
		if waited := now.Sub(since); !disrupted[name] || waited > longDisrupted {
			t.record(measure.Key{Measurement: v1alpha1.LoadNodeReady, Unfinished: true}, max(waited, 0), now)
		}
	}
	clear(t.since)
	t.over = true
}

// HollowNodes are the names of the hollow Nodes that are there.
func (t *NodeTracker) HollowNodes() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := map[string]bool{}
	for name, hollow := range t.isHollow {
		if hollow {
			names[name] = true
		}
	}
	return names
}

// LateKubelets are the Nodes whose kubelet was late at some time, by their names.
func (t *NodeTracker) LateKubelets() map[string]LateKubelet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.late)
}

// observeKubelet notes whether a hollow kubelet says of itself that it does not keep up.
func (t *NodeTracker) observeKubelet(node *corev1.Node) {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == hollownode.KubeletLate && c.Status == corev1.ConditionTrue {
			late := t.late[node.Name]
			late.Starved = late.Starved || c.Reason == hollownode.ProcessorWait
			late.Queue = late.Queue || c.Reason != hollownode.ProcessorWait
			t.late[node.Name] = late
		}
	}
}

// forgetNode forgets a Node, but not that its kubelet was late.
func (t *NodeTracker) forgetNode(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.since, name)
	delete(t.ready, name)
	delete(t.isHollow, name)
}
