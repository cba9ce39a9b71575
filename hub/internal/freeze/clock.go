package freeze

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// maxFreezes is the most that a Cluster's status can hold.
const maxFreezes = 32

// Clock is that of a cluster's Machines. It stands still while the cluster is frozen, and continues from there after the
// thaw: a Machine whose state is not known does not become available by the passing of time. The times of the Machines
// are those of their agent's clock, and are compared with the hub's by what the two differ.
type Clock struct {
	// Stands: the cluster is frozen.
	Stands bool
	now    time.Time
	over   []v1alpha1.Freeze
	// ahead is how far the agent's clock is ahead of the hub's.
	ahead time.Duration
}

// ClockOf is what the clock of cluster shows at now. One that does not exist has never been frozen.
func ClockOf(cluster *v1alpha1.Cluster, now time.Time) *Clock {
	clock := &Clock{now: now}
	if cluster == nil {
		return clock
	}
	clock.over = cluster.Status.Freezes
	if skew := cluster.Status.ClockSkew; skew != nil {
		clock.ahead = skew.Duration
	}
	if frozen := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.FrozenCondition); isFrozen(frozen) {
		clock.Stands = true
		if frozen.LastTransitionTime.Time.Before(now) {
			clock.now = frozen.LastTransitionTime.Time
		}
	}
	return clock
}

// At is what the same clock shows at now, as far as was known of the cluster when it was made.
func (c *Clock) At(now time.Time) *Clock {
	if c.Stands {
		return c
	}
	return &Clock{now: now, over: c.over, ahead: c.ahead}
}

// Sub is the time since then, by the agent's clock, without what was frozen.
func (c *Clock) Sub(since time.Time) time.Duration {
	since = since.Add(-c.ahead)
	var passed time.Duration
	for _, freeze := range c.over {
		if freeze.Since.After(c.now) {
			break // The hub's clock was set back.
		}
		passed += max(freeze.Since.Sub(since), 0)
		if freeze.Until.After(since) {
			since = freeze.Until.Time
		}
	}
	return passed + max(c.now.Sub(since), 0)
}

// RecordOnCluster makes verdict the Frozen condition of cluster. With a thaw it enters the freeze that is over: one write has both,
// so that no crash can lose it.
func RecordOnCluster(cluster *v1alpha1.Cluster, verdict Verdict, now time.Time) {
	status := &cluster.Status
	before := meta.FindStatusCondition(status.Conditions, v1alpha1.FrozenCondition).DeepCopy()
	if !conditions.Set(&status.Conditions, verdict.Condition(cluster.Generation), now) || !isFrozen(before) {
		return
	}
	// A condition's time is cut to the second. The end is rounded up: no Machine gets a part of a second for nothing.
	since, until := before.LastTransitionTime, metav1.NewTime(now.Add(time.Second-1).Truncate(time.Second))
	if n := len(status.Freezes); n > 0 && since.Before(&status.Freezes[n-1].Until) {
		since = status.Freezes[n-1].Until
	}
	if since.Before(&until) {
		status.Freezes = boundFreezes(append(status.Freezes, v1alpha1.Freeze{Since: since, Until: until}))
	}
}

// boundFreezes lets the second freeze start earlier by the time that the first one took, if there are too many. For Machines
// that were Ready before both or after both that is the same; others wait for longer.
func boundFreezes(freezes []v1alpha1.Freeze) []v1alpha1.Freeze {
	for len(freezes) > maxFreezes {
		first, second := freezes[0], &freezes[1]
		second.Since = metav1.NewTime(second.Since.Add(-first.Until.Sub(first.Since.Time)))
		freezes = freezes[1:]
	}
	return freezes
}

func isFrozen(condition *metav1.Condition) bool {
	return condition != nil && condition.Status != metav1.ConditionFalse
}
