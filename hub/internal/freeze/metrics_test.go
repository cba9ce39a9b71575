package freeze

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// hubCache is what a hub's cache has.
type hubCache struct {
	client.Reader
	clusters []v1alpha1.Cluster
	sets     []v1alpha1.MachineSet
}

func (w *hubCache) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *v1alpha1.ClusterList:
		list.Items = w.clusters
	case *v1alpha1.MachineSetList:
		list.Items = w.sets
	default:
		return errors.New("not cached")
	}
	return nil
}

func frozen(status metav1.ConditionStatus, reason string, age time.Duration) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-age))}}
}

func TestWhatIsFrozenIsCounted(t *testing.T) {
	g := NewWithT(t)
	c := &Collector{clock: testclock.NewFakePassiveClock(now)}
	one, two := &hubCache{clusters: make([]v1alpha1.Cluster, 3), sets: make([]v1alpha1.MachineSet, 2)}, &hubCache{sets: make([]v1alpha1.MachineSet, 1)}
	one.clusters[0].Status.Conditions = frozen(metav1.ConditionTrue, v1alpha1.ReasonAgentSilent, time.Minute)
	one.clusters[1].Status.Conditions = frozen(metav1.ConditionFalse, v1alpha1.ReasonNotFrozen, time.Hour)
	one.sets[0].Status.Conditions = frozen(metav1.ConditionTrue, v1alpha1.ReasonOvershoot, time.Minute)
	one.sets[1].Status.Conditions = frozen(metav1.ConditionTrue, v1alpha1.ReasonOvershoot, 2*time.Minute)
	two.sets[0].Status.Conditions = frozen(metav1.ConditionUnknown, v1alpha1.ReasonUnknown, 0)
	c.readers.Add(one)
	end := c.readers.Add(two)
	g.Expect(testutil.CollectAndCompare(c, strings.NewReader(`
# HELP hollowfleet_hub_frozen_objects Objects that are frozen, by kind and reason.
# TYPE hollowfleet_hub_frozen_objects gauge
hollowfleet_hub_frozen_objects{kind="Cluster",reason="AgentSilent"} 1
hollowfleet_hub_frozen_objects{kind="MachineSet",reason="Overshoot"} 2
hollowfleet_hub_frozen_objects{kind="MachineSet",reason="Unknown"} 1
# HELP hollowfleet_hub_frozen_longest_seconds Longest time that an object has been frozen, by kind and reason.
# TYPE hollowfleet_hub_frozen_longest_seconds gauge
hollowfleet_hub_frozen_longest_seconds{kind="Cluster",reason="AgentSilent"} 60
hollowfleet_hub_frozen_longest_seconds{kind="MachineSet",reason="Overshoot"} 120
hollowfleet_hub_frozen_longest_seconds{kind="MachineSet",reason="Unknown"} 0
`))).To(Succeed())
	end()
	g.Expect(testutil.CollectAndCount(c)).To(Equal(4), "a hub that has ended counts no more")
	one.sets, one.clusters = nil, nil
	g.Expect(testutil.CollectAndCount(c)).To(BeZero(), "what is thawed is gone")
}
