package hollownode

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// workQueueLateAfter is how long a pod that is due may wait in the kubelet's work queue. A kubelet that keeps up takes it out
// within a second.
const workQueueLateAfter = 5 * time.Second

// workQueueWatch looks at the kubelet's work queue and at the processors whenever the kubelet reports its Node, and reports a queue
// that is late, and a process that always waits for a processor, as a condition of the Node: what was measured on such a Node was the
// machine that simulates it. A queue can be in time although each pod takes minutes.
type workQueueWatch struct {
	gate *fakecri.Gate
	lock *sync.Mutex
	// due says when the kubelet is to look at which pod again. The lock guards it.
	due *map[types.UID]time.Time
	// paused is that the sync loop was made to pause at the last look, so that what is late now is late for that reason.
	paused bool
	// processors reports whether the process gets any.
	processors *sampledWait
	// standstill reports whether the process is stopped most of the time.
	standstill *standstill
}

func watchWorkQueue(k *kubelet.Kubelet, gate *fakecri.Gate) (*workQueueWatch, error) {
	lock, lockErr := pointerTo[sync.Mutex](k, workQueueLock)
	due, err := pointerTo[map[types.UID]time.Time](k, workQueueItems)
	return &workQueueWatch{standstill: shared.watchClock(), gate: gate, lock: lock, due: due, processors: &shared.processors}, errors.Join(lockErr, err)
}

// isLate reports whether the kubelet does not keep up with its queue.
func (w *workQueueWatch) isLate(now time.Time) bool {
	paused := w.gate.Failed(runtimeapi.RuntimeReady)
	was := w.paused
	w.paused = paused
	if paused || was {
		return false
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, due := range *w.due {
		if now.Sub(due) > workQueueLateAfter {
			return true
		}
	}
	return false
}

// setCondition is called by the kubelet with its Node before it reports the status. A Node whose kubelet has never been late has
// no such condition, like the Node of a real kubelet.
func (w *workQueueWatch) setCondition(_ context.Context, node *corev1.Node) error {
	now := time.Now()
	condition := corev1.NodeCondition{
		Type: contract.KubeletLate, Status: corev1.ConditionFalse, Reason: "KubeletInTime",
		Message: "The kubelet takes pods from its work queue in time, and gets processors", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	late, starved := w.isLate(now), w.processors.isStarved(now)
	if !starved && w.standstill.stoodStill() {
		starved = true
		condition.Status, condition.Reason = corev1.ConditionTrue, contract.ProcessorWait
		condition.Message = "The hollow node stands still most of the time: it is stopped again and again, or gets no processor"
	} else if starved {
		condition.Status, condition.Reason = corev1.ConditionTrue, contract.ProcessorWait
		condition.Message = "The hollow node always waits for a processor: its machine is too slow, or gives it too little"
	}
	if late {
		condition.Status, condition.Reason = corev1.ConditionTrue, contract.WorkQueueLate
		condition.Message = "Pods wait for more than " + workQueueLateAfter.String() + " in the kubelet's work queue: the machine of the hollow node is too slow"
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition.Type })
	switch {
	case i >= 0:
		node.Status.Conditions[i] = changedCondition(node.Status.Conditions[i], condition, now)
	case late || starved:
		node.Status.Conditions = append(node.Status.Conditions, condition)
	}
	return nil
}
