// What an agent reports about a Machine is computed here, in health.go and in updated.go, and in urgency.go when it is worth
// a write to the hub. All of it is pure: the time comes from the caller.

package machine

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// Input is what a status is computed from.
type Input struct {
	Observation
	// Problem is a passing trouble with the instance, for people; empty if there is none.
	Problem string
	// Drain is what came of the drain; nil if nothing was drained at this look.
	Drain *drain.Report
	// DrainSince is when the drain of a Machine that is being deleted started.
	DrainSince time.Time
	// Updating: the driver has just been told to update the instance. UpdateProblem is why it could not.
	Updating      bool
	UpdateProblem string
	// NameConflict is why no instance can be made; empty if nothing of its name is in the way.
	NameConflict string
	// Held is what keeps the deletion of the Machine; empty if nothing is known to.
	Held string
	// HeldByFinalizers: what keeps it are finalizers of others.
	HeldByFinalizers bool
	Now              time.Time
}

// startingTable is what Ready asks for until the Node is up.
var startingTable = []conditions.Part{
	{Type: v1alpha1.MachineConfigurationValidCondition, Wanted: metav1.ConditionTrue},
	{Type: v1alpha1.MachinePodRunningCondition, Wanted: metav1.ConditionTrue},
	{Type: v1alpha1.MachineNodeReadyCondition, Wanted: metav1.ConditionTrue},
}

// runningTable is what Ready asks for while pod and Node are up: a configuration that turned invalid, or a
// MachineClass that was deleted, takes nothing from a node that runs.
var runningTable = startingTable[1:]

// Compute returns the status of in.Machine. What is not known now stays as it was last reported.
func Compute(in Input) v1alpha1.MachineStatus {
	before := in.Machine.Status
	status := *before.DeepCopy()
	status.ObservedGeneration = in.Machine.Generation

	changed := setValid(&status, in)
	changed = setPodRunning(&status, in) || changed
	changed = setNodeReady(&status, in) || changed
	changed = setHealthy(&status, in) || changed
	changed = setUpdated(&status, in) || changed
	changed = setDrained(&status, in) || changed
	changed = setSchedulable(&status, in) || changed
	setError(&status, in)
	setConfigSource(&status, in)
	ready := readyOf(status, in)
	changed = conditions.Set(&status.Conditions, ready, in.Now) || changed
	conditions.ReconcileMachine(&status, !in.Machine.DeletionTimestamp.IsZero(), in.Now)
	setNode(&status, in)
	status.Phase = phaseOf(status, in)
	if changed || status.Phase != before.Phase {
		now := metav1.NewTime(in.Now.Truncate(time.Second))
		status.LastUpdated = &now
	}
	return status
}

// setError repeats the terminal error: one of the configuration, else a timeout.
func setError(status *v1alpha1.MachineStatus, in Input) {
	found := in.Terminal
	if found == nil {
		found = expiredTimeout(*status, in)
	}
	if found == nil {
		found = &Terminal{}
	}
	message := conditions.Shorten(found.Message, conditions.MaxMessage)
	status.ErrorReason, status.ErrorMessage, status.FailureMessage = conditions.Shorten(found.Reason, maxText), message, message
}

func setValid(status *v1alpha1.MachineStatus, in Input) bool {
	condition := metav1.Condition{
		Type: v1alpha1.MachineConfigurationValidCondition, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonValid, ObservedGeneration: in.Machine.Generation,
	}
	since := in.Now
	if in.Terminal != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, in.Terminal.Reason, in.Terminal.Message
	} else if in.Unresolved != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, in.Unresolved.Reason, in.Unresolved.Message
	} else if meta.FindStatusCondition(status.Conditions, condition.Type) == nil && !in.Machine.CreationTimestamp.IsZero() {
		// The creation timeout counts from here on.
		since = in.Machine.CreationTimestamp.Time
	}
	return conditions.Set(&status.Conditions, condition, since)
}

func setPodRunning(status *v1alpha1.MachineStatus, in Input) bool {
	condition := metav1.Condition{
		Type: v1alpha1.MachinePodRunningCondition, Status: metav1.ConditionFalse, ObservedGeneration: in.Machine.Generation,
	}
	switch {
	case in.NameConflict != "":
		condition.Reason, condition.Message = v1alpha1.ReasonNameConflict, in.NameConflict
	case !in.InstanceKnown:
		return keepCondition(status, condition, in, joinWithSemicolons("the instance could not be read", in.Problem))
	case in.Instance == nil && in.NodeConflict != "":
		condition.Reason, condition.Message = v1alpha1.ReasonNodeNameConflict, joinWithSemicolons(in.NodeConflict, in.Problem)
	case in.Instance == nil:
		condition.Reason, condition.Message = v1alpha1.ReasonPodMissing, joinWithSemicolons(describeMissing(in), in.Problem)
	case in.Instance.State == Running:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonPodRunning
		condition.Message = joinWithSemicolons(in.Instance.Message, in.Problem)
	case in.Instance.State == Failing, in.Instance.State == Failed:
		condition.Reason, condition.Message = v1alpha1.ReasonPodFailed, joinWithSemicolons(in.Instance.Message, in.Problem)
	default:
		condition.Reason, condition.Message = v1alpha1.ReasonPodPending, joinWithSemicolons(in.Instance.Message, in.Problem)
	}
	return conditions.Set(&status.Conditions, condition, in.Now)
}

func describeMissing(in Input) string {
	what := instanceNoun(in.Provider)
	switch {
	case !in.Machine.DeletionTimestamp.IsZero():
		return "the " + what + " is gone"
	case in.Terminal != nil:
		return "no " + what + " is created with an invalid configuration"
	case in.Frozen:
		return "there is no " + what + ", and the agent creates none while it is frozen"
	}
	return "there is no " + what + " yet"
}

// instanceNoun is what users call the instances of a provider.
func instanceNoun(provider string) string {
	switch provider {
	case v1alpha1.ProviderHollow, "":
		return "pod"
	case v1alpha1.ProviderKwok:
		return "Node"
	}
	return "instance"
}

func setNodeReady(status *v1alpha1.MachineStatus, in Input) bool {
	condition := metav1.Condition{
		Type: v1alpha1.MachineNodeReadyCondition, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonNodeNotFound, ObservedGeneration: in.Machine.Generation,
	}
	switch {
	case !in.NodeKnown:
		return keepCondition(status, condition, in, "the node could not be read")
	case in.NodeConflict != "":
		condition.Reason, condition.Message = v1alpha1.ReasonNodeNameConflict, in.NodeConflict
	case in.Node == nil && in.Machine.Spec.ProviderID == nil:
		condition.Message = "the node has not joined yet"
	case in.Node == nil:
		condition.Message = "the node object is gone"
	case in.Machine.Spec.ProviderID == nil:
		condition.Reason, condition.Message = v1alpha1.ReasonNodeNotReady, "the node has registered, but is not linked to its machine yet"
	default:
		condition.Status, condition.Reason, condition.Message = nodeReadiness(in.Node)
	}
	return conditions.Set(&status.Conditions, condition, in.Now)
}

func nodeReadiness(node *corev1.Node) (status metav1.ConditionStatus, reason, message string) {
	if !node.DeletionTimestamp.IsZero() {
		return metav1.ConditionFalse, v1alpha1.ReasonNodeDeleting, joinWithSemicolons("the node is being deleted", heldBy(node.Finalizers))
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		switch condition.Status {
		case corev1.ConditionTrue:
			// The kubelet's own message is the same for every node, and says no more.
			return metav1.ConditionTrue, v1alpha1.ReasonNodeReady, ""
		case corev1.ConditionFalse:
			return metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, condition.Message
		default:
			return metav1.ConditionUnknown, v1alpha1.ReasonNodeStatusUnknown, condition.Message
		}
	}
	return metav1.ConditionUnknown, v1alpha1.ReasonNodeStatusUnknown, "the node has not reported its readiness yet"
}

// keepCondition leaves a condition as it was last reported; the first time it is Unknown.
func keepCondition(status *v1alpha1.MachineStatus, condition metav1.Condition, in Input, message string) bool {
	if meta.FindStatusCondition(status.Conditions, condition.Type) != nil {
		return false
	}
	condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, message
	return conditions.Set(&status.Conditions, condition, in.Now)
}

func readyOf(status v1alpha1.MachineStatus, in Input) metav1.Condition {
	if !in.Machine.DeletionTimestamp.IsZero() {
		deleting := metav1.Condition{
			Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting,
			Message: joinWithSemicolons("the machine is being deleted", in.Held), ObservedGeneration: in.Machine.Generation,
		}
		if in.HeldByFinalizers {
			deleting.Reason = v1alpha1.ReasonHeldByFinalizers
		}
		if in.Frozen && in.Held == "" {
			deleting.Reason, deleting.Message = v1alpha1.ReasonAwaitingThaw, "the cluster is frozen: the deletion continues when it is unfrozen"
		}
		return deleting
	}
	table := startingTable
	if isUp(status) {
		table = runningTable
	}
	if reasonOf(status, v1alpha1.MachineHealthyCondition) == v1alpha1.ReasonUnhealthyNodeCondition {
		table = slices.Concat(table, []conditions.Part{{Type: v1alpha1.MachineHealthyCondition, Wanted: metav1.ConditionTrue}})
	}
	return conditions.Summarize(status.Conditions, table, in.Machine.Generation)
}

// heldBy names the finalizers that keep an object which is being deleted; empty without any.
func heldBy(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return "it is kept by the finalizers of others: " + strings.Join(finalizers, ", ")
}

// isUp reports whether pod and Node are well.
func isUp(status v1alpha1.MachineStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.MachinePodRunningCondition) &&
		meta.IsStatusConditionTrue(status.Conditions, v1alpha1.MachineNodeReadyCondition)
}

// setNode repeats what the Node says of itself. A Node that is gone leaves what it said last.
func setNode(status *v1alpha1.MachineStatus, in Input) {
	node := in.Node
	if node == nil || in.Machine.Spec.ProviderID == nil {
		return
	}
	status.NodeRef = &v1alpha1.NodeReference{Kind: "Node", Name: node.Name, UID: node.UID}
	status.Versions = &v1alpha1.ObservedVersions{
		Kubelet:          conditions.Shorten(node.Status.NodeInfo.KubeletVersion, maxText),
		KubeletCode:      node.Labels[v1alpha1.KubeletCodeLabel],
		ContainerRuntime: conditions.Shorten(node.Status.NodeInfo.ContainerRuntimeVersion, maxText),
		OSImage:          conditions.Shorten(node.Status.NodeInfo.OSImage, maxText),
	}
	status.Addresses = nil
	for _, address := range node.Status.Addresses[:min(len(node.Status.Addresses), maxAddresses)] {
		// One that is cut is none.
		if len(address.Address) <= maxText && len(address.Type) <= maxAddressType {
			status.Addresses = append(status.Addresses, address)
		}
	}
}

// What the hub's API server accepts of a Node's own words.
const (
	maxText        = 256
	maxAddresses   = 64
	maxAddressType = 64
)

// phaseOf sums a status up. The first line that holds is the phase:
//
//	Terminating   the Machine is being deleted
//	Failed        a timeout has passed; or the configuration is invalid, and pod and Node are not up
//	Updating      an update in place is drained for, made, or waits for the Node to be Ready again
//	Running       the Node is Ready
//	Unknown       the Node was Ready once, and its kubelet is silent now
//	Running       the Node was Ready once; the Ready condition tells what is wrong now
//	Provisioning  there is an instance, and its Node has never been Ready
//	Pending       there is nothing yet
//
// A phase is left as soon as its line does not hold any more: a Machine that Failed by a timeout and whose Node
// is Ready again is Running.
func phaseOf(status v1alpha1.MachineStatus, in Input) v1alpha1.MachinePhase {
	nodeReady := meta.FindStatusCondition(status.Conditions, v1alpha1.MachineNodeReadyCondition)
	wasUp := wasUp(in.Machine.Status)
	switch {
	case !in.Machine.DeletionTimestamp.IsZero():
		return v1alpha1.MachineTerminating
	case isTimeout(status.ErrorReason), status.ErrorReason != "" && !isUp(status):
		return v1alpha1.MachineFailed
	case isUpdating(status):
		return v1alpha1.MachineUpdating
	case nodeReady.Status == metav1.ConditionTrue:
		return v1alpha1.MachineRunning
	case wasUp && nodeReady.Status == metav1.ConditionUnknown:
		return v1alpha1.MachineUnknown
	case wasUp:
		return v1alpha1.MachineRunning
	case in.Instance != nil:
		return v1alpha1.MachineProvisioning
	case !in.InstanceKnown && status.Phase != "":
		return status.Phase
	}
	return v1alpha1.MachinePending
}

// joinWithSemicolons joins what there is of its parts with semicolons.
func joinWithSemicolons(parts ...string) string {
	var joined string
	for _, part := range parts {
		switch {
		case part == "":
		case joined == "":
			joined = part
		default:
			joined += "; " + part
		}
	}
	return joined
}
