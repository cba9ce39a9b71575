package rollout

import (
	"fmt"
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

const (
	barWidth = 40
	// mostBars is up to how many clusters bars of those that are over stay on the screen.
	mostBars = 15
)

// newDisplay returns bars for a terminal, and lines for anything else.
func (s *subject) newDisplay() display {
	if terminal, is := s.hub.Terminal(); is {
		return newBars(s, terminal)
	}
	return &lines{subject: s, clusters: map[string]string{}}
}

// bars is a display for a terminal: a bar for each cluster in which the revision has begun, and one for all of them.
type bars struct {
	subject  *subject
	progress *mpb.Progress
	all      *bar
	clusters map[string]*bar
	text     string
}

// bar is one bar with the text behind it.
type bar struct {
	*mpb.Bar
	text chan string
}

func newBars(s *subject, terminal io.Writer) *bars {
	b := &bars{subject: s, clusters: map[string]*bar{}, progress: mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(barWidth))}
	b.all = b.add("all clusters", 1<<20, false)
	return b
}

// add adds a bar. The library reads its text from another goroutine.
func (b *bars) add(name string, order int, remove bool) *bar {
	added := &bar{text: make(chan string, 1)}
	shown := ""
	// Without a total the library does not take a bar that is full for one that has ended: a cluster goes back when it fails.
	added.Bar = b.progress.AddBar(0, mpb.BarPriority(order), mpb.BarOptional(mpb.BarRemoveOnComplete(), remove),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			select {
			case shown = <-added.text:
			default:
			}
			return shown
		})))
	return added
}

// show sets how far a bar is. Nothing is shown any more after it has ended.
func (b *bar) show(current, total int64, ended bool, text string) {
	select {
	case <-b.text:
	default:
	}
	b.text <- text
	b.SetTotal(max(total, 1), false)
	b.SetCurrent(min(current, max(total, 1)))
	if ended {
		b.SetTotal(-1, true) // The total becomes what there is.
	}
}

func (b *bars) fleet(fleet *v1alpha1.MachineFleet, now progress) {
	counts := &fleet.Status.Clusters
	text := fmt.Sprintf("%d of %d updated", counts.Updated, counts.Selected)
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
	b.text = now.text
	b.all.show(int64(counts.Updated), int64(counts.Selected), now.done, text)
}

func (b *bars) cluster(state clusterState) {
	found, known := b.clusters[state.name]
	if !known {
		if state.phase == plan.Succeeded {
			return // It was so before.
		}
		found = b.add(state.name, len(b.clusters), b.subject.fleet.Status.Clusters.Selected > mostBars)
		b.clusters[state.name] = found
	}
	found.show(state.updated, state.total, state.phase == plan.Succeeded, state.text)
}

// close ends the bars, and prints how the fleet is at last.
func (b *bars) close() {
	for _, one := range b.clusters {
		one.Abort(false)
	}
	b.all.Abort(false)
	b.progress.Wait()
	if b.text != "" {
		b.subject.printf("%s", b.text)
	}
}
