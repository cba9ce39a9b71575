package cluster

import (
	"bytes"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func examples() []v1alpha1.Cluster {
	created := metav1.NewTime(now.Add(-3 * time.Hour))
	return []v1alpha1.Cluster{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "fine", CreationTimestamp: created},
			Spec:       v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted},
			Status: v1alpha1.ClusterStatus{
				KubernetesVersion: "v1.37.1", AgentVersion: "v0.1.0", Machines: &v1alpha1.MachineCounts{Total: 3, Ready: 3},
				Conditions: []metav1.Condition{
					condition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady, ""),
					condition(v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen, ""),
					condition(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed, ""),
				},
			},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "new", CreationTimestamp: created},
			Spec:       v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptancePending, AcceptancePolicy: v1alpha1.AcceptanceAuto},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "silent", CreationTimestamp: created},
			Spec:       v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted},
			Status: v1alpha1.ClusterStatus{
				ClockSkew: &metav1.Duration{Duration: -4 * time.Second}, Orphans: &v1alpha1.Orphans{Instances: 2, Nodes: 1}, Machines: &v1alpha1.MachineCounts{Total: 3, Ready: 1, Failed: 2},
				Conditions: []metav1.Condition{
					condition(v1alpha1.ReadyCondition, metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "AgentConnected is Unknown"),
					condition(v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent, "The agent is silent"),
					condition(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonLeaseExpired, ""),
				},
			},
		},
	}
}

// Claim: An unknown clock skew is not shown. Broken: `<2s` for a cluster that never joined.
// Edge case: `cluster list` hid orphans.
func TestTableOfClusters(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect(printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(newTable(examples(), now), &out)).To(Succeed())
	g.Expect(out.String()).To(Equal(`NAME     ACCEPTANCE   READY               FROZEN               MACHINES   KUBERNETES   AGENT    AGE
fine     Accepted     True                False                3/3        v1.37.1      v0.1.0   3h
new      Auto         -                   -                    -          -            -        3h
silent   Accepted     Unknown (Unknown)   True (AgentSilent)   1/3        -            -        3h
`))
	out.Reset()
	g.Expect(printers.NewTablePrinter(printers.PrintOptions{Wide: true, NoHeaders: true}).PrintObj(newTable(examples(), now), &out)).To(Succeed())
	g.Expect(strings.Split(out.String(), "\n")).To(HaveExactElements(
		MatchRegexp(`^fine .* 3h +True +<2s +0 +0 *$`),
		MatchRegexp(`^new .* 3h +- +- +- +0 *$`),
		MatchRegexp(`^silent .* 3h +Unknown \(LeaseExpired\) +-4s +2 +2 instances, 1 node +The agent is silent$`),
		BeEmpty()))
	lost := examples()[2]
	lost.Status.ClockSkew = nil
	g.Expect(formatSkew(&lost)).To(Equal("-"), "it is not known while the agent is silent")
}

func TestPickSortsAndMisses(t *testing.T) {
	g := NewWithT(t)
	all, err := pickClusters(examples(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).To(HaveLen(3))
	some, err := pickClusters(examples(), []string{"silent", "fine"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]string{some[0].Name, some[1].Name}).To(Equal([]string{"silent", "fine"}))
	some, err = pickClusters(examples(), []string{"another", "silent", "finer"})
	g.Expect(err).To(MatchError("cluster another does not exist, cluster finer does not exist; did you mean fine?"))
	g.Expect(some).To(HaveExactElements(HaveField("Name", "silent")), "what exists is listed")
}
