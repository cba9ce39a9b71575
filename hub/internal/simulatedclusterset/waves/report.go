package waves

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// RolledOutFact is the type of the fact that every cluster has the version.
	RolledOutFact = "RolledOut"
	// mostFailures is how many clusters the status names, and longestFailure how many characters it has for each.
	mostFailures, longestFailure = 20, 512
	// mostRollouts is how many rollouts are kept, and mostApprovals how many approvals of each.
	mostRollouts, mostApprovals = 10, 16
	// mostAwaited is how many groups that wait for an approval the status names.
	mostAwaited = 32
)

// Report computes status.rollout and Progressing, and returns the fact that the rollout is complete.
func Report(s *Scope, d Decision) metav1.Condition {
	status := &s.Set.Status.Rollout
	number := NumberOf(s.Set)
	if started, _ := s.bindStart(); started == nil && status.Rollout != number {
		status.Started = nil
	}
	status.Rollout, status.Revision, status.RetriedAt = number, RevisionOf(s.Set), s.Set.Spec.Rollout.RetriedAt.DeepCopy()
	status.AwaitingApproval = d.Plan.AwaitingApproval[:min(len(d.Plan.AwaitingApproval), mostAwaited)]
	status.CurrentWave, status.Waves = 0, int32(d.Plan.Waves)
	if d.Plan.Waves > 0 {
		status.CurrentWave = int32(d.Plan.Wave) + 1
	}
	if d.Plan.Counts != nil {
		status.Clusters, status.Failures = s.countClusters(d), s.listFailures(d.Plan)
	}
	progress := s.progressingCondition(d)
	progress.ObservedGeneration = s.Set.Generation
	conditions.Set(&s.Set.Status.Conditions, progress, s.Now)
	s.noteHistory(d, progress)
	fact := metav1.Condition{Type: RolledOutFact, Status: metav1.ConditionFalse, Reason: progress.Reason, Message: progress.Message}
	if progress.Reason == v1alpha1.ReasonRolloutComplete {
		if fact.Status = metav1.ConditionTrue; status.Clusters.Failed > 0 {
			fact.Status, fact.Reason = metav1.ConditionFalse, v1alpha1.ReasonRolloutFailed
		}
	}
	return fact
}

// countClusters counts the clusters that are not being deleted by how far they are.
func (s *Scope) countClusters(d Decision) v1alpha1.MachineFleetClusters {
	counts := v1alpha1.MachineFleetClusters{}
	in, p := s.planInput(false), d.Plan
	for _, m := range s.Members {
		if m.One.DeletionTimestamp != nil {
			continue
		}
		counts.Selected++
		if m.blocked != nil {
			counts.Blocked++
		}
		if slices.Contains(p.Held, m.One.Name) {
			counts.Held++
		}
		switch phase := s.phaseAfter(in, d, m); {
		case slices.Contains(p.Failures, m.One.Name):
			counts.Failed++
		case phase == plan.Progressing:
			counts.Progressing++
		case phase == plan.Soaking:
			counts.Soaking++
		case phase == plan.Succeeded:
			counts.Updated++
		default:
			counts.Waiting++
		}
	}
	return counts
}

// phaseAfter is how far a member is with the version after a decision. Before what the rollout keeps to is kept, nothing is started.
func (s *Scope) phaseAfter(in plan.Input, d Decision, m *Member) plan.Phase {
	cluster := s.plannedCluster(m)
	for _, change := range d.Plan.Changes {
		if change.Cluster == m.One.Name && (d.Keep == nil || !change.Apply) {
			cluster.Record = change.Record
		}
	}
	if cluster.Record.Revision != in.Revision || in.Retries(cluster) {
		return plan.ToApply
	}
	return cluster.Record.Phase
}

// listFailures names the clusters that have failed, or in which nothing can be started.
func (s *Scope) listFailures(p plan.Plan) []v1alpha1.MachineFleetFailure {
	var all []v1alpha1.MachineFleetFailure
	for _, m := range s.Members {
		why := m.blocked
		if slices.Contains(p.Failures, m.One.Name) {
			why = s.failureOf(m)
		}
		if why != nil && len(all) < mostFailures {
			all = append(all, v1alpha1.MachineFleetFailure{Cluster: m.One.Name, Reason: why.Reason, Message: conditions.Shorten(why.Message, longestFailure)})
		}
	}
	return all
}

// failureOf says why a member has failed.
func (s *Scope) failureOf(m *Member) *rollout.Problem {
	phase := s.plannedRecord(m).Phase
	why := &rollout.Problem{Reason: v1alpha1.ReasonRolloutFailed, Message: "the host refuses the version"}
	switch {
	case m.held != "" && phase != plan.Failed && phase != plan.TimedOut:
		return &rollout.Problem{Reason: v1alpha1.ReasonClusterUnreachable, Message: m.held + "; spec.rollout.unreachablePolicy is Fail: repair the cluster, or choose Hold or Skip"}
	case phase == plan.TimedOut:
		why = &rollout.Problem{Reason: v1alpha1.ReasonRolloutTimedOut, Message: "no success within progressDeadline of spec.rollout.rolloutStrategy"}
	}
	if ready := meta.FindStatusCondition(m.One.Status.Conditions, v1alpha1.ReadyCondition); ready != nil && ready.Message != "" {
		why.Message += ": " + ready.Message
	}
	return why
}

// progressingCondition tells how the rollout goes.
func (s *Scope) progressingCondition(d Decision) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionTrue, Message: s.describeClusters(d)}
	counts := &s.Set.Status.Rollout.Clusters
	switch {
	case s.Frozen.Frozen:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, s.Frozen.Reason, s.Frozen.Message
	case d.Plan.Done && (d.stop == nil || d.stop.Reason == v1alpha1.ReasonPaused):
		condition.Reason = v1alpha1.ReasonRolloutComplete
	case d.stop != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, d.stop.Reason, d.stop.Message
		if d.stop.Reason == v1alpha1.ReasonPaused {
			condition.Status = metav1.ConditionUnknown
		}
	case s.Set.Spec.Rollout.AbortedRevision == RevisionOf(s.Set):
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonAborted
		condition.Message += "; spec.rollout.abortedRevision is this revision, and nothing more starts: unset it to continue, or change the version"
	case d.Plan.Stopped:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonTooManyFailures
		condition.Message += "; more have failed than spec.rollout.rolloutStrategy allows, and nothing more starts: repair these clusters, change the version, or raise maxFailures and set spec.rollout.retriedAt"
	default:
		condition.Status, condition.Reason = waitingFor(d.Plan, counts)
	}
	return condition
}

// waitingFor says what a rollout that nothing has stopped waits for. What only a user can end comes first.
func waitingFor(p plan.Plan, counts *v1alpha1.MachineFleetClusters) (metav1.ConditionStatus, string) {
	left, held, blocked := int(counts.Waiting+counts.Progressing+counts.Soaking), len(p.Held), int(counts.Blocked)
	if counts.Progressing+counts.Soaking == 0 {
		switch {
		case blocked > 0 && blocked+held >= left:
			return metav1.ConditionFalse, v1alpha1.ReasonClustersBlocked
		case len(p.Unproven) > 0:
			return metav1.ConditionFalse, v1alpha1.ReasonGroupUnproven
		case len(p.AwaitingApproval) > 0:
			return metav1.ConditionUnknown, v1alpha1.ReasonAwaitingApproval
		case len(p.Closed) > 0:
			return metav1.ConditionUnknown, v1alpha1.ReasonOutsideMaintenanceWindow
		case len(p.Changed) > 0 && len(p.Changed)+held+blocked >= left:
			return metav1.ConditionFalse, v1alpha1.ReasonGatesChanged
		}
	}
	if held > 0 && held >= left {
		return metav1.ConditionUnknown, v1alpha1.ReasonClustersHeld
	}
	return metav1.ConditionTrue, v1alpha1.ReasonRollingOut
}

// describeClusters counts the clusters, and names those that need a person.
func (s *Scope) describeClusters(d Decision) string {
	counts, p := &s.Set.Status.Rollout.Clusters, d.Plan
	text := fmt.Sprintf("wave %d of %d: %d of %d clusters have %s", p.Wave+1, p.Waves, counts.Updated, counts.Selected, RevisionOf(s.Set))
	if n := counts.Progressing + counts.Soaking; n > 0 {
		text += fmt.Sprintf(", %d in progress", n)
	}
	var blocked []string
	why := ""
	for _, m := range s.Members {
		if m.blocked != nil {
			blocked, why = append(blocked, m.One.Name), cmp.Or(why, m.blocked.Message)
		}
	}
	for _, list := range []struct {
		what  string
		names []string
	}{
		{"failed", p.Failures}, {"frozen, silent or not Ready", p.Held}, {"blocked", blocked}, {"created since the rollout started", p.Late},
		{"waiting because spec.rollout was changed since the rollout started, and until it is complete both apply; wait, revert the change, or " + wayOut, p.Changed},
		{"mandatory groups in which no cluster has proven the version", p.Unproven},
		{"outside of their maintenance windows" + s.opensText(p), p.Closed},
	} {
		if len(list.names) > 0 {
			text += fmt.Sprintf("; %s: %s", list.what, reconciler.ListFew(list.names))
		}
	}
	if why != "" {
		text += " (" + conditions.Shorten(why, longestFailure) + ")"
	}
	if len(p.AwaitingApproval) > 0 {
		text += fmt.Sprintf("; waiting for approval: %s: kubectl hollow rollout approve simulatedclusterset %s --group %s", reconciler.ListFew(p.AwaitingApproval), s.Set.Name, p.AwaitingApproval[0])
	}
	return text
}

// OpensAt is when the first window opens for which a plan waits; zero if it waits for none.
func (s *Scope) OpensAt(p plan.Plan) time.Time {
	var first time.Time
	for _, m := range s.Members {
		if slices.Contains(p.Closed, m.One.Name) && !m.opensAt.IsZero() && (first.IsZero() || m.opensAt.Before(first)) {
			first = m.opensAt
		}
	}
	return first
}

func (s *Scope) opensText(p plan.Plan) string {
	if at := s.OpensAt(p); !at.IsZero() {
		return ", the first of which opens at " + at.UTC().Format(time.RFC3339)
	}
	return ""
}

// noteHistory keeps the record of the rollout from its first cluster on.
func (s *Scope) noteHistory(d Decision, progress metav1.Condition) {
	status := &s.Set.Status.Rollout
	at := slices.IndexFunc(status.History, func(r v1alpha1.SimulatedClusterSetRolloutRecord) bool { return r.Rollout == status.Rollout })
	if at < 0 {
		if !slices.ContainsFunc(d.Writes, func(w Write) bool { return w.Starts }) {
			return
		}
		status.History = append(status.History, v1alpha1.SimulatedClusterSetRolloutRecord{
			Revision: status.Revision, Rollout: status.Rollout, StartedAt: metav1.NewTime(s.Now.Truncate(time.Second)),
		})
		status.History = status.History[max(len(status.History)-mostRollouts, 0):]
		at = len(status.History) - 1
	}
	r := &status.History[at]
	r.Result, r.Updated, r.Failed = progress.Reason, status.Clusters.Updated, status.Clusters.Failed
	switch {
	case progress.Reason != v1alpha1.ReasonRolloutComplete:
		r.CompletedAt = nil
	case r.CompletedAt == nil:
		r.CompletedAt = new(metav1.NewTime(s.Now.Truncate(time.Second)))
	}
	for _, a := range s.Approvals {
		text := a.Group + " by " + a.By
		if a.Rollout == r.Rollout && !slices.Contains(r.Approvals, text) && len(r.Approvals) < mostApprovals {
			r.Approvals = append(r.Approvals, text)
		}
	}
}
