package dashboard

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// axis is a time axis from 0 to axisWidth.
type axis struct {
	From, To time.Time
	// Now is where the present is.
	Now int
}

const axisWidth = 1000

// xOf is where a time is.
func (a axis) xOf(at time.Time) int {
	span := a.To.Sub(a.From)
	if span <= 0 {
		return 0
	}
	return min(max(int(axisWidth*float64(at.Sub(a.From))/float64(span)), 0), axisWidth)
}

// Text names the ends of the axis.
func (a axis) Text() string {
	form := "15:04:05"
	if a.To.Sub(a.From) > 20*time.Hour {
		form = "Jan 2 15:04"
	}
	return a.From.UTC().Format(form) + " to " + a.To.UTC().Format(form) + " UTC"
}

// IsZero reports whether there is nothing to draw.
func (a axis) IsZero() bool { return a.From.IsZero() }

// bar is a part of a time axis.
type bar struct {
	X, Width int
	Class    string
	Title    string
}

// newBar is a bar of an axis; it has a width that can be seen.
func (a axis) newBar(class, what string, from, to time.Time) bar {
	x := a.xOf(from)
	return bar{X: x, Width: max(a.xOf(to)-x, 3), Class: class, Title: fmt.Sprintf("%s for %s", what, duration.HumanDuration(max(to.Sub(from), 0)))}
}

// newRolloutAxis spans a rollout, up to the end of the soaks that can be foreseen.
func newRolloutAxis(members []rollout.ClusterPreview, record *rollout.Rollout, soak time.Duration, now time.Time) axis {
	var a axis
	include := func(at time.Time) {
		if !at.IsZero() && (a.From.IsZero() || at.Before(a.From)) {
			a.From = at
		}
	}
	last := now
	if record != nil {
		include(parseTime(record.Started))
	}
	for i := range members {
		m := &members[i]
		include(m.Since)
		if m.Phase == plan.Soaking && m.Since.Add(soak).After(last) {
			last = m.Since.Add(soak)
		}
	}
	if a.From.IsZero() {
		return a
	}
	a.To = last.Add(last.Sub(a.From) / 20)
	a.Now = a.xOf(now)
	return a
}

// parseTime reads a time of a record; zero if there is none.
func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// memberBars are the phases of a rollout in a cluster: being applied, soaking, and what came of it.
func memberBars(m *rollout.ClusterPreview, record *rollout.Rollout, a *axis, soak time.Duration, now time.Time) (bars []bar) {
	started, soaked := time.Time{}, time.Time{}
	if record != nil {
		of := record.Clusters[m.Cluster.Name]
		started, soaked = parseTime(of.Started), parseTime(of.Soaked)
	}
	if m.Phase == plan.ToApply || m.Since.IsZero() {
		return nil
	}
	if started.IsZero() {
		started = m.Since
	}
	end := m.Since
	switch m.Phase {
	case plan.Soaking:
		soaked = m.Since
	case plan.Progressing:
		end, soaked = now, time.Time{}
	case plan.ToApply, plan.Succeeded, plan.Failed, plan.TimedOut, plan.RollingBack, plan.RolledBack, plan.RollbackFailed:
	}
	if soaked.IsZero() || soaked.Before(started) {
		soaked = end
	}
	bars = append(bars, a.newBar("bar-apply", "being applied", started, soaked))
	switch m.Phase {
	case plan.Soaking:
		bars = append(bars, a.newBar("bar-soak", "soaking", soaked, now), a.newBar("bar-rest", "still to soak", now, m.Since.Add(soak)))
	case plan.Succeeded:
		bars = append(bars, a.newBar("bar-soak", "soaking", soaked, end), a.newBar("bar-done", "updated", end, now))
	case plan.Failed, plan.TimedOut, plan.RollingBack, plan.RolledBack, plan.RollbackFailed:
		bars = append(bars, a.newBar("bar-bad", string(m.Phase), end, now))
	case plan.ToApply, plan.Progressing:
	}
	return bars
}
