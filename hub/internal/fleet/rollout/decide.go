package rollout

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Write is what is written to the MachineDeployment of one cluster.
type Write struct {
	Member *Member
	// Record is the new one; nil leaves the current one.
	Record *Record
	// Content is what the fleet's own fields are to be; nil leaves them as they are.
	Content *Applied
	// starts: the current revision is applied. rollsBack: what the cluster had before is. binds: a record of an older hub is completed.
	Begins, RollsBack, Binds bool
	// Removes: the MachineDeployment is deleted.
	Removes bool
}

// Decision is what to do about one fleet.
type Decision struct {
	Plan plan.Plan
	// Changes are the plan's, in its order: after one that fails, none of the later ones may be written. corrections rest on
	// nothing, each on its own; and so do removals.
	Changes, Corrections []Write
	Removals             []*Member
	// removalsWaiting are those that wait for settleTime, a maintenance window or room.
	removalsWaiting []*Member
	// stop says why nothing is started; nil if something may be. frozen: nothing at all is written.
	stop   *Problem
	frozen freeze.Verdict
}

// IsEmpty reports whether there is nothing to write.
func (d Decision) IsEmpty() bool { return len(d.Changes)+len(d.Corrections)+len(d.Removals) == 0 }

// Decide is pure.
func Decide(s *Scope) Decision {
	d := Decision{frozen: s.freezeVerdict(), stop: s.Invalid}
	if s.Fleet.DeletionTimestamp != nil {
		d.stop = &Problem{v1alpha1.ReasonDeleting, "the fleet is being deleted: no MachineDeployment is changed"}
	}
	if d.frozen.Frozen || d.stop != nil {
		return d
	}
	if d.stop = s.noCluster(); d.stop != nil {
		return d
	}
	if d.stop = s.findDowngrade(); d.stop == nil {
		d.stop = s.incompletePlacement()
	}
	if d.stop == nil {
		d.stop = s.unkeepable()
	}
	if d.stop == nil && s.Fleet.Spec.Paused {
		d.stop = &Problem{v1alpha1.ReasonPaused, "spec.paused is set: no MachineDeployment is changed until it is unset"}
	}
	var err error
	if d.Plan, err = plan.Decide(s.planInput(d.stop != nil || s.selection.isPartial())); err != nil {
		d.stop = &Problem{v1alpha1.ReasonInvalidFleet, "spec." + err.Error()}
		return d
	}
	d.Changes = s.plannedWrites(d.Plan)
	if !s.Fleet.Spec.Paused {
		d.Corrections = s.correctionWrites(d.Changes)
		d.Removals, d.removalsWaiting = s.dueRemovals(d.Plan.Room)
	}
	return d
}

func (s *Scope) planInput(paused bool) plan.Input {
	in := s.plannedInput()
	in.Strategy, in.UnreachablePolicy, in.Paused = s.Fleet.Spec.RolloutStrategy, s.Fleet.Spec.UnreachablePolicy, paused
	in.Fleet, in.Rollout, in.Approvals = string(s.Fleet.UID), s.Rollout, s.Approvals.plannedApprovals()
	for _, group := range s.Fleet.Spec.Groups {
		in.Groups = append(in.Groups, group.Name)
		if group.Approval == v1alpha1.GroupApprovalRequired {
			in.NeedApproval = append(in.NeedApproval, group.Name)
		}
	}
	in.Snapshot = s.snapshot
	if s.promise != nil {
		in.Promise = &s.promise.Promise.Promise
	}
	in.Deleting = s.countDeleting()
	for _, m := range s.Members {
		cluster := s.plannedCluster(m)
		cluster.PreviousLost = s.rollsBack() && cluster.Record.Previous != "" && m.previousApplied() == nil
		in.Clusters = append(in.Clusters, cluster)
	}
	return in
}

// recordedGroup is the group that the record of a member gets when the revision is started there: the one that it was promised. One
// that was in a group with an approval, and is in none because of a label or a name that has changed, stays one of that.
func (s *Scope) recordedGroup(m *Member) string {
	switch {
	case m.promised != nil:
		return *m.promised
	case m.group == "" && m.Record != nil && slices.ContainsFunc(s.Fleet.Spec.Groups, func(g v1alpha1.MachineFleetGroup) bool {
		return g.Name == m.Record.Group && g.Approval == v1alpha1.GroupApprovalRequired
	}):
		return m.Record.Group
	}
	return m.group
}

// plannedWrites are the writes that a plan asks for, in its order.
func (s *Scope) plannedWrites(p plan.Plan) []Write {
	members := map[string]*Member{}
	for _, m := range s.Members {
		members[m.Cluster.Name] = m
	}
	var all []Write
	for _, change := range p.Changes {
		m := members[change.Cluster]
		w := Write{
			Member: m, Record: NewRecord(s.Fleet, m.storedRecord(s, change.Record), s.recordedGroup(m)), Content: s.correctionOf(m), Begins: change.Apply, RollsBack: change.RollBack,
		}
		switch {
		case change.Apply:
			w.Content = NewApplied(s.Fleet, m.template.MachineDeploymentTemplate, change.Cluster, m.replicas)
			w.keepPrevious()
		case change.RollBack:
			w.Content = m.previousApplied()
			w.Content.Spec.Replicas = m.replicas
		default:
			w.Record.Group = m.Record.Group
		}
		w.Record.Cause = m.failureCause(change, w.Record.Revision)
		w.Record.keepTimes(m.Record, change.Apply)
		all = append(all, w)
	}
	return all
}

// correctionWrites are those of the members that no change is written to.
func (s *Scope) correctionWrites(changes []Write) []Write {
	changed := map[*Member]bool{}
	for _, change := range changes {
		changed[change.Member] = true
	}
	var all []Write
	for _, m := range s.Members {
		if changed[m] {
			continue
		}
		if content := s.correctionOf(m); content != nil {
			all = append(all, Write{Member: m, Content: content})
		} else if m.Record != nil && m.Record.isLegacy() && m.held == "" && !m.silent && m.Deployment.DeletionTimestamp == nil {
			all = append(all, Write{Member: m, Record: m.Record, Binds: true})
		}
	}
	return all
}

func (s *Scope) selectedCount() int {
	count := 0
	for _, m := range s.Members {
		if m.Selected {
			count++
		}
	}
	return count
}

// freezeVerdict says why nothing at all may be written: a user says so, or no cluster is selected any more, which is not an order.
func (s *Scope) freezeVerdict() freeze.Verdict {
	if frozen := freeze.OfAnnotation("MachineFleet", s.Fleet); frozen.Frozen {
		return frozen
	}
	if s.Invalid != nil || len(s.Left)+len(s.Members) == 0 {
		return freeze.Verdict{}
	}
	if unknown := s.selection.Unknown; unknown != nil {
		return freeze.Verdict{Frozen: true, Reason: unknown.Reason, Message: unknown.Message + "; until then nothing is changed or deleted"}
	}
	if s.selectedCount() > 0 {
		return freeze.Verdict{}
	}
	var names []string
	for _, m := range slices.Concat(s.Left, s.Members) {
		if !slices.Contains(names, m.Cluster.Name) {
			names = append(names, m.Cluster.Name)
		}
	}
	what, remedy := chosenBy(s.Fleet)
	return freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonSelectionEmptied, Message: fmt.Sprintf(
		"%s: %s any more, so nothing is changed or deleted in %s: %s, or delete the fleet",
		selectionField(s.Fleet), what, reconciler.ListFew(names), remedy)}
}

// noCluster says why there is no cluster in which anything could be started; nil if there is one.
func (s *Scope) noCluster() *Problem {
	if s.selectedCount() > 0 {
		return nil
	}
	if unknown := s.selection.Unknown; unknown != nil {
		return &Problem{unknown.Reason, unknown.Message}
	}
	if s.selection.Incomplete {
		if lasting := s.incompletePlacement(); lasting != nil {
			return lasting
		}
	}
	what, remedy := chosenBy(s.Fleet)
	return &Problem{v1alpha1.ReasonNoClusterSelected, fmt.Sprintf("%s: %s: %s, or accept Clusters", selectionField(s.Fleet), what, remedy)}
}

// findDowngrade finds clusters whose kubelets the fleet has brought to a newer version than its template has now.
func (s *Scope) findDowngrade() *Problem {
	if s.Fleet.Spec.AllowDowngrade {
		return nil
	}
	var names []string
	var older *template
	for _, m := range s.Members {
		if !m.Selected || m.Record == nil || s.IsCurrent(m) || older != nil && older.field != m.template.field {
			continue
		}
		last := readApplied(m.Deployment)
		if last == nil {
			continue
		}
		wanted, err := version.ParseSemantic(m.template.kubeletVersion())
		has, otherErr := version.ParseSemantic(last.Spec.Template.Spec.Versions.Kubelet)
		if err == nil && otherErr == nil && wanted.LessThan(has) {
			older, names = m.template, append(names, m.Cluster.Name)
		}
	}
	if older == nil {
		return nil
	}
	return &Problem{v1alpha1.ReasonKubeletDowngrade, fmt.Sprintf(
		"%s.spec.template.spec.versions.kubelet: %s is older than the version in %s: choose another version, or set spec.allowDowngrade",
		older.field, older.kubeletVersion(), reconciler.ListFew(names))}
}

// IsCurrent reports whether a member has the current revision, by the template that holds for it.
func (s *Scope) IsCurrent(m *Member) bool {
	return m.Record != nil && m.Record.Revision == m.wantedRecord(s)
}

// AtRest reports whether every cluster has the current revision and succeeded with it.
func (s *Scope) AtRest() bool {
	return !slices.ContainsFunc(s.Members, func(m *Member) bool { return !m.Selected || !s.IsCurrent(m) || m.Record.Phase != plan.Succeeded })
}

// correctionOf is what the fleet's own fields in a cluster are to be, of the revision that it has; nil if they are, or if
// nothing may be changed there.
func (s *Scope) correctionOf(m *Member) *Applied {
	if m.Record == nil || !m.Selected || m.held != "" || m.silent || s.Fleet.Spec.Paused || m.Deployment.DeletionTimestamp != nil {
		return nil
	}
	wanted := NewApplied(s.Fleet, m.template.MachineDeploymentTemplate, m.Cluster.Name, m.replicas)
	last := readApplied(m.Deployment)
	if m.Record.TemplateRevision() != m.wantedRecord(s) {
		if last == nil {
			return nil // What the fleet's fields were is not known any more. They come with its turn.
		}
		wanted = &Applied{Metadata: last.Metadata, Spec: *last.Spec.DeepCopy()}
		wanted.Spec.Replicas = m.replicas
	}
	if last != nil && sameReplicas(last.Spec.Replicas, m.replicas) && wanted.isIn(m.Deployment) {
		return nil
	}
	patch, err := wanted.MergePatch(m.Deployment, m.Record)
	if err == nil && patch == nil || m.isContested(s, wanted, last) {
		return nil
	}
	return wanted
}

func sameReplicas(a, b *int32) bool { return a == b || a != nil && b != nil && *a == *b }

// phaseOf is how far a member is with the current revision.
func (s *Scope) phaseOf(m *Member) plan.Phase {
	phase := plan.ToApply
	if s.IsCurrent(m) && !s.plannedInput().Retries(s.plannedCluster(m)) {
		phase = m.Record.Phase
	}
	if s.failsUnreachable(m) && phase != plan.Succeeded {
		return plan.Failed
	}
	return phase
}

// failsUnreachable reports whether a member counts as failed for as long as its cluster is frozen or not Ready: as the spec says now,
// or said when the rollout started.
func (s *Scope) failsUnreachable(m *Member) bool {
	return m.unreachable && m.Selected && (s.Fleet.Spec.UnreachablePolicy == v1alpha1.UnreachableFail || s.promisedFail())
}

func (s *Scope) promisedFail() bool {
	return s.promise != nil && s.promise.UnreachablePolicy == v1alpha1.UnreachableFail
}

// plannedCluster is what the planner needs to know of a member.
func (s *Scope) plannedCluster(m *Member) plan.Cluster {
	cluster := plan.Cluster{
		Name: m.Cluster.Name, Group: m.group, Record: m.Record.PlannedRecord(), Held: m.held != "", Unreachable: m.unreachable, Silent: m.silent, Blocked: len(m.blocked) > 0, Closed: m.closed,
		Left: !m.Selected,
	}
	cluster.HeardAt, cluster.PromisedGroup = m.HeardAt, m.promised
	if m.Record != nil {
		cluster.LastGroup = m.Record.Group
	}
	cluster.Record.Revision, cluster.Record.Previous = m.toPlan(s, cluster.Record.Revision), m.toPlan(s, cluster.Record.Previous)
	if d := m.Deployment; d != nil {
		cluster.Observed = plan.Observed{
			Generation: d.Generation, ObservedGeneration: d.Status.ObservedGeneration, Desired: 1,
			Replicas: d.Status.Replicas, Updated: d.Status.UpdatedReplicas, Available: d.Status.AvailableReplicas,
			Unhealthy: len(m.unhealthy) > 0,
		}
		if failing := m.failingCondition(); failing != nil {
			cluster.Observed.Failing, cluster.Observed.FailingSince = true, failing.LastTransitionTime.Time
		}
		if limit := d.Spec.ProgressDeadlineSeconds; limit != nil {
			cluster.Observed.Deadline = time.Duration(*limit) * time.Second
		}
		if d.Spec.Replicas != nil {
			cluster.Observed.Desired = *d.Spec.Replicas
		}
	}
	return cluster
}

// failingCondition is the condition by which the MachineDeployment says that it cannot continue, or has more unhealthy Machines than it may
// replace: the newest of them, because an old one may be about an earlier template. It is nil if it says no such thing.
func (m *Member) failingCondition() *metav1.Condition {
	if m.Deployment == nil {
		return nil
	}
	var latest *metav1.Condition
	for _, says := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{
		{v1alpha1.ProgressingCondition, metav1.ConditionFalse},
		{v1alpha1.RemediationAllowedCondition, metav1.ConditionFalse},
		{v1alpha1.StalledCondition, metav1.ConditionTrue},
	} {
		found := meta.FindStatusCondition(m.Deployment.Status.Conditions, says.kind)
		if found != nil && found.Status == says.status && (latest == nil || latest.LastTransitionTime.Before(&found.LastTransitionTime)) {
			latest = found
		}
	}
	return latest
}
