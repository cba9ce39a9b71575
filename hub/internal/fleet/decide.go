package fleet

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// write is what is written to the MachineDeployment of one cluster.
type write struct {
	member *member
	// record is the new one; nil leaves the current one.
	record *record
	// content is what the fleet's own fields are to be; nil leaves them as they are.
	content *applied
	// starts: the current revision is applied. rollsBack: what the cluster had before is. binds: a record of an older hub is completed.
	begins, rollsBack, binds bool
	// removes: the MachineDeployment is deleted.
	removes bool
}

// decision is what to do about one fleet.
type decision struct {
	plan plan.Plan
	// changes are the plan's, in its order: after one that fails, none of the later ones may be written. corrections rest on
	// nothing, each on its own; and so do removals.
	changes, corrections []write
	removals             []*member
	// removalsWaiting are those that wait for settleTime, a maintenance window or room.
	removalsWaiting []*member
	// stop says why nothing is started; nil if something may be. frozen: nothing at all is written.
	stop   *problem
	frozen freeze.Verdict
}

func (d decision) isEmpty() bool { return len(d.changes)+len(d.corrections)+len(d.removals) == 0 }

// decide is pure.
func decide(s *scope) decision {
	d := decision{frozen: s.freezeVerdict(), stop: s.invalid}
	if s.fleet.DeletionTimestamp != nil {
		d.stop = &problem{v1alpha1.ReasonDeleting, "the fleet is being deleted: no MachineDeployment is changed"}
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
	if d.stop == nil && s.fleet.Spec.Paused {
		d.stop = &problem{v1alpha1.ReasonPaused, "spec.paused is set: no MachineDeployment is changed until it is unset"}
	}
	var err error
	if d.plan, err = plan.Decide(s.planInput(d.stop != nil || s.selection.partial)); err != nil {
		d.stop = &problem{v1alpha1.ReasonInvalidFleet, "spec." + err.Error()}
		return d
	}
	d.changes = s.plannedWrites(d.plan)
	if !s.fleet.Spec.Paused {
		d.corrections = s.correctionWrites(d.changes)
		d.removals, d.removalsWaiting = s.dueRemovals(d.plan.Room)
	}
	return d
}

func (s *scope) planInput(paused bool) plan.Input {
	in := s.plannedInput()
	in.Strategy, in.UnreachablePolicy, in.Paused = s.fleet.Spec.RolloutStrategy, s.fleet.Spec.UnreachablePolicy, paused
	in.Fleet, in.Rollout, in.Approvals = string(s.fleet.UID), s.rollout, s.approvals.plannedApprovals()
	for _, group := range s.fleet.Spec.Groups {
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
	for _, m := range s.members {
		cluster := s.plannedCluster(m)
		cluster.PreviousLost = s.rollsBack() && cluster.Record.Previous != "" && m.previousApplied() == nil
		in.Clusters = append(in.Clusters, cluster)
	}
	return in
}

// recordedGroup is the group that the record of a member gets when the revision is started there: the one that it was promised. One
// that was in a group with an approval, and is in none because of a label or a name that has changed, stays one of that.
func (s *scope) recordedGroup(m *member) string {
	switch {
	case m.promised != nil:
		return *m.promised
	case m.group == "" && m.record != nil && slices.ContainsFunc(s.fleet.Spec.Groups, func(g v1alpha1.MachineFleetGroup) bool {
		return g.Name == m.record.Group && g.Approval == v1alpha1.GroupApprovalRequired
	}):
		return m.record.Group
	}
	return m.group
}

// plannedWrites are the writes that a plan asks for, in its order.
func (s *scope) plannedWrites(p plan.Plan) []write {
	members := map[string]*member{}
	for _, m := range s.members {
		members[m.cluster.Name] = m
	}
	var all []write
	for _, change := range p.Changes {
		m := members[change.Cluster]
		w := write{
			member: m, record: newRecord(s.fleet, m.storedRecord(s, change.Record), s.recordedGroup(m)), content: s.correctionOf(m), begins: change.Apply, rollsBack: change.RollBack,
		}
		switch {
		case change.Apply:
			w.content = newApplied(s.fleet, m.template.MachineDeploymentTemplate, change.Cluster, m.replicas)
			w.keepPrevious()
		case change.RollBack:
			w.content = m.previousApplied()
			w.content.Spec.Replicas = m.replicas
		default:
			w.record.Group = m.record.Group
		}
		w.record.Cause = m.failureCause(change, w.record.Revision)
		w.record.keepTimes(m.record, change.Apply)
		all = append(all, w)
	}
	return all
}

// correctionWrites are those of the members that no change is written to.
func (s *scope) correctionWrites(changes []write) []write {
	changed := map[*member]bool{}
	for _, change := range changes {
		changed[change.member] = true
	}
	var all []write
	for _, m := range s.members {
		if changed[m] {
			continue
		}
		if content := s.correctionOf(m); content != nil {
			all = append(all, write{member: m, content: content})
		} else if m.record != nil && m.record.isLegacy() && m.held == "" && !m.silent && m.deployment.DeletionTimestamp == nil {
			all = append(all, write{member: m, record: m.record, binds: true})
		}
	}
	return all
}

func (s *scope) selectedCount() int {
	count := 0
	for _, m := range s.members {
		if m.selected {
			count++
		}
	}
	return count
}

// freezeVerdict says why nothing at all may be written: a user says so, or no cluster is selected any more, which is not an order.
func (s *scope) freezeVerdict() freeze.Verdict {
	if frozen := freeze.OfAnnotation("MachineFleet", s.fleet); frozen.Frozen {
		return frozen
	}
	if s.invalid != nil || len(s.left)+len(s.members) == 0 {
		return freeze.Verdict{}
	}
	if unknown := s.selection.unknown; unknown != nil {
		return freeze.Verdict{Frozen: true, Reason: unknown.reason, Message: unknown.message + "; until then nothing is changed or deleted"}
	}
	if s.selectedCount() > 0 {
		return freeze.Verdict{}
	}
	var names []string
	for _, m := range slices.Concat(s.left, s.members) {
		if !slices.Contains(names, m.cluster.Name) {
			names = append(names, m.cluster.Name)
		}
	}
	what, remedy := chosenBy(s.fleet)
	return freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonSelectionEmptied, Message: fmt.Sprintf(
		"%s: %s any more, so nothing is changed or deleted in %s: %s, or delete the fleet",
		selectionField(s.fleet), what, reconciler.ListFew(names), remedy)}
}

// noCluster says why there is no cluster in which anything could be started; nil if there is one.
func (s *scope) noCluster() *problem {
	if s.selectedCount() > 0 {
		return nil
	}
	if s.selection.unknown != nil {
		return s.selection.unknown
	}
	if s.selection.partial {
		if lasting := s.incompletePlacement(); lasting != nil {
			return lasting
		}
	}
	what, remedy := chosenBy(s.fleet)
	return &problem{v1alpha1.ReasonNoClusterSelected, fmt.Sprintf("%s: %s: %s, or accept Clusters", selectionField(s.fleet), what, remedy)}
}

// findDowngrade finds clusters whose kubelets the fleet has brought to a newer version than its template has now.
func (s *scope) findDowngrade() *problem {
	if s.fleet.Spec.AllowDowngrade {
		return nil
	}
	var names []string
	var older *template
	for _, m := range s.members {
		if !m.selected || m.record == nil || s.isCurrent(m) || older != nil && older.field != m.template.field {
			continue
		}
		last := readApplied(m.deployment)
		if last == nil {
			continue
		}
		wanted, err := version.ParseSemantic(m.template.kubeletVersion())
		has, otherErr := version.ParseSemantic(last.Spec.Template.Spec.Versions.Kubelet)
		if err == nil && otherErr == nil && wanted.LessThan(has) {
			older, names = m.template, append(names, m.cluster.Name)
		}
	}
	if older == nil {
		return nil
	}
	return &problem{v1alpha1.ReasonKubeletDowngrade, fmt.Sprintf(
		"%s.spec.template.spec.versions.kubelet: %s is older than the version in %s: choose another version, or set spec.allowDowngrade",
		older.field, older.kubeletVersion(), reconciler.ListFew(names))}
}

// isCurrent reports whether a member has the current revision, by the template that holds for it.
func (s *scope) isCurrent(m *member) bool {
	return m.record != nil && m.record.Revision == m.wantedRecord(s)
}

// correctionOf is what the fleet's own fields in a cluster are to be, of the revision that it has; nil if they are, or if
// nothing may be changed there.
func (s *scope) correctionOf(m *member) *applied {
	if m.record == nil || !m.selected || m.held != "" || m.silent || s.fleet.Spec.Paused || m.deployment.DeletionTimestamp != nil {
		return nil
	}
	wanted := newApplied(s.fleet, m.template.MachineDeploymentTemplate, m.cluster.Name, m.replicas)
	last := readApplied(m.deployment)
	if m.record.templateRevision() != m.wantedRecord(s) {
		if last == nil {
			return nil // What the fleet's fields were is not known any more. They come with its turn.
		}
		wanted = &applied{Metadata: last.Metadata, Spec: *last.Spec.DeepCopy()}
		wanted.Spec.Replicas = m.replicas
	}
	if last != nil && sameReplicas(last.Spec.Replicas, m.replicas) && wanted.isIn(m.deployment) {
		return nil
	}
	patch, err := wanted.mergePatch(m.deployment, m.record)
	if err == nil && patch == nil || m.isContested(s, wanted, last) {
		return nil
	}
	return wanted
}

func sameReplicas(a, b *int32) bool { return a == b || a != nil && b != nil && *a == *b }

// phaseOf is how far a member is with the current revision.
func (s *scope) phaseOf(m *member) plan.Phase {
	phase := plan.ToApply
	if s.isCurrent(m) && !s.plannedInput().Retries(s.plannedCluster(m)) {
		phase = m.record.Phase
	}
	if s.failsUnreachable(m) && phase != plan.Succeeded {
		return plan.Failed
	}
	return phase
}

// failsUnreachable reports whether a member counts as failed for as long as its cluster is frozen or not Ready: as the spec says now,
// or said when the rollout started.
func (s *scope) failsUnreachable(m *member) bool {
	return m.unreachable && m.selected && (s.fleet.Spec.UnreachablePolicy == v1alpha1.UnreachableFail || s.promisedFail())
}

func (s *scope) promisedFail() bool {
	return s.promise != nil && s.promise.UnreachablePolicy == v1alpha1.UnreachableFail
}
