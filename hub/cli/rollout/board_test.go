package rollout

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/follow"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
)

// A board of a fleet has the clusters that have started, and below each what its Machines do, the longest drain first.
func TestABoardShowsWhatEachMachineWaitsFor(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	draining := func(name string, since time.Duration) v1alpha1.Machine {
		machine := v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: name, DeletionTimestamp: &metav1.Time{Time: now.Add(-since)}}}
		machine.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.MachineDrainedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, LastTransitionTime: metav1.NewTime(now.Add(-since)),
			Message: "waiting for pod default/web-0: The disruption budget web needs 2 healthy pods and has 2 currently",
		}}
		return machine
	}
	machines := &v1alpha1.MachineList{Items: []v1alpha1.Machine{draining("short", time.Second), draining("long", 90*time.Second)}}
	b := &board{
		subject: &subject{fleet: &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}}, now: now, progress: progress{text: "rolls out"},
		steps: listSteps(machines, 0, now), lines: []clusterLine{{"c1", follow.State{Text: "1 of 3 machines updated", Current: 1, Total: 3}}},
	}
	shown := func(width int) string {
		var lines []string
		for _, line := range b.Lines(width, 50) {
			lines = append(lines, line.Text)
		}
		return strings.Join(lines, "\n")
	}
	g := NewWithT(t)
	g.Expect(shown(160)).To(MatchRegexp(`(?s)^machinefleet.hollowfleet.io/workers rolls out
c1 +\[=+>-+\] 1 of 3 machines updated
  long Draining for 90s: waiting for pod default/web-0: The disruption budget web needs 2 healthy pods and has 2 currently
  short Draining for 1s: .*
all clusters \[-+\] 0 of 0 updated$`))
	g.Expect(shown(40)).To(MatchRegexp(`(?s)  long\n    Draining for 90s: waiting for pod\n    default/web-0:`))
}

// A board ends when the rollout does, when its object is deleted, and when the hub is gone and no timeout bounds the waiting.
func TestABoardEnds(t *testing.T) {
	now := time.Now()
	known := func(d ...v1alpha1.MachineDeployment) map[string]live.Snapshot {
		return map[string]live.Snapshot{
			wholeKind: {List: &v1alpha1.MachineDeploymentList{Items: d}}, machinesKind: {List: &v1alpha1.MachineList{}},
		}
	}
	working := live.Pulse{Answered: now}
	gone := live.Pulse{Answered: now, Hub: cmdutil.HubState{Problem: "it has stopped", Gone: true}}
	running := deployment(func(d *v1alpha1.MachineDeployment) { d.Status.UpdatedReplicas = 1 })
	for name, test := range map[string]struct {
		known   map[string]live.Snapshot
		pulse   live.Pulse
		mayGive bool
		done    bool
		says    string
	}{
		"continues":              {known(*running), working, true, false, "1 of 3 machines updated"},
		"complete":               {known(*deployment(func(*v1alpha1.MachineDeployment) {})), working, true, true, "has rolled out"},
		"deleted":                {known(), working, true, true, ""},
		"stopped hub":            {known(*running), gone, true, true, "the hub does not work: it has stopped"},
		"stopped hub, a timeout": {known(*running), gone, false, false, "the hub does not work: it has stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := &board{subject: &subject{deployment: running.DeepCopy()}, mayGive: test.mayGive}
			g.Expect(b.Update(test.known, test.pulse, now)).To(Succeed())
			g.Expect(b.Done()).To(Equal(test.done))
			var text strings.Builder
			for _, line := range b.Lines(200, 50) {
				text.WriteString(line.Text + "\n")
			}
			g.Expect(text.String()).To(ContainSubstring(test.says))
		})
	}
}

func TestBars(t *testing.T) {
	g := NewWithT(t)
	for current, bar := range map[int64]string{-1: "[--------]", 0: "[--------]", 1: "[==>-----]", 3: "[========]", 7: "[========]"} {
		g.Expect(DrawBar(current, 3, 40)).To(Equal(bar))
	}
	g.Expect(DrawBar(1, 0, 40)).To(Equal("[========]"))
	g.Expect(DrawBar(1, 2, 200)).To(HaveLen(wideBar + 2))
}
