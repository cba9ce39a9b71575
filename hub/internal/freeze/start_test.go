package freeze

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: One rule says whether anything may start in a cluster. Broken: the agent's connection is not asked for; a Cluster that cannot be decoded counts as fine.
func TestWhatMayStartInACluster(t *testing.T) {
	now := metav1.Now()
	set := func(cluster *v1alpha1.Cluster, kind string, status metav1.ConditionStatus, message string) {
		for i := range cluster.Status.Conditions {
			if c := &cluster.Status.Conditions[i]; c.Type == kind {
				c.Status, c.Reason, c.Message = status, "Because", message
				return
			}
		}
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Because", Message: message})
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Cluster)
		says   string
	}{
		"all is well":   {func(*v1alpha1.Cluster) {}, ""},
		"undecodable":   {func(c *v1alpha1.Cluster) { c.DecodeError = "a week" }, "a week"},
		"being deleted": {func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &now }, "is being deleted"},
		"not accepted":  {func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptancePending }, "is not accepted yet"},
		"denied":        {func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptanceDenied }, "is denied"},
		"no namespace yet": {func(c *v1alpha1.Cluster) {
			set(c, v1alpha1.ClusterAcceptedCondition, metav1.ConditionFalse, "a foreign namespace")
		}, "a foreign namespace"},
		"frozen by annotation": {func(c *v1alpha1.Cluster) { c.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "stop"} }, "stop"},
		"frozen":               {func(c *v1alpha1.Cluster) { set(c, v1alpha1.FrozenCondition, metav1.ConditionTrue, "it is") }, "is frozen: it is"},
		"frozen or not":        {func(c *v1alpha1.Cluster) { set(c, v1alpha1.FrozenCondition, metav1.ConditionUnknown, "who knows") }, "is frozen: who knows"},
		"frozen by its agent": {func(c *v1alpha1.Cluster) {
			set(c, v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, "no hub")
		}, "The agent is frozen: no hub"},
		"never connected": {func(c *v1alpha1.Cluster) { c.Status.Conditions = c.Status.Conditions[:1] }, "has never been connected"},
		"not connected": {func(c *v1alpha1.Cluster) {
			set(c, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionFalse, "gone")
		}, "is not connected: gone"},
		"perhaps not connected": {func(c *v1alpha1.Cluster) {
			set(c, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, "old")
		}, "is not connected: old"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
			cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
			for _, kind := range []string{v1alpha1.ClusterAcceptedCondition, v1alpha1.ClusterAgentConnectedCondition} {
				set(cluster, kind, metav1.ConditionTrue, "")
			}
			set(cluster, v1alpha1.FrozenCondition, metav1.ConditionFalse, "")
			test.change(cluster)
			verdict := OfStart("c", cluster)
			g.Expect(verdict.Message).To(ContainSubstring(test.says))
			g.Expect(verdict.Frozen).To(Equal(test.says != ""))
			if !verdict.Frozen {
				g.Expect(verdict.Message).To(BeEmpty())
			}
		})
	}
	NewWithT(t).Expect(OfStart("c", nil).Message).To(ContainSubstring("there is no Cluster"))
}
