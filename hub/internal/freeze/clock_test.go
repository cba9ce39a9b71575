package freeze

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var (
	silent = Verdict{Frozen: true, Reason: v1alpha1.ReasonAgentSilent}
	well   = Verdict{}
)

// Claim: Nothing becomes available while its cluster is frozen. Broken: the clock runs on in a freeze. Also: hub/internal/machineset TestMinReadySecondsDoNotPassWhileTheClusterIsFrozen; hub/internal/machinedeployment TestNothingBecomesAvailableWhileTheClusterIsFrozen.
func TestTheClockStandsWhileTheClusterIsFrozen(t *testing.T) {
	ready := noon.Add(-2 * time.Hour)
	cluster := func(status metav1.ConditionStatus, since time.Time) *v1alpha1.Cluster {
		c := &v1alpha1.Cluster{}
		c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: status, LastTransitionTime: metav1.NewTime(since)}}
		return c
	}
	for name, test := range map[string]struct {
		cluster *v1alpha1.Cluster
		want    time.Duration
		stands  bool
	}{
		"no cluster":                {nil, 2 * time.Hour, false},
		"nothing is known of it":    {&v1alpha1.Cluster{}, 2 * time.Hour, false},
		"not frozen":                {cluster(metav1.ConditionFalse, noon.Add(-time.Hour)), 2 * time.Hour, false},
		"frozen":                    {cluster(metav1.ConditionTrue, noon.Add(-time.Hour)), time.Hour, true},
		"perhaps frozen":            {cluster(metav1.ConditionUnknown, noon.Add(-time.Hour)), time.Hour, true},
		"frozen before it was up":   {cluster(metav1.ConditionTrue, noon.Add(-3*time.Hour)), 0, true},
		"a clock that was set back": {cluster(metav1.ConditionTrue, noon.Add(time.Minute)), 2 * time.Hour, true},
	} {
		clock := ClockOf(test.cluster, noon)
		if got := clock.Sub(ready); got != test.want || clock.Stands != test.stands {
			t.Errorf("%s: %s and stands: %t, want %s and %t", name, got, clock.Stands, test.want, test.stands)
		}
		later := clock.At(noon.Add(time.Hour)).Sub(ready) - clock.Sub(ready)
		if want := map[bool]time.Duration{false: time.Hour}[test.stands]; later != want {
			t.Errorf("%s: %s later it shows %s more, want %s", name, time.Hour, later, want)
		}
	}
}

// Claim: After a freeze Machines serve the rest of minReadySeconds, also over hub restarts. Broken: the Cluster does not note its freezes; freezes that are over do not count; all Machines start over at the thaw; the end of a freeze is rounded down; the oldest freeze is forgotten; a move goes by the time of day. Also: TestNoFrozenTimeIsServedAndNoneThatWasServedIsLost, TestManyFreezesAreBounded; hub/internal/cluster TestAgentThatFallsSilentFreezesItsCluster; hub/internal/machineset TestMinReadySecondsDoNotPassWhileTheClusterIsFrozen; hub/internal/machinedeployment TestNothingBecomesAvailableWhileTheClusterIsFrozen, TestAMachineThatServesTheRestOfItsTimeIsMovedFirst.
func TestTheClockGoesOnWhereItStood(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	cluster := &v1alpha1.Cluster{}
	for _, turn := range []struct {
		verdict Verdict
		at      time.Time
	}{{well, at(0)}, {silent, at(10)}, {silent, at(30)}, {well, at(130)}, {well, at(131)}, {silent, at(140)}, {well, at(150)}} {
		RecordOnCluster(cluster, turn.verdict, turn.at)
	}
	for name, test := range map[string]struct {
		ready, now, want int
	}{
		"ready before both":                  {5, 160, 5 + 10 + 10},
		"ready at the first freeze":          {10, 160, 10 + 10},
		"ready in the first freeze":          {70, 160, 10 + 10},
		"ready between the two":              {135, 160, 5 + 10},
		"ready in the second freeze":         {145, 160, 10},
		"ready after both":                   {155, 160, 5},
		"ready in time to come":              {170, 160, 0},
		"a clock set back before the second": {5, 138, 5 + 8},
		"a clock set back before the first":  {5, 9, 4},
	} {
		if got := ClockOf(cluster, at(test.now)).Sub(at(test.ready)); got != time.Duration(test.want)*time.Minute {
			t.Errorf("%s: %s, want %d minutes", name, got, test.want)
		}
	}
}

func TestAFreezeOfAMomentIsNoShorterThanItWas(t *testing.T) {
	cluster := &v1alpha1.Cluster{}
	RecordOnCluster(cluster, well, noon)
	RecordOnCluster(cluster, silent, noon.Add(10*time.Second+300*time.Millisecond))
	RecordOnCluster(cluster, well, noon.Add(10*time.Second+900*time.Millisecond))
	RecordOnCluster(cluster, silent, noon.Add(10*time.Second+950*time.Millisecond))
	RecordOnCluster(cluster, well, noon.Add(10*time.Second+990*time.Millisecond))
	if got := len(cluster.Status.Freezes); got != 1 {
		t.Errorf("%d freezes in one second, want 1", got)
	}
	for after, want := range map[time.Duration]time.Duration{
		10990 * time.Millisecond: 10 * time.Second, 11 * time.Second: 10 * time.Second, 12 * time.Second: 11 * time.Second,
	} {
		if got := ClockOf(cluster, noon.Add(after)).Sub(noon); got != want {
			t.Errorf("after %s the clock shows %s, want %s", after, got, want)
		}
	}
}

// history is a cluster that freezes and thaws, as the hub writes it, and the time at which it was not frozen in truth.
type history struct {
	cluster *v1alpha1.Cluster
	now     time.Time
	frozen  bool
	// first is when it froze first; readies are when Machines became Ready, and served what each has served since.
	first   time.Time
	readies []time.Time
	served  []time.Duration
}

func (h *history) pass(d time.Duration) {
	h.now = h.now.Add(d)
	for i := range h.served {
		if !h.frozen {
			h.served[i] += d
		}
	}
}

// ready lets a Machine be Ready from now on. The API knows whole seconds, and rounds down.
func (h *history) ready() {
	h.readies, h.served = append(h.readies, h.now.Truncate(time.Second)), append(h.served, 0)
	if !h.frozen {
		h.served[len(h.served)-1] = h.now.Sub(h.now.Truncate(time.Second))
	}
}

func (h *history) turn() {
	verdict := well
	if h.frozen = !h.frozen; h.frozen {
		verdict = silent
		if h.first.IsZero() {
			h.first = h.now.Truncate(time.Second)
		}
	}
	RecordOnCluster(h.cluster, verdict, h.now)
}

// restart leaves of the hub what the API server has.
func (h *history) restart(t *rapid.T) {
	stored, err := json.Marshal(h.cluster)
	if err != nil {
		t.Fatal(err)
	}
	h.cluster = &v1alpha1.Cluster{}
	if err := json.Unmarshal(stored, h.cluster); err != nil {
		t.Fatal(err)
	}
}

func drawHistory(t *rapid.T, turns int, check func(*history)) {
	h := &history{cluster: &v1alpha1.Cluster{}, now: noon}
	RecordOnCluster(h.cluster, well, h.now)
	h.ready()
	for range turns {
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			h.pass(rapid.SampledFrom([]time.Duration{
				time.Millisecond, 700 * time.Millisecond, time.Second, 90 * time.Second, 2 * time.Hour,
			}).Draw(t, "passes"))
			check(h)
		}
		if rapid.Bool().Draw(t, "ready") {
			h.ready()
		}
		h.turn()
		check(h)
		if rapid.Bool().Draw(t, "restarts") {
			h.restart(t)
			check(h)
		}
	}
}

// A Machine is never said to have served more than it has; what it has served is never taken away again, and no more than
// the seconds that a turn is rounded to are missing.
func TestNoFrozenTimeIsServedAndNoneThatWasServedIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shown, turns := map[int]time.Duration{}, rapid.IntRange(0, 2*maxFreezes).Draw(t, "turns")
		drawHistory(t, turns, func(h *history) {
			clock := ClockOf(h.cluster, h.now)
			for i, ready := range h.readies {
				got := clock.Sub(ready)
				if got > h.served[i] {
					t.Fatalf("%s is shown of a machine that was ready for %s", got, h.served[i])
				}
				if slack := time.Duration(turns+1) * time.Second; got < h.served[i]-slack {
					t.Fatalf("%s is shown of a machine that was ready for %s", got, h.served[i])
				}
				// minReadySeconds are whole.
				if got.Truncate(time.Second) < shown[i] {
					t.Fatalf("%s is shown after %s was", got, shown[i])
				}
				shown[i] = got.Truncate(time.Second)
			}
		})
	})
}

// With more freezes than can be kept, those that waited amid the oldest wait for longer, and no others.
func TestManyFreezesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns := rapid.IntRange(2*maxFreezes, 4*maxFreezes).Draw(t, "turns")
		drawHistory(t, turns, func(h *history) {
			if got := len(h.cluster.Status.Freezes); got > maxFreezes {
				t.Fatalf("%d freezes are kept", got)
			}
			clock := ClockOf(h.cluster, h.now)
			for i, ready := range h.readies {
				got := clock.Sub(ready)
				if got > h.served[i] {
					t.Fatalf("%s is shown of a machine that was ready for %s", got, h.served[i])
				}
				kept := h.cluster.Status.Freezes
				exact := len(kept) < maxFreezes || !ready.After(h.first) || !ready.Before(kept[0].Until.Time)
				if slack := time.Duration(turns+1) * time.Second; exact && got < h.served[i]-slack {
					t.Fatalf("%s is shown of a machine that was ready for %s", got, h.served[i])
				}
			}
		})
	})
}

// The times of Machines are those of their agent's clock, those of freezes are the hub's.
func TestTheClockIsCorrectedByTheSkew(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"behind": -5 * time.Minute, "the same": 0, "ahead": 5 * time.Minute} {
		cluster := &v1alpha1.Cluster{}
		if ahead != 0 {
			cluster.Status.ClockSkew = &metav1.Duration{Duration: ahead}
		}
		RecordOnCluster(cluster, silent, noon.Add(10*time.Minute))
		RecordOnCluster(cluster, well, noon.Add(20*time.Minute))
		ready := noon.Add(5 * time.Minute).Add(ahead) // By the agent's clock.
		clock := ClockOf(cluster, noon.Add(30*time.Minute))
		if got, want := clock.Sub(ready), 15*time.Minute; got != want {
			t.Errorf("%s: it shows %s, want %s", name, got, want)
		}
		if got, want := clock.At(noon.Add(40*time.Minute)).Sub(ready), 25*time.Minute; got != want {
			t.Errorf("%s: later it shows %s, want %s", name, got, want)
		}
	}
}
