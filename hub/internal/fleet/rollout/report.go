package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// mostFailures is how many clusters the status names.
	mostFailures = 20
	// mostAwaited is how many groups that wait for an approval the status names.
	mostAwaited = 128
	// longestFailure is how many characters a failure's message has at most.
	longestFailure = 512
	// rolledOut is the type of the fact that every cluster has the current revision.
	rolledOut = "RolledOut"
)

// Report computes the fleet's status.
func Report(s *Scope, d Decision, now time.Time) {
	status := &s.Fleet.Status
	status.ObservedGeneration, status.Revision = s.Fleet.Generation, s.Revision
	status.Rollout, status.RetriedAt = s.Rollout, s.Fleet.Spec.RetriedAt.DeepCopy()
	status.AwaitingApproval = d.Plan.AwaitingApproval[:min(len(d.Plan.AwaitingApproval), mostAwaited)]
	sum := s.summarizeMembers(d.Plan)
	if s.Invalid == nil {
		status.Clusters, status.Failures = sum.counts, sum.failures
	}
	status.CurrentWave, status.Waves = 0, int32(d.Plan.Waves)
	if d.Plan.Waves > 0 {
		status.CurrentWave = int32(d.Plan.Wave) + 1
	}
	progress, fact := s.progressingCondition(d, sum)
	for _, condition := range []metav1.Condition{progress, sum.availableCondition(), frozenCondition(d, sum)} {
		condition.ObservedGeneration = s.Fleet.Generation
		conditions.Set(&status.Conditions, condition, now)
	}
	facts := []metav1.Condition{fact, s.groupFact(), s.contestFact()}
	table := []conditions.Part{
		{Type: conditions.DeletingFact, Wanted: metav1.ConditionFalse, Optional: true},
		{Type: v1alpha1.FrozenCondition, Wanted: metav1.ConditionFalse},
		{Type: rolledOut, Wanted: metav1.ConditionTrue},
		{Type: v1alpha1.AvailableCondition, Wanted: metav1.ConditionTrue},
		{Type: groupsHaveClusters, Wanted: metav1.ConditionTrue},
		{Type: uncontested, Wanted: metav1.ConditionTrue},
	}
	if s.Fleet.DeletionTimestamp != nil {
		facts, table = append(facts, conditions.Deleting("the fleet is being deleted")), table[:1]
	}
	conditions.Conclude(&status.Conditions, facts, table, s.Fleet.Generation, now)
	status.Message = progress.Message
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ReadyCondition); ready.Status != metav1.ConditionTrue {
		status.Message = ready.Message
	}
}

// failureOf says why a member has failed, or had before it was rolled back; nil if it has not.
func (s *Scope) failureOf(m *Member) *Problem {
	phase := s.phaseOf(m)
	switch phase {
	case plan.Failed, plan.TimedOut, plan.RollbackFailed:
		if s.failsUnreachable(m) {
			return &Problem{v1alpha1.ReasonClusterUnreachable, m.held + s.explainUnreachable()}
		}
		return m.ReasonOf(phase)
	case plan.RollingBack, plan.RolledBack:
		if m.Record.Cause == "" {
			return nil
		}
		p := &Problem{v1alpha1.ReasonRolledBack, "has"}
		if phase == plan.RollingBack {
			p = &Problem{v1alpha1.ReasonRollingBack, "is being given"}
		}
		p.Message = fmt.Sprintf("%s revision %s back, because it failed with %s: %s", p.Message, m.Record.Previous, m.Record.Revision, m.Record.Cause)
		return p
	case plan.ToApply, plan.Progressing, plan.Soaking, plan.Succeeded:
	}
	return nil
}

// explainUnreachable says why a cluster that is unreachable counts as failed, and what a user can do.
func (s *Scope) explainUnreachable() string {
	switch {
	case !s.promisedFail():
		return "; spec.unreachablePolicy is Fail: repair the cluster, or choose Hold or Skip"
	case s.Fleet.Spec.UnreachablePolicy == v1alpha1.UnreachableFail:
		return "; spec.unreachablePolicy is Fail: repair the cluster, or choose Hold or Skip and " + wayOut
	}
	return "; spec.unreachablePolicy was Fail when the rollout started: repair the cluster, or " + wayOut
}

// ReasonOf says why a member came to a phase that is a failure.
func (m *Member) ReasonOf(phase plan.Phase) *Problem {
	p := Problem{v1alpha1.ReasonRolloutFailed, "the MachineDeployment cannot continue"}
	switch phase {
	case plan.TimedOut:
		p = Problem{v1alpha1.ReasonRolloutTimedOut, "no success within progressDeadline of spec.rolloutStrategy"}
	case plan.RollbackFailed:
		p = Problem{v1alpha1.ReasonRollbackFailed, fmt.Sprintf(
			"the MachineDeployment cannot continue with revision %s, which it had before, or it timed out: repair it, change the template, or set spec.retriedAt", m.Record.Previous)}
	case plan.ToApply, plan.Progressing, plan.Soaking, plan.Succeeded, plan.Failed, plan.RollingBack, plan.RolledBack:
	}
	if failing := m.failingCondition(); failing != nil {
		p.Message += ": " + failing.Message
	}
	for _, why := range m.unhealthyIn(phase) {
		p.Message += "; " + why
	}
	return &p
}

func (m *Member) isAvailable() bool {
	return m.Deployment != nil && meta.IsStatusConditionTrue(m.Deployment.Status.Conditions, v1alpha1.AvailableCondition)
}

// availableCondition reports whether the MachineDeployments are. What a held cluster reported last is not known to be so still.
func (sum *summary) availableCondition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMinimumReplicasAvailable}
	switch {
	case len(sum.down) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable
		condition.Message = "without an available MachineDeployment: " + reconciler.ListFew(sum.down)
	case sum.blind > 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonClustersHeld
		condition.Message = fmt.Sprintf("%d of %d clusters are frozen or not Ready", sum.blind, sum.counts.Selected)
	case sum.counts.Selected == 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNoClusterSelected
	case len(sum.unreached) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonAwaitingRollout
		condition.Message = "the rollout has not reached these clusters; they have no MachineDeployment yet: " + reconciler.ListFew(sum.unreached)
	}
	return condition
}

// frozenCondition is the fleet's own freeze, beside the number of clusters that are held.
func frozenCondition(d Decision, sum summary) metav1.Condition {
	condition := d.frozen.Condition(0)
	if !d.frozen.Frozen && sum.blind > 0 {
		condition.Message = fmt.Sprintf("%d of %d clusters are frozen or not Ready", sum.blind, sum.counts.Selected)
	}
	return condition
}

// progressingCondition tells how the rollout goes, and whether it is over.
func (s *Scope) progressingCondition(d Decision, sum summary) (condition, fact metav1.Condition) {
	condition = metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionTrue}
	text := s.describeClusters(d, sum)
	condition.Message = text
	switch {
	case d.frozen.Frozen:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, d.frozen.Reason, d.frozen.Message
	case d.stop != nil && d.stop.Reason == v1alpha1.ReasonPaused && d.Plan.Done,
		d.stop == nil && d.Plan.Done:
		condition.Reason = v1alpha1.ReasonRolloutComplete
	case d.stop != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, d.stop.Reason, d.stop.Message
		switch d.stop.Reason {
		case v1alpha1.ReasonPaused, v1alpha1.ReasonNoClusterSelected, v1alpha1.ReasonDeleting:
			condition.Status = metav1.ConditionUnknown
		}
	case d.Plan.Stopped:
		condition.Status, condition.Reason, condition.Message = s.stoppedCondition(d.Plan, sum, text)
	default:
		condition.Status, condition.Reason = sum.waitingCondition(d.Plan)
	}
	fact = metav1.Condition{Type: rolledOut, Status: metav1.ConditionFalse, Reason: condition.Reason, Message: condition.Message}
	if condition.Reason == v1alpha1.ReasonRolloutComplete {
		if fact.Status = metav1.ConditionTrue; sum.counts.Failed > 0 {
			fact.Status, fact.Reason = metav1.ConditionFalse, v1alpha1.ReasonRolloutFailed
		}
	}
	return condition, fact
}

// stoppedCondition says why nothing more is started, what happens to the clusters, and what a user can do.
func (s *Scope) stoppedCondition(p plan.Plan, sum summary, text string) (status metav1.ConditionStatus, reason, message string) {
	why, remedy := "clusters were rolled back", ""
	switch {
	case s.plannedInput().Aborted:
		why, remedy = "spec.abortedRevision is this revision", "unset it to continue, or change the template"
	case p.Breached && len(sum.failures)+len(sum.leftFailed) > 0:
		why = "more have failed than spec.rolloutStrategy allows"
		remedy = "repair these clusters, change the template, or raise maxFailures and set spec.retriedAt"
	}
	status, message = metav1.ConditionFalse, text+"; "+why+", and nothing more starts: "
	switch {
	case sum.counts.RollingBack > 0 || len(p.ToRollBack) > 0:
		status, reason = metav1.ConditionTrue, v1alpha1.ReasonRollingBack
		message += "clusters get their previous template back, as spec.rollbackPolicy says"
	case slices.ContainsFunc(s.Members, func(m *Member) bool {
		return s.IsCurrent(m) && m.Record.TemplateRevision() != m.wantedRecord(s)
	}):
		reason = v1alpha1.ReasonRolledBack
		message += "change the template, or start it again with spec.retriedAt"
		if s.plannedInput().Aborted {
			message += " and without spec.abortedRevision"
		}
	case s.plannedInput().Aborted:
		reason, message = v1alpha1.ReasonAborted, message+remedy
	default:
		reason, message = v1alpha1.ReasonTooManyFailures, message+remedy
	}
	return status, reason, message
}

// countUnfinished is how many clusters are not through yet.
func (sum *summary) countUnfinished() int {
	return int(sum.counts.Waiting + sum.counts.Progressing + sum.counts.Soaking)
}

// waitingCondition says what a rollout that nothing has stopped waits for: an approval or a user only if nothing is in progress, and
// clusters that are held only if all the others are through.
func (sum *summary) waitingCondition(p plan.Plan) (metav1.ConditionStatus, string) {
	if sum.counts.Progressing+sum.counts.Soaking == 0 {
		if status, reason := sum.idleCondition(p); reason != "" {
			return status, reason
		}
	}
	if len(sum.held) > 0 && len(sum.held) >= sum.countUnfinished() {
		return metav1.ConditionUnknown, v1alpha1.ReasonClustersHeld
	}
	return metav1.ConditionTrue, v1alpha1.ReasonRollingOut
}

// idleCondition says what a rollout waits for in which no cluster is in progress; an empty reason for nothing in particular.
func (sum *summary) idleCondition(p plan.Plan) (metav1.ConditionStatus, string) {
	held, awaiting, blocked := len(sum.held), len(sum.awaiting), len(sum.blocked)
	switch {
	case len(p.Unproven) > 0:
		return metav1.ConditionFalse, v1alpha1.ReasonGroupUnproven
	case len(p.AwaitingApproval) > 0:
		return metav1.ConditionUnknown, v1alpha1.ReasonAwaitingApproval
	case len(p.Closed) > 0:
		return metav1.ConditionUnknown, v1alpha1.ReasonOutsideMaintenanceWindow
	case awaiting > 0 && awaiting+held >= sum.countUnfinished():
		return metav1.ConditionUnknown, v1alpha1.ReasonAwaitingControlPlane
	case blocked > 0 && blocked+awaiting+held >= sum.countUnfinished():
		return metav1.ConditionFalse, v1alpha1.ReasonClustersBlocked
	case len(p.Changed) > 0 && len(p.Changed)+held+blocked+awaiting >= sum.countUnfinished():
		return metav1.ConditionFalse, v1alpha1.ReasonGatesChanged
	}
	return "", ""
}

// describeClusters counts the clusters, and names those that need a person.
func (s *Scope) describeClusters(d Decision, sum summary) string {
	counts := sum.counts
	text := fmt.Sprintf("wave %d of %d: %d of %d clusters have revision %s", d.Plan.Wave+1, d.Plan.Waves, counts.Updated, counts.Selected, s.Revision)
	if n := counts.Progressing + counts.Soaking; n > 0 {
		text += fmt.Sprintf(", %d in progress", n)
	}
	for _, list := range []struct {
		what  string
		names []string
		why   string // of the first
	}{{"failed", sum.failed, ""}, {"frozen, paused or not Ready", sum.held, ""}, {"blocked", sum.blocked, sum.whyBlocked}, {"waiting for their control planes", sum.awaiting, sum.whyAwaiting},
		{"spec.healthConditions do not hold", sum.unhealthy, sum.whyUnhealthy}, {"rolling back", sum.rollingBack, ""}, {"rolled back", sum.rolledBack, ""},
		{"to be rolled back", d.Plan.ToRollBack, ""}, {"without an earlier template to roll back to", d.Plan.NotRolledBack, ""},
		{"joined since the rollout started", d.Plan.Late, ""}, {"left the fleet during the rollout", sum.leaving, ""},
		{"failed before they left the fleet", sum.leftFailed, ""}} {
		if len(list.names) > 0 {
			text += fmt.Sprintf("; %s: %s", list.what, reconciler.ListFew(list.names))
		}
		if list.why != "" {
			text += fmt.Sprintf(" (%s)", conditions.Shorten(list.why, longestFailure))
		}
	}
	text += s.awaitedGates(d.Plan)
	if names := namesOf(d.removalsWaiting); len(names) > 0 {
		text += fmt.Sprintf("; left the fleet; their MachineDeployments are being deleted within maxConcurrency and maintenance windows: %s", reconciler.ListFew(names))
	}
	text += s.standingOfWindows(d.Plan, reconciler.ListFew)
	if names := s.windowlessClusters(); len(names) > 0 && counts.Waiting > 0 {
		text += "; not selected by any of spec.maintenanceWindows, so upgraded at any time: " + reconciler.ListFew(names)
	}
	if len(s.unused) > 0 {
		text += "; without a cluster, correct or remove: " + reconciler.ListFew(s.unused)
	}
	return text
}

// awaitedGates says for which gates of the rollout clusters wait, and what a user can do.
func (s *Scope) awaitedGates(p plan.Plan) string {
	text := ""
	if groups := p.AwaitingApproval; len(groups) > 0 {
		text += fmt.Sprintf("; waiting for approval: %s: %s", reconciler.ListFew(groups), approveCommand(s.Fleet.Name, groups))
		if gone := slices.DeleteFunc(slices.Clone(groups), s.hasGroup); len(gone) > 0 {
			text += fmt.Sprintf(
				". %s needed approval when the rollout started, and is no longer in spec.groups: approve the group that its clusters have now, restore the group, or set spec.retriedAt to start by the current spec",
				reconciler.ListFew(gone))
		}
	}
	if len(p.Unproven) > 0 {
		text += fmt.Sprintf(
			"; mandatory groups in which no cluster with Machines has proven the revision: %s: add a cluster to the group, scale one up, or remove the group from mandatoryDecisionGroups (and set spec.retriedAt if the rollout has started)",
			reconciler.ListFew(p.Unproven))
	}
	if len(p.Changed) > 0 {
		text += fmt.Sprintf(
			"; waiting because groups, waves or unreachablePolicy were changed since the rollout started, and until it is complete both the earlier and the current spec apply: %s: wait, revert the change, or %s",
			reconciler.ListFew(p.Changed), wayOut)
	}
	return text
}

// approveCommand is what a user runs who may approve groups of a fleet.
func approveCommand(fleet string, groups []string) string {
	command := "kubectl hollow rollout approve machinefleet " + fleet
	if len(groups) > 3 {
		return command + " --all"
	}
	for _, group := range groups {
		command += " --group " + group
	}
	return command
}

func (s *Scope) hasGroup(name string) bool {
	for i := range s.Fleet.Spec.Groups {
		if s.Fleet.Spec.Groups[i].Name == name {
			return true
		}
	}
	return false
}

// unhealthyConditions says which of the conditions that a fleet rests on do not hold on a cluster. One that is missing does not
// hold: no news is no health.
func unhealthyConditions(conditions []v1alpha1.MachineFleetHealthCondition, cluster *v1alpha1.Cluster) []string {
	var all []string
	for _, wanted := range conditions {
		status := cmp.Or(wanted.Status, metav1.ConditionTrue)
		found := meta.FindStatusCondition(cluster.Status.Conditions, wanted.Type)
		switch {
		case found == nil:
			all = append(all, fmt.Sprintf("condition %s is missing on Cluster %s: add it to spec.healthChecks there, or let a controller write it", wanted.Type, cluster.Name))
		case found.Status != status:
			all = append(all, fmt.Sprintf("condition %s of Cluster %s is %s (%s) and must be %s: %s", wanted.Type, cluster.Name, found.Status, found.Reason, status,
				cmp.Or(found.Message, "no message")))
		}
	}
	return all
}

// unhealthyIn are those that a member in such a phase waits for: what has not started needs no health yet, and what is updated is
// no longer a matter of the rollout.
func (m *Member) unhealthyIn(phase plan.Phase) []string {
	if phase == plan.ToApply || phase == plan.Succeeded || m.held != "" {
		return nil
	}
	return m.unhealthy
}
