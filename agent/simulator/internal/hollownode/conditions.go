package hollownode

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/kubelet"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/disrupt"
)

// addStatusSetter lets a kubelet that does not run yet call set with its Node before it reports the status.
func addStatusSetter(k *kubelet.Kubelet, set func(context.Context, *corev1.Node) error) error {
	setters, err := getField[[]func(context.Context, *corev1.Node) error](k, nodeStatusSetters)
	if err != nil {
		return err
	}
	return setField(k, nodeStatusSetters, append(setters, set))
}

// conditions puts conditions of disruptions on a Node, and takes them away. A Node keeps its conditions while its process is
// restarted, so those of disruptions are known by their messages.
type conditions struct {
	// before are conditions that were there before, by type.
	before map[corev1.NodeConditionType]corev1.NodeCondition
}

// setConditions lets the Node have the wanted conditions and no other one of a disruption.
func (c *conditions) setConditions(node *corev1.Node, wanted []corev1.NodeCondition, now time.Time) {
	isWanted := func(existing corev1.NodeCondition) bool {
		return slices.ContainsFunc(wanted, func(one corev1.NodeCondition) bool { return one.Type == existing.Type })
	}
	var kept []corev1.NodeCondition
	for _, existing := range node.Status.Conditions {
		if disrupt.IsMarked(existing.Message) && !isWanted(existing) {
			before, ok := c.before[existing.Type]
			delete(c.before, existing.Type)
			if !ok {
				continue
			}
			existing = changedCondition(existing, before, now)
		}
		kept = append(kept, existing)
	}
	for _, one := range wanted {
		kept = c.addCondition(kept, one, now)
	}
	node.Status.Conditions = kept
}

// addCondition adds a condition or replaces that of its type.
func (c *conditions) addCondition(existing []corev1.NodeCondition, wanted corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	i := slices.IndexFunc(existing, func(one corev1.NodeCondition) bool { return one.Type == wanted.Type })
	if i < 0 {
		return append(existing, changedCondition(corev1.NodeCondition{}, wanted, now))
	}
	if !disrupt.IsMarked(existing[i].Message) {
		if c.before == nil {
			c.before = map[corev1.NodeConditionType]corev1.NodeCondition{}
		}
		c.before[wanted.Type] = existing[i]
	}
	existing[i] = changedCondition(existing[i], wanted, now)
	return existing
}

// changedCondition is the condition that comes after another one.
func changedCondition(from, to corev1.NodeCondition, now time.Time) corev1.NodeCondition {
	to.LastHeartbeatTime = metav1.NewTime(now)
	to.LastTransitionTime = from.LastTransitionTime
	if from.Status != to.Status {
		to.LastTransitionTime = metav1.NewTime(now)
	}
	return to
}
