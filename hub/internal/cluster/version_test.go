package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Agents compare it with their own version.
func TestTheClusterTellsTheHubsVersion(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.logic.Version = "v0.4.0"
	f.ExpectReconciled(f.cluster)
	f.Expect(f.refresh().Status.HubVersion).To(Equal("v0.4.0"))
	f.logic.Version = "v0.5.0"
	f.ExpectReconciled(f.cluster)
	f.Expect(f.refresh().Status.HubVersion).To(Equal("v0.5.0"))
}

// A cluster whose agent is refused is frozen on the hub too, and not for lack of news.
func TestAnAgentOfAnotherVersionFreezesItsCluster(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.refresh()
	meta.SetStatusCondition(&f.cluster.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterAgentFrozenCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonVersionSkew, Message: "upgrade the agent",
	})
	f.ExpectStatusApplied(f.cluster)
	f.ExpectReconciled(f.cluster)
	frozen := f.ReadCondition(f.cluster, v1alpha1.FrozenCondition)
	f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonVersionSkew))
	f.Expect(frozen.Message).To(ContainSubstring("upgrade the agent"))
}
