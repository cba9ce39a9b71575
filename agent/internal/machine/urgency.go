package machine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Urgent reports whether a change of status is written at once. What is not urgent is a machine on its way to
// Ready, or on its way out: it is written only when it makes no progress for a while.
func Urgent(before, after v1alpha1.MachineStatus) bool {
	switch {
	case needsAPerson(after) && reasonOf(before, v1alpha1.MachineDrainedCondition) != reasonOf(after, v1alpha1.MachineDrainedCondition):
		return true
	case awaitsThaw(after) && !awaitsThaw(before):
		// The user who deleted it sees nothing else happen.
		return true
	case heldByFinalizers(after) && !heldByFinalizers(before):
		return true
	case after.Phase == v1alpha1.MachineTerminating:
		return false
	case isUpdating(after) && reasonOf(before, v1alpha1.MachineUpdatedCondition) != reasonOf(after, v1alpha1.MachineUpdatedCondition):
		// The deadline of the drain counts from here, and its siblings wait for it.
		return true
	case healthyStatus(before) != healthyStatus(after) && healthyStatus(before) == metav1.ConditionTrue:
		// The health timeout counts from here.
		return true
	case readyStatus(before) == metav1.ConditionTrue, readyStatus(after) == metav1.ConditionTrue:
		return true
	case before.ErrorReason != after.ErrorReason || before.ErrorMessage != after.ErrorMessage:
		return true
	}
	return newlyBlocked(before, after)
}

// newlyBlocked reports whether there is a cause, which was not there before, that a Machine cannot come up by itself.
func newlyBlocked(before, after v1alpha1.MachineStatus) bool {
	return podFails(after) && !podFails(before) || nodeConflict(after) && !nodeConflict(before) ||
		nameConflict(after) && !nameConflict(before)
}

func nameConflict(status v1alpha1.MachineStatus) bool {
	return reasonOf(status, v1alpha1.MachinePodRunningCondition) == v1alpha1.ReasonNameConflict
}

func awaitsThaw(status v1alpha1.MachineStatus) bool {
	return reasonOf(status, v1alpha1.ReadyCondition) == v1alpha1.ReasonAwaitingThaw
}

func heldByFinalizers(status v1alpha1.MachineStatus) bool {
	return reasonOf(status, v1alpha1.ReadyCondition) == v1alpha1.ReasonHeldByFinalizers
}

func nodeConflict(status v1alpha1.MachineStatus) bool {
	return reasonOf(status, v1alpha1.MachineNodeReadyCondition) == v1alpha1.ReasonNodeNameConflict
}

// needsAPerson reports whether a drain continues, or went, in a way that an operator should know of.
func needsAPerson(status v1alpha1.MachineStatus) bool {
	reason := reasonOf(status, v1alpha1.MachineDrainedCondition)
	return reason == v1alpha1.ReasonMisconfiguredBudget || reason == v1alpha1.ReasonPodsComeBack || reason == v1alpha1.ReasonDrainTimedOut
}

func readyStatus(status v1alpha1.MachineStatus) metav1.ConditionStatus {
	return statusOf(status, v1alpha1.ReadyCondition)
}

func healthyStatus(status v1alpha1.MachineStatus) metav1.ConditionStatus {
	return statusOf(status, v1alpha1.MachineHealthyCondition)
}

func statusOf(status v1alpha1.MachineStatus, conditionType string) metav1.ConditionStatus {
	if condition := meta.FindStatusCondition(status.Conditions, conditionType); condition != nil {
		return condition.Status
	}
	return metav1.ConditionUnknown
}

func podFails(status v1alpha1.MachineStatus) bool {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.MachinePodRunningCondition)
	return condition != nil && condition.Reason == v1alpha1.ReasonPodFailed
}

// Progress is a text that changes with every step that a machine makes, and with nothing else.
func Progress(status v1alpha1.MachineStatus) string {
	steps := []string{string(status.Phase), status.ErrorReason}
	if status.NodeRef != nil {
		steps = append(steps, string(status.NodeRef.UID))
	}
	for _, condition := range status.Conditions {
		switch condition.Type {
		case v1alpha1.MachineStaleCondition, v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition:
			continue // The hub writes the first, and the others follow from it and from what is here.
		}
		steps = append(steps, fmt.Sprintf("%s=%s/%s", condition.Type, condition.Status, condition.Reason))
	}
	slices.Sort(steps[2:])
	return strings.Join(steps, " ")
}

// stalls knows since when each Machine has made no step. It is only a memory: after a restart the wait starts over.
type stalls struct {
	after time.Duration
	mu    sync.Mutex
	byUID map[types.UID]stall
}

type stall struct {
	progress string
	since    time.Time
}

func newStalls(after time.Duration) *stalls {
	return &stalls{after: after, byUID: map[types.UID]stall{}}
}

// writeDelay returns for how long the status in machine, which was stored before, is not to be written; 0 is now.
func (s *stalls) writeDelay(machine *v1alpha1.Machine, stored v1alpha1.MachineStatus, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if equality.Semantic.DeepEqual(stored, machine.Status) || Urgent(stored, machine.Status) {
		delete(s.byUID, machine.UID)
		return 0
	}
	progress := Progress(machine.Status)
	last, ok := s.byUID[machine.UID]
	if !ok || last.progress != progress {
		last = stall{progress: progress, since: now}
		s.byUID[machine.UID] = last
	}
	return max(s.after-now.Sub(last.since), 0)
}

func (s *stalls) forgetMachine(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, uid)
}
