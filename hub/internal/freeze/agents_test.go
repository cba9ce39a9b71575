package freeze

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func joined(name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.ClusterStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ClusterJoinedCondition, Status: metav1.ConditionTrue},
			{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue},
		}},
	}
}

func TestHearsayFreezes(t *testing.T) {
	g := NewWithT(t)
	agents := &Agents{}
	verdict := agents.Verdict(joined("c1"))
	g.Expect(verdict.Frozen).To(BeTrue())
	g.Expect(verdict.Passing).To(BeTrue(), "it is not worth a write")
	g.Expect(verdict.Reason).To(Equal(v1alpha1.ReasonStarting))

	agents.Hear("c2")
	g.Expect(agents.Verdict(joined("c1")).Frozen).To(BeTrue(), "another's renewal proves nothing")
	agents.Hear("c1")
	g.Expect(agents.Verdict(joined("c1")).Frozen).To(BeFalse())
	agents.Forget("c1")
	g.Expect(agents.Verdict(joined("c1")).Frozen).To(BeTrue())
}

func TestAClusterThatNeverJoinedHasNobodyToHear(t *testing.T) {
	g := NewWithT(t)
	agents := &Agents{}
	g.Expect(agents.Verdict(&v1alpha1.Cluster{}).Frozen).To(BeFalse())
	g.Expect(agents.Verdict(nil).Frozen).To(BeFalse())
}

func TestNewsComeOncePerAgentToEverybody(t *testing.T) {
	g := NewWithT(t)
	agents := &Agents{}
	first, second := agents.News(), agents.News()
	const clusters = 1000 // More than the buffer: hearing never blocks.
	for range 2 {
		for i := range clusters {
			agents.Hear(fmt.Sprint(i))
		}
	}
	seen := map[string]int{}
	for range clusters {
		seen[(<-first).Object.GetName()]++
		<-second
	}
	g.Expect(seen).To(HaveLen(clusters))
	g.Consistently(first).ShouldNot(Receive())
}
