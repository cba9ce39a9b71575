package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// defaultDrainTimeout is spec.timeouts.drain of a Machine that sets none, nor its class.
const defaultDrainTimeout = 2 * time.Hour

// forecastDeletion says what a deletion of the Machine does: what it waits for first, how the Node goes, and what comes after.
func (s *story) forecastDeletion() []string {
	return append(append(s.forecastWaits(), s.forecastDrain()), s.forecastReplacement())
}

// forecastWaits are what has to happen before anything is done.
func (s *story) forecastWaits() []string {
	var waits []string
	m := s.document.Machine
	switch {
	case s.document.Cluster.Missing:
		return []string{fmt.Sprintf("Cluster %s does not exist: no agent removes the Machine, and its finalizers keep it. See kubectl hollow cluster remove-finalizers --help", m.Namespace)}
	case s.cluster == nil:
		waits = append(waits, "You may not list Clusters: whether this one is frozen, or its agent silent, is not known")
	default:
		if connected := meta.FindStatusCondition(s.cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition); connected == nil || connected.Status != metav1.ConditionTrue {
			waits = append(waits, fmt.Sprintf("The agent of Cluster %s is not connected: nothing is removed before it is", m.Namespace))
		}
		if frozen := notesOfFrozen(s.cluster.Status.Conditions); len(frozen) > 0 {
			waits = append(waits, fmt.Sprintf("Cluster %s is %s: nothing is drained or removed before it is unfrozen", m.Namespace, frozen[0]))
		}
	}
	if s.isForced() {
		return waits
	}
	var hooks []string
	for key := range m.Annotations {
		if strings.HasPrefix(key, v1alpha1.PreDrainHookPrefix) || strings.HasPrefix(key, v1alpha1.PreTerminateHookPrefix) {
			hooks = append(hooks, key)
		}
	}
	if slices.Sort(hooks); len(hooks) > 0 {
		waits = append(waits, "The deletion waits until these annotations are removed: "+strings.Join(hooks, ", "))
	}
	return waits
}

func (s *story) isForced() bool {
	return s.document.Machine.Labels[v1alpha1.ForceDeletionLabel] == "true"
}

// forecastDrain says how the Node goes.
func (s *story) forecastDrain() string {
	m := s.document.Machine
	if m.Status.NodeRef == nil {
		return "No Node has joined: there is nothing to drain"
	}
	node := m.Status.NodeRef.Name
	switch {
	case s.isForced():
		return fmt.Sprintf("Node %s is removed without a drain, because the Machine has label %s", node, v1alpha1.ForceDeletionLabel)
	case s.class != nil && s.class.Spec.DrainPolicy == v1alpha1.SkipDrain:
		return fmt.Sprintf("Node %s is removed without a drain, because MachineClass %s has drainPolicy Skip", node, s.class.Name)
	case slices.Contains(s.unread, classes):
		return fmt.Sprintf("You may not list MachineClasses: whether Node %s is drained first is not known", node)
	}
	limit := defaultDrainTimeout
	for _, timeouts := range []*v1alpha1.MachineTimeouts{classTimeouts(s.class), m.Spec.Timeouts} {
		if timeouts != nil && timeouts.Drain != nil {
			limit = timeouts.Drain.Duration
		}
	}
	return fmt.Sprintf("Node %s is drained within disruption budgets for at most %s; then it is removed with the pods that are left", node, formatLimit(limit))
}

func classTimeouts(class *v1alpha1.MachineClass) *v1alpha1.MachineTimeouts {
	if class == nil {
		return nil
	}
	return class.Spec.Timeouts
}

// formatLimit is a duration as a user writes it: 2h, not 2h0m0s.
func formatLimit(limit time.Duration) string {
	text := limit.String()
	for _, zero := range []struct{ end, unit string }{{"m0s", "m"}, {"h0m", "h"}} {
		if strings.HasSuffix(text, zero.end) {
			text = strings.TrimSuffix(text, zero.end) + zero.unit
		}
	}
	return text
}

// forecastReplacement says whether another Machine takes the place.
func (s *story) forecastReplacement() string {
	owner := metav1.GetControllerOf(s.document.Machine)
	switch {
	case owner == nil:
		return "No MachineSet owns it: it is not replaced"
	case slices.Contains(s.unread, sets):
		return "You may not list MachineSets: whether it is replaced is not known"
	case s.set == nil || s.set.UID != owner.UID:
		return fmt.Sprintf("%s %s, which owned it, does not exist: it is not replaced", owner.Kind, owner.Name)
	case s.set.DeletionTimestamp != nil:
		return fmt.Sprintf("MachineSet %s is being deleted: it is not replaced", owner.Name)
	case s.set.Status.Replicas > ptr.Deref(s.set.Spec.Replicas, 1):
		return fmt.Sprintf("MachineSet %s has %d Machines and wants %d: it is not replaced", owner.Name, s.set.Status.Replicas, ptr.Deref(s.set.Spec.Replicas, 1))
	case len(notesOfFrozen(s.set.Status.Conditions)) > 0:
		return fmt.Sprintf("MachineSet %s is %s: it is replaced once that is over", owner.Name, notesOfFrozen(s.set.Status.Conditions)[0])
	}
	return fmt.Sprintf("MachineSet %s replaces it: it wants %d", owner.Name, ptr.Deref(s.set.Spec.Replicas, 1))
}
