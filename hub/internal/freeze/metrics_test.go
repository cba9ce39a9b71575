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

// world is what a hub's cache has.
type world struct {
	client.Reader
	clusters []v1alpha1.Cluster
	sets     []v1alpha1.MachineSet
}

func (w *world) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
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
	one, two := &world{clusters: make([]v1alpha1.Cluster, 3), sets: make([]v1alpha1.MachineSet, 2)}, &world{sets: make([]v1alpha1.MachineSet, 1)}
	one.clusters[0].Status.Conditions = frozen(metav1.ConditionTrue, v1alpha1.ReasonAgentSilent, time.Minute)
	one.clusters[1].Status.Conditions = frozen(metav1.ConditionFalse, v1alpha1.ReasonNotFrozen, time.Hour)
	one.sets[0].Status.Conditions = frozen(metav1.ConditionTrue, v1alpha1.ReasonOvershoot, time.Minute)
	one.sets[1].Status.Conditions = frozen(metav1.ConditionTrue, v1alpha1.ReasonOvershoot, 2*time.Minute)
	two.sets[0].Status.Conditions = frozen(metav1.ConditionUnknown, v1alpha1.ReasonUnknown, 0)
	c.serve(one)
	end := c.serve(two)
	g.Expect(testutil.CollectAndCompare(c, strings.NewReader(`
# HELP hollowfleet_frozen Objects that are frozen, by kind (scope) and reason.
# TYPE hollowfleet_frozen gauge
hollowfleet_frozen{reason="AgentSilent",scope="cluster"} 1
hollowfleet_frozen{reason="Overshoot",scope="machineset"} 2
hollowfleet_frozen{reason="Unknown",scope="machineset"} 1
# HELP hollowfleet_frozen_longest_seconds How long the one of them has been frozen that has been so for longest, by kind (scope) and reason.
# TYPE hollowfleet_frozen_longest_seconds gauge
hollowfleet_frozen_longest_seconds{reason="AgentSilent",scope="cluster"} 60
hollowfleet_frozen_longest_seconds{reason="Overshoot",scope="machineset"} 120
hollowfleet_frozen_longest_seconds{reason="Unknown",scope="machineset"} 0
`))).To(Succeed())
	end()
	g.Expect(testutil.CollectAndCount(c)).To(Equal(4), "a hub that has ended counts no more")
	one.sets, one.clusters = nil, nil
	g.Expect(testutil.CollectAndCount(c)).To(BeZero(), "what is thawed is gone")
}
