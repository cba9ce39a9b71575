package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // The hub's image need not have the time zones.

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// window is a maintenance window as it is at one moment.
type window struct {
	clusters labels.Selector
	open     bool
	// opens is when the window opens next.
	opens time.Time
}

// scheduleFields are those of crontab. Names such as @every are left out: that one counts from now, so it would never come.
var scheduleFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// newWindows reads the maintenance windows of a fleet.
func newWindows(fleet *v1alpha1.MachineFleet, now time.Time) ([]window, *problem) {
	var windows []window
	for i := range fleet.Spec.MaintenanceWindows {
		w, invalid := newWindow(&fleet.Spec.MaintenanceWindows[i], now)
		if invalid != nil {
			return nil, invalid
		}
		windows = append(windows, w)
	}
	return windows, nil
}

func newWindow(spec *v1alpha1.MaintenanceWindow, now time.Time) (window, *problem) {
	invalid := func(field, format string, args ...any) (window, *problem) {
		return window{}, &problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("spec.maintenanceWindows[%s].%s: ", spec.Name, field) + fmt.Sprintf(format, args...)}
	}
	selector := labels.Everything()
	var err error
	if spec.ClusterSelector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(spec.ClusterSelector); err != nil {
			return invalid("clusterSelector", "no label selector: %v: correct it", err)
		}
	}
	zone, err := time.LoadLocation(spec.TimeZone)
	if err != nil || spec.TimeZone == "Local" {
		return invalid("timeZone", "%q is no time zone: use a name such as UTC or Europe/Berlin", spec.TimeZone)
	}
	if strings.ContainsAny(spec.Schedule, "=@") {
		return invalid("schedule", "%q: use the five fields of crontab, such as 0 2 * * 6, and timeZone for the zone", spec.Schedule)
	}
	schedule, err := scheduleFields.Parse(spec.Schedule)
	if err != nil {
		return invalid("schedule", "%q: %v: use the five fields of crontab, such as 0 2 * * 6", spec.Schedule, err)
	}
	if spec.Duration.Duration <= 0 {
		return invalid("duration", "%s is not more than 0: use one such as 4h", spec.Duration.Duration)
	}
	in := now.In(zone)
	// It is open if it opened less than its duration ago.
	last, next := schedule.Next(in.Add(-spec.Duration.Duration)), schedule.Next(in)
	if next.IsZero() {
		return invalid("schedule", "%q never comes: correct it, or remove the window", spec.Schedule)
	}
	return window{clusters: selector, open: !last.After(now), opens: next}, nil
}

// opensAt is when the first window opens for which a plan waits; zero if it waits for none.
func (s *scope) opensAt(p plan.Plan) time.Time {
	var first time.Time
	for _, m := range s.members {
		if slices.Contains(p.Closed, m.cluster.Name) && (first.IsZero() || m.opensAt.Before(first)) {
			first = m.opensAt
		}
	}
	return first
}

// closed tells whether there are windows for a cluster and none of them is open, and when the next one opens.
func closed(windows []window, cluster *v1alpha1.Cluster) (opens time.Time, is bool) {
	for _, w := range windows {
		if !w.clusters.Matches(labels.Set(cluster.Labels)) {
			continue
		}
		if w.open {
			return time.Time{}, false
		}
		if opens.IsZero() || w.opens.Before(opens) {
			opens = w.opens
		}
	}
	return opens, !opens.IsZero()
}
