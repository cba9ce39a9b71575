package fleet

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/scrape"
)

// newDescription describes a metric of a fleet.
func newDescription(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hollowfleet_hub_fleet_"+name, help, append([]string{"fleet"}, labels...), nil)
}

var (
	clustersDesc = newDescription("clusters", "Clusters of a fleet by their phase with its current revision (phase).", "phase")
	selectedDesc = newDescription("selected_clusters", "Clusters that a fleet selects.")
	heldDesc     = newDescription("held_clusters", "Clusters of a fleet that are not updated and are frozen, paused or not Ready: the rollout waits for them or skips them.")
	blockedDesc  = newDescription("blocked_clusters", "Clusters of a fleet in which nothing can be started until a user changes something.")
	waveDesc     = newDescription("current_wave", "The current wave of a fleet's rollout, from 1.")
	wavesDesc    = newDescription("waves", "Waves of a fleet's rollout, those without clusters included.")
	completeDesc = newDescription("rollout_complete", "1 if every cluster of a fleet has its current revision, or has failed within what may fail, else 0.")
	readyDesc    = newDescription("ready", "1 while a fleet's condition Ready is True, else 0.")
	stalledDesc  = newDescription("stalled", "1 while a fleet's condition Stalled is True: a user must change something; else 0.")
	frozenDesc   = newDescription("frozen", "1 while a fleet's condition Frozen is True: no MachineDeployment is changed; else 0.")
	pausedDesc   = newDescription("paused", "1 while a fleet's spec.paused is set, else 0.")
	behindDesc   = newDescription("unobserved", "1 while the hub has not observed the current generation of a fleet, else 0.")
	limitDesc    = newDescription("progress_deadline_seconds", "spec.template.spec.progressDeadlineSeconds of a fleet: how long a rollout in a cluster may make no progress.")

	breachedDesc   = newDescription("breached", "1 while more clusters of a fleet have failed than its rolloutStrategy allows, so that nothing more is started; else 0.")
	unapprovedDesc = newDescription("groups_awaiting_approval", "Groups of a fleet whose approval the rollout is waiting for.")
	closedDesc     = newDescription("clusters_awaiting_window", "Clusters of a fleet that wait only for a maintenance window.")
	soakDesc       = newDescription("soak_remaining_seconds", "Time until the last started soak of a fleet is over; 0 after that until its agents have reported; absent while nothing soaks.")
	startedDesc    = newDescription("rollout_start_timestamp_seconds", "Unix time at which the current revision of a fleet was first started in a cluster.")
	progressedDesc = newDescription("last_progress_timestamp_seconds", "Unix time at which a cluster of a fleet, or a Machine there, last made progress with the current revision.")
	machinesDesc   = newDescription("machines", "Machines of a fleet's MachineDeployments, as these last reported, by state: total, updated, available.", "state")
)

var descriptions = []*prometheus.Desc{
	clustersDesc, selectedDesc, heldDesc, blockedDesc, waveDesc, wavesDesc, completeDesc, readyDesc, stalledDesc, frozenDesc, pausedDesc, behindDesc, limitDesc,
	breachedDesc, unapprovedDesc, closedDesc, soakDesc, startedDesc, progressedDesc, machinesDesc,
}

// Collector is a prometheus.Collector of the fleets in the caches of leading hubs. A fleet has a bounded number of series,
// however many clusters it has, and none once it is deleted.
type Collector struct {
	controllers scrape.Sources[*Controller]
}

var collector = &Collector{}

func init() { metrics.Registry.MustRegister(collector) }

// ServeMetrics shows the controller's fleets until the returned function is called, which is when it stops leading.
func (c *Controller) ServeMetrics() (end func()) { return collector.controllers.Add(c) }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(into chan<- *prometheus.Desc) {
	for _, one := range descriptions {
		into <- one
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(found chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrape.Patience)
	defer cancel()
	names := map[string]bool{}
	for _, controller := range c.controllers.All() {
		fleets := &v1alpha1.MachineFleetList{}
		if err := controller.Client.List(ctx, fleets, client.UnsafeDisableDeepCopy); err != nil {
			continue // A hub that has just started has no figures yet: none would be a lie.
		}
		present := map[types.UID]bool{}
		for i := range fleets.Items {
			fleet := &fleets.Items[i]
			present[fleet.UID] = true
			if !names[fleet.Name] {
				names[fleet.Name] = true
				controller.collectFleet(shown{fleet.Name, found}, fleet)
			}
		}
		controller.standings.KeepOnly(present)
	}
}

// shown are the metrics of one fleet.
type shown struct {
	fleet string
	into  chan<- prometheus.Metric
}

func (s shown) showMetric(description *prometheus.Desc, value float64, labels ...string) {
	s.into <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, append([]string{s.fleet}, labels...)...)
}

func (s shown) showWhether(description *prometheus.Desc, holds bool) {
	value := 0.0
	if holds {
		value = 1
	}
	s.showMetric(description, value)
}

func (s shown) showTime(description *prometheus.Desc, at time.Time) {
	if !at.IsZero() {
		s.showMetric(description, float64(at.UnixMilli())/1000)
	}
}

// collectFleet shows what the status of a fleet says, once the hub has looked at the fleet, and what the last reconciliation found.
func (c *Controller) collectFleet(s shown, fleet *v1alpha1.MachineFleet) {
	status := &fleet.Status
	s.showWhether(behindDesc, status.ObservedGeneration != fleet.Generation)
	s.showWhether(pausedDesc, fleet.Spec.Paused)
	s.showWhether(readyDesc, meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ReadyCondition))
	s.showWhether(stalledDesc, meta.IsStatusConditionTrue(status.Conditions, v1alpha1.StalledCondition))
	s.showWhether(frozenDesc, meta.IsStatusConditionTrue(status.Conditions, v1alpha1.FrozenCondition))
	if deadline := fleet.Spec.Template.Spec.ProgressDeadlineSeconds; deadline != nil {
		s.showMetric(limitDesc, float64(*deadline))
	}
	if status.ObservedGeneration == 0 {
		return
	}
	counts := status.Clusters
	for phase, count := range map[string]int32{
		"Waiting": counts.Waiting, "Progressing": counts.Progressing, "Soaking": counts.Soaking, "Updated": counts.Updated,
		"Failed": counts.Failed, "RollingBack": counts.RollingBack, "RolledBack": counts.RolledBack,
	} {
		s.showMetric(clustersDesc, float64(count), phase)
	}
	s.showMetric(selectedDesc, float64(counts.Selected))
	s.showMetric(heldDesc, float64(counts.Held))
	s.showMetric(blockedDesc, float64(counts.Blocked))
	s.showMetric(waveDesc, float64(status.CurrentWave))
	s.showMetric(wavesDesc, float64(status.Waves))
	progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ProgressingCondition)
	s.showWhether(completeDesc, progressing != nil && progressing.Reason == v1alpha1.ReasonRolloutComplete)
	if standing, known := c.standings.ValueOf(fleet.UID); known {
		s.showStanding(standing, c.Clock.Now())
	}
}

func (s shown) showStanding(at standing, now time.Time) {
	if at.planned {
		s.showWhether(breachedDesc, at.breached)
		s.showMetric(unapprovedDesc, float64(at.groupsUnapproved))
		s.showMetric(closedDesc, float64(at.closed))
		if !at.soakEnds.IsZero() {
			s.showMetric(soakDesc, max(at.soakEnds.Sub(now), 0).Seconds())
		}
	}
	s.showTime(startedDesc, at.started)
	s.showTime(progressedDesc, at.progressed)
	for state, count := range map[string]int{"total": at.total, "updated": at.updated, "available": at.available} {
		s.showMetric(machinesDesc, float64(count), state)
	}
}

// standing is what metrics say of a fleet beyond its status. It has points in time instead of ages, so that a hub that stands
// still does not look well.
type standing struct {
	// planned: the rest of the first group is known. It is not while the fleet is frozen or invalid.
	planned  bool
	breached bool
	// groupsUnapproved is how many groups the rollout waits for, and closed how many clusters wait for a maintenance window.
	groupsUnapproved, closed int
	soakEnds                 time.Time

	// started is when the revision was first started in a cluster, and progressed when a cluster, or a Machine there, last got
	// further; zero if no cluster has it.
	started, progressed time.Time
	// Machines of the fleet's MachineDeployments, as they last reported.
	total, updated, available int
}

// noteStanding keeps the standing of a fleet after a decision. Of an invalid fleet nothing was read, so that its Machines stay what they
// were.
func (c *Controller) noteStanding(observed *rollout.Scope, d rollout.Decision) {
	current := standingFor(observed, d)
	if observed.Invalid != nil {
		current, _ = c.standings.ValueOf(observed.Fleet.UID)
		current.planned = false
	}
	c.standings.SetValue(observed.Fleet.UID, current)
}

// standingFor is the standing of the fleet after a decision.
func standingFor(s *rollout.Scope, d rollout.Decision) standing {
	all := standing{
		planned: d.Plan.Waves > 0, breached: d.Plan.Breached, groupsUnapproved: len(d.Plan.AwaitingApproval), closed: len(d.Plan.Closed),
		soakEnds: d.Plan.SoakEnds,
	}
	for _, m := range s.Members {
		if m.Deployment == nil || !m.Selected {
			continue
		}
		status := &m.Deployment.Status
		all.total += int(status.Replicas)
		all.updated += int(status.UpdatedReplicas)
		all.available += int(status.AvailableReplicas)
		if !s.IsCurrent(m) {
			continue
		}
		record := m.Record.PlannedRecord()
		if !record.Begun.IsZero() && (all.started.IsZero() || record.Begun.Before(all.started)) {
			all.started = record.Begun
		}
		all.noteProgress(record.Since)
		// While a MachineDeployment rolls out, this is the time of its last progress.
		if progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ProgressingCondition); progressing != nil && progressing.Reason == v1alpha1.ReasonRollingOut {
			all.noteProgress(progressing.LastTransitionTime.Time)
		}
	}
	return all
}

// noteProgress takes progress at a time into account.
func (s *standing) noteProgress(at time.Time) {
	if at.After(s.progressed) {
		s.progressed = at
	}
}
