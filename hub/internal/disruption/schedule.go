package disruption

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
)

// dueTimes is the time for which runs are due, nil for none, and when the next ones are.
func (w *World) dueTimes() (*time.Time, time.Time, error) {
	last := w.Disruption.Status.LastScheduleTime
	if w.Disruption.Spec.Schedule == "" {
		if last != nil {
			return nil, time.Time{}, nil
		}
		at := w.Disruption.CreationTimestamp.Time
		return &at, time.Time{}, nil
	}
	if strings.ContainsAny(w.Disruption.Spec.Schedule, "=@") {
		return nil, time.Time{}, fmt.Errorf("%q has no five fields", w.Disruption.Spec.Schedule)
	}
	schedule, err := scheduleFields.Parse(w.Disruption.Spec.Schedule)
	if err != nil {
		return nil, time.Time{}, err
	}
	after := w.Now.Add(-lateStart)
	for _, earliest := range []time.Time{w.Disruption.CreationTimestamp.Time, timeOf(last)} {
		if earliest.After(after) {
			after = earliest
		}
	}
	at := schedule.Next(after.UTC())
	if at.IsZero() {
		return nil, time.Time{}, fmt.Errorf("%q never comes", w.Disruption.Spec.Schedule)
	}
	if at.After(w.Now) {
		return nil, at, nil
	}
	if w.isGoingOn(at) {
		return nil, schedule.Next(w.Now.UTC()), nil
	}
	return &at, schedule.Next(w.Now.UTC()), nil
}

// scheduleFields are those of crontab.
var scheduleFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// isGoingOn reports whether runs of an earlier time than at are not over. One in a frozen cluster, or one that is gone, is not waited
// for: it would keep all others from what is due.
func (w *World) isGoingOn(at time.Time) bool {
	return slices.ContainsFunc(w.Runs, func(run v1alpha1.NodeDisruptionRun) bool {
		return !isPreview(&run) && run.Name != w.runName(at) && run.DecodeError == "" && w.WhyNotStart(run.Namespace) == "" &&
			run.Status.Phase != v1alpha1.NodeDisruptionCompleted && run.Status.Phase != v1alpha1.NodeDisruptionFailed
	})
}

// runName is that of the runs for a time. It follows from the time, so that no run is made twice.
func (w *World) runName(at time.Time) string {
	if w.Disruption.Spec.Schedule == "" {
		return w.Disruption.Name
	}
	return fmt.Sprintf("%s-%d", w.Disruption.Name, at.Unix()/60)
}

// runSeed is that of the runs for a time. Without one of its own, a disruption with a schedule hits other Nodes each time: what it
// hits at a time follows from the disruption's UID, and does not change when the hub is restarted.
func (w *World) runSeed(at time.Time) *int64 {
	if w.Disruption.Spec.Seed != nil || w.Disruption.Spec.Schedule == "" {
		return w.Disruption.Spec.Seed
	}
	return new(disrupt.SeedOf("schedule", string(w.Disruption.UID), at.Unix()/60))
}

// latestTime is the latest time that has runs. It is later than status.lastScheduleTime if not all clusters could be given theirs.
func (w *World) latestTime() time.Time {
	latest := timeOf(w.Disruption.Status.LastScheduleTime)
	for i := range w.Runs {
		minutes, err := strconv.ParseInt(strings.TrimPrefix(w.Runs[i].Name, w.Disruption.Name+"-"), 10, 64)
		if at := time.Unix(60*minutes, 0).UTC(); err == nil && w.Disruption.Spec.Schedule != "" && at.After(latest) {
			latest = at
		}
	}
	return latest
}

// giveUp takes the latest time for done that has runs, although clusters are left without: it is too late for these.
func (d *Decision) giveUp(w *World, chosen []*v1alpha1.Cluster, current []v1alpha1.NodeDisruptionRun) {
	latest := metav1.NewTime(w.latestTime())
	if !latest.After(timeOf(d.Status.LastScheduleTime)) {
		return
	}
	d.Status.LastScheduleTime = &latest
	named := d.Status.Failures
	d.Status.Failures = nil
	for _, cluster := range chosen {
		if runIn(current, cluster.Name) == nil {
			why := fanout.FailureOf(named, cluster.Name, fmt.Sprintf("left out: its run could not be made within %s", lateStart))
			d.Status.Failures = append(d.Status.Failures, v1alpha1.ClusterFailure{Cluster: cluster.Name, Message: why})
		}
	}
}
