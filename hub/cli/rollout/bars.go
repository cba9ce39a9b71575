package rollout

import (
	"fmt"
	"io"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// newDisplay returns bars for a terminal, and lines for anything else.
func (s *subject) newDisplay() display {
	if terminal, is := s.hub.Terminal(); is {
		return newBars(s, terminal)
	}
	return &lines{subject: s, clusters: map[string]string{}}
}

// bars is a display for a terminal: a bar for each cluster in which the revision has started, and one for all of them.
type bars struct {
	subject  *subject
	shown    *cmdutil.Bars
	all      *cmdutil.Bar
	clusters map[string]*cmdutil.Bar
	text     string
}

func newBars(s *subject, terminal io.Writer) *bars {
	b := &bars{subject: s, clusters: map[string]*cmdutil.Bar{}, shown: cmdutil.NewBars(terminal)}
	b.all = b.shown.Add("all clusters", 1<<20, false)
	return b
}

func (b *bars) showFleet(fleet *v1alpha1.MachineFleet, now progress) {
	counts := &fleet.Status.Clusters
	text := fmt.Sprintf("%d of %d updated", counts.Updated, totalClusters(counts))
	if fleet.Status.Waves > 0 {
		text = fmt.Sprintf("wave %d of %d, %s", fleet.Status.CurrentWave, fleet.Status.Waves, text)
	}
	for _, part := range []struct {
		count int32
		what  string
	}{{counts.Held, "held"}, {counts.Failed, "failed"}, {counts.RollingBack, "rolling back"}, {counts.RolledBack, "rolled back"}, {counts.Blocked, "blocked"}} {
		if part.count > 0 {
			text += fmt.Sprintf(", %d %s", part.count, part.what)
		}
	}
	b.text = now.progressLine()
	b.all.Show(int64(counts.Updated), int64(totalClusters(counts)), now.done, text)
}

func (b *bars) showCluster(state clusterState) {
	found, known := b.clusters[state.name]
	if !known {
		if state.phase == plan.Succeeded {
			return // It was so before.
		}
		found = b.shown.Add(state.name, len(b.clusters), b.subject.fleet.Status.Clusters.Selected > cmdutil.MostBars)
		b.clusters[state.name] = found
	}
	found.Show(state.updated, state.total, state.phase == plan.Succeeded, state.text)
}

// closeDisplay ends the bars, and prints how the fleet is at last.
func (b *bars) closeDisplay() {
	for _, one := range b.clusters {
		one.Stop()
	}
	b.all.Stop()
	b.shown.Wait()
	if b.text != "" {
		b.subject.printf("%s", b.text)
	}
}
