package disruption

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Whenever the hub looks, however long it was away: one set of runs for a time, none while others continue, none for times long past.
// Claim: One set of runs per scheduled time. Broken: the runs of the time before are not asked for.
func TestScheduledRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world(2)
		w.Disruption.Spec.Schedule = "*/5 * * * *"
		seen := map[string]bool{}
		for range 40 {
			w.Now = w.Now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second)
			if rapid.Bool().Draw(t, "over") {
				w.end()
			}
			going := 0
			for _, run := range w.Runs {
				if run.Status.Phase != v1alpha1.NodeDisruptionCompleted {
					going++
				}
			}
			d := w.work()
			if len(d.Create) > 0 && going > 0 {
				t.Fatalf("runs start while %d are in progress", going)
			}
			for _, run := range d.Create {
				if name := run.Namespace + run.Name; seen[name] {
					t.Fatalf("%s is made twice", name)
				} else {
					seen[name] = true
				}
				at := d.Status.LastScheduleTime.Time
				if at.Minute()%5 != 0 || at.Second() != 0 || at.After(w.Now) || w.Now.Sub(at) > lateStart {
					t.Fatalf("at %s runs are made for %s", w.Now, at)
				}
			}
			if len(w.Runs) > 2 {
				t.Fatalf("%d runs are kept", len(w.Runs))
			}
			if d.Next.IsZero() || !d.Next.After(w.Now) {
				t.Fatalf("at %s the next time is %s", w.Now, d.Next)
			}
		}
	})
}

// A schedule hits other Nodes each time, unless it has a seed, and the same ones however often the hub decides.
// Claim: Each scheduled run has its own seed. Broken: the disruption's seed for each run.
func TestASchedulesRunsHaveSeedsOfTheirOwn(t *testing.T) {
	for name, test := range map[string]struct {
		seed     *int64
		schedule string
		seeds    int
	}{
		"another one each time": {nil, "*/5 * * * *", 4},
		"one that is set":       {new(int64(7)), "*/5 * * * *", 1},
		"one that is set to 0":  {new(int64(0)), "*/5 * * * *", 1},
		"without a schedule":    {nil, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			g, seeds := NewWithT(t), map[int64]bool{}
			w := world(2)
			w.Disruption.Spec.Schedule, w.Disruption.Spec.Seed = test.schedule, test.seed
			for range 4 {
				before := *w
				before.Disruption = w.Disruption.DeepCopy()
				d := w.work()
				again := Decide(&before)
				g.Expect(again.Create).To(Equal(d.Create), "a hub that is restarted")
				for _, run := range d.Create {
					seeds[run.Spec.SeedValue()] = true
					g.Expect(run.Spec.SeedValue()).To(BeNumerically(">=", 0))
					if test.seed != nil {
						g.Expect(run.Spec.Seed).To(HaveValue(Equal(*test.seed)))
					}
				}
				w.end()
				w.Now = w.Now.Add(5 * time.Minute).Truncate(5 * time.Minute)
			}
			if test.schedule != "" { // The first look came before the first time.
				w.work()
				for _, run := range w.Runs {
					seeds[run.Spec.SeedValue()] = true
				}
			}
			g.Expect(seeds).To(HaveLen(test.seeds))
		})
	}
	other := world(1)
	other.Disruption.UID = "another"
	at := begin
	one := world(1)
	one.Disruption.Spec.Schedule, other.Disruption.Spec.Schedule = "* * * * *", "* * * * *"
	NewWithT(t).Expect(one.runSeed(at)).NotTo(HaveValue(Equal(*other.runSeed(at))), "a copy hits other Nodes")
}

// A cluster that is frozen, or gone, in the middle of its run would otherwise keep all others from what is due forever.
// Claim: A frozen cluster holds up no schedule. Broken: it is waited for; its run is deleted.
func TestAFrozenClusterDoesNotHoldUpTheSchedule(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Disruption.Spec.Schedule = "*/5 * * * *"
	w.Now = begin.Truncate(time.Hour).Add(5 * time.Minute)
	w.work()
	g.Expect(w.Runs).To(HaveLen(3))
	w.Runs[0].Status.Phase = v1alpha1.NodeDisruptionCompleted
	w.Clusters[1].Annotations = map[string]string{v1alpha1.FreezeAnnotation: "a test"}
	w.Clusters = w.Clusters[:2]
	held := w.Runs[1]
	w.Now = w.Now.Add(5 * time.Minute)
	d := w.work()
	g.Expect(d.Create).To(ConsistOf(HaveField("Namespace", "c00")))
	g.Expect(d.Delete).To(ConsistOf(HaveField("Namespace", "c00")), "nothing is deleted in a frozen cluster")
	g.Expect(w.Runs).To(ContainElement(HaveField("UID", held.UID)))
	g.Expect(d.Status.Failures).To(ConsistOf(And(HaveField("Cluster", "c01"), HaveField("Message", ContainSubstring("a test")))))
	w.end()
	w.Clusters[1].Annotations = nil
	w.Now = w.Now.Add(5 * time.Minute)
	g.Expect(w.work().Create).To(HaveLen(2))
	g.Expect(w.Runs).NotTo(ContainElement(HaveField("UID", held.UID)))
}

// A hub that ended before it could give all clusters their runs, or a cluster that refused its own, leaves runs that continue.
// Claim: Runs of incomplete times are paused too. Broken: only those of the last time that was done.
func TestRunsOfATimeThatIsNotDoneArePausedToo(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Disruption.Spec.Schedule = "*/5 * * * *"
	w.Now = begin.Truncate(time.Hour).Add(5 * time.Minute)
	at := metav1.NewTime(w.Now)
	w.work()
	w.Runs = w.Runs[:2]
	w.Disruption.Status = v1alpha1.NodeDisruptionStatus{}
	w.Now = w.Now.Add(2 * time.Minute)
	w.Disruption.Spec.Paused = true
	d := w.work()
	g.Expect(d.Pause).To(HaveLen(2))
	g.Expect(d.Status).To(And(HaveField("LastScheduleTime", HaveValue(HaveField("Time", BeTemporally("==", at.Time)))), HaveField("Clusters", BeEquivalentTo(2)),
		HaveField("Message", "pausing: the Nodes of 0 of 2 runs are restored")))
	g.Expect(d.Status.Failures).To(ConsistOf(And(HaveField("Cluster", "c02"), HaveField("Message", ContainSubstring("could not be made")))))
}
