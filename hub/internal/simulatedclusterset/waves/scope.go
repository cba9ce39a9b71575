// Package waves decides which SimulatedClusters of a set get its version of the control plane next, and says how far a rollout is. It is
// pure. The planner, its gates and its records are those of MachineFleets; what belongs to a set is how its members are read.
package waves

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

// DefaultRevision is the revision of a set that leaves the version to its hosts.
const DefaultRevision = "default"

// RevisionOf is the revision of a set: the version of the control plane.
func RevisionOf(set *v1alpha1.SimulatedClusterSet) string {
	return cmp.Or(set.Spec.Template.Spec.Versions.ControlPlane, DefaultRevision)
}

// NumberOf is the number of the current rollout of a set: the generation at which the hub first saw its revision, or its retriedAt.
func NumberOf(set *v1alpha1.SimulatedClusterSet) int64 {
	status := &set.Status.Rollout
	if status.Rollout > 0 && status.Revision == RevisionOf(set) && status.RetriedAt.Equal(set.Spec.Rollout.RetriedAt) {
		return status.Rollout
	}
	return set.Generation
}

// Member is a SimulatedCluster of the set, and what is known of its Cluster and its host.
type Member struct {
	One *v1alpha1.SimulatedCluster
	// Cluster is that of the SimulatedCluster; nil if there is none.
	Cluster *v1alpha1.Cluster
	// Host is what keeps the hub from changing something in its host, and Agent what is not known of the cluster's own agent.
	Host, Agent freeze.Verdict
	// HeardAt is when the agents of both were heard last: the earlier of the two.
	HeardAt time.Time
	// Machine is one of the cluster with the oldest kubelet; nil if no kubelet of it is known.
	Machine *v1alpha1.Machine

	record *rollout.Record
	// group is the one that it has, promised the one that it had or would have had when the rollout started.
	group    string
	promised *string
	held     string
	silent   bool
	blocked  *rollout.Problem
	closed   bool
	opensAt  time.Time
}

// Approval is a FleetApproval for the rollout.
type Approval struct {
	plan.Approval
	Name string
	UID  types.UID
	By   string
}

// Scope is what a decision about the rollout of a set rests on.
type Scope struct {
	Set     *v1alpha1.SimulatedClusterSet
	Members []*Member
	// Approvals are those for the rollout, the oldest first.
	Approvals []Approval
	// Frozen: a user has frozen the set.
	Frozen freeze.Verdict
	Now    time.Time

	calendar *rollout.Calendar
	started  *binding
	invalid  *rollout.Problem
}

// Write is what is to be written to one SimulatedCluster.
type Write struct {
	Member *Member
	Record *rollout.Record
	// Starts: the version of the set is written with it.
	Starts bool
}

// Decision is what to do about the rollout of a set.
type Decision struct {
	Plan   plan.Plan
	Writes []Write
	// Keep is what is to be kept in the status before anything is started, because nothing is of this rollout; nil if it is.
	Keep *Start
	stop *rollout.Problem
}

// Decide decides what is next.
func Decide(s *Scope) Decision {
	s.readGates()
	for _, m := range s.Members {
		s.readMember(m)
	}
	d := Decision{stop: s.invalid}
	if d.stop == nil && s.Set.Spec.Rollout.Paused {
		d.stop = &rollout.Problem{Reason: v1alpha1.ReasonPaused, Message: "spec.rollout.paused is set: no control plane gets another version until it is unset"}
	}
	var err error
	if d.Plan, err = plan.Decide(s.planInput(d.stop != nil || s.Frozen.Frozen)); err != nil {
		d.stop = &rollout.Problem{Reason: v1alpha1.ReasonInvalidFleet, Message: "spec.rollout." + err.Error()}
		return d
	}
	for _, change := range d.Plan.Changes {
		if change.Apply && s.started == nil {
			d.Keep = s.newStart()
			break // The changes rest on each other, and this one on what is kept.
		}
		d.Writes = append(d.Writes, s.writeFor(change))
	}
	if s.Frozen.Frozen {
		d.Writes, d.Keep = nil, nil
	}
	return d
}

// writeFor is the write that a change asks for.
func (s *Scope) writeFor(change plan.Change) Write {
	m := s.memberOf(change.Cluster)
	w := Write{Member: m, Record: rollout.NewRecord(s.Set, change.Record, m.group), Starts: change.Apply}
	switch {
	case change.Apply && m.promised != nil:
		w.Record.Group = *m.promised
	case !change.Apply && m.record != nil:
		w.Record.Group = m.record.Group
	}
	w.Record = w.Record.BindTo(m.One)
	return w
}

func (s *Scope) memberOf(name string) *Member {
	at := slices.IndexFunc(s.Members, func(m *Member) bool { return m.One.Name == name })
	return s.Members[at]
}

// readGates reads the windows, and what the rollout keeps to.
func (s *Scope) readGates() {
	spec := &s.Set.Spec.Rollout
	s.invalid, s.started = nil, nil
	var wrong *rollout.Problem
	if s.calendar, wrong = rollout.NewCalendar(spec.MaintenanceWindows, spec.MaintenanceExclusions, s.Now); wrong != nil {
		wrong.Message = "spec.rollout." + wrong.Message[len("spec."):]
		s.invalid = wrong
		return
	}
	for i := range spec.Groups {
		if _, err := metav1.LabelSelectorAsSelector(spec.Groups[i].ClusterSelector); err != nil {
			s.invalid = &rollout.Problem{Reason: v1alpha1.ReasonInvalidFleet, Message: fmt.Sprintf(
				"spec.rollout.groups[%s].clusterSelector: it is not a label selector: %v: correct it", spec.Groups[i].Name, err)}
			return
		}
	}
	s.started, s.invalid = s.bindStart()
}

// labelsOf are those of the Cluster; of one that there is not yet, those that it will have.
func (s *Scope) labelsOf(m *Member) labels.Set {
	if m.Cluster != nil {
		return m.Cluster.Labels
	}
	return s.Set.Spec.Template.Spec.ClusterMetadata.Labels
}

func groupOf(groups []v1alpha1.MachineFleetGroup, has labels.Set) string {
	for i := range groups {
		if selector, err := metav1.LabelSelectorAsSelector(groups[i].ClusterSelector); err == nil && selector.Matches(has) {
			return groups[i].Name
		}
	}
	return ""
}

// readMember finds out where a member stands.
func (s *Scope) readMember(m *Member) {
	has := s.labelsOf(m)
	m.record = rollout.RecordOn(s.Set, m.One)
	m.group, m.promised, m.blocked = groupOf(s.Set.Spec.Rollout.Groups, has), nil, s.findProblem(m)
	if s.invalid == nil {
		if s.started != nil {
			m.promised = s.started.groupOf(m.One.Name, has)
		}
		m.closed, m.opensAt = s.isClosed(m.One.Name, has)
	}
	m.held, m.silent = "", m.Host.Frozen && m.Host.Passing
	switch {
	case m.Host.Frozen && !m.Host.Passing:
		m.held = m.Host.Message
	case freeze.OfAnnotation("SimulatedCluster", m.One).Frozen:
		m.held = freeze.OfAnnotation("SimulatedCluster", m.One).Message
	case m.Cluster != nil && freeze.OfAnnotation("Cluster", m.Cluster).Frozen:
		m.held = freeze.OfAnnotation("Cluster", m.Cluster).Message
	case s.isUnderWay(m):
		// That its own agent is silent while its control plane is upgraded is what an upgrade is like. It is not success either: see observed.
	case !isReady(m.One) && !isRefused(m.One):
		m.held = fmt.Sprintf("SimulatedCluster %s is not Ready", m.One.Name)
	case m.Agent.Frozen:
		m.silent = true
	}
}

// isUnderWay reports whether the current version was started in a member, and it is not through.
func (s *Scope) isUnderWay(m *Member) bool {
	r := s.plannedRecord(m)
	return r.Phase != plan.ToApply && r.Phase != plan.Succeeded && r.Revision == RevisionOf(s.Set)
}

func isReady(one *v1alpha1.SimulatedCluster) bool {
	ready := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == one.Generation
}

// isRefused reports whether the host refuses the version that a member asks for, so that another one is what helps.
func isRefused(one *v1alpha1.SimulatedCluster) bool {
	plane := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)
	return plane != nil && plane.ObservedGeneration == one.Generation &&
		(plane.Reason == v1alpha1.ReasonVersionNotSupported || plane.Reason == v1alpha1.ReasonControlPlaneDowngrade)
}

// hasVersion reports whether a member is to have the version of the set.
func (s *Scope) hasVersion(m *Member) bool {
	return m.One.Spec.Versions == s.Set.Spec.Template.Spec.Versions
}

// plannedRecord is the record of a member as the planner has it. One that was created with the version needs no turn, and its success
// proves nothing. One whose version somebody has changed by hand has its turn again, unless it has failed.
func (s *Scope) plannedRecord(m *Member) plan.Record {
	revision := RevisionOf(s.Set)
	if m.record == nil || m.record.Revision != revision {
		if s.hasVersion(m) && (m.record == nil || m.record.Phase == plan.Succeeded) {
			return plan.Record{Revision: revision, Phase: plan.Succeeded, Since: m.One.CreationTimestamp.Time, Empty: true}
		}
		return m.record.PlannedRecord()
	}
	r := m.record.PlannedRecord()
	if !s.hasVersion(m) && r.Phase != plan.Failed && r.Phase != plan.TimedOut {
		return plan.Record{}
	}
	return r
}

// planInput is the input of the planner.
func (s *Scope) planInput(paused bool) plan.Input {
	spec := &s.Set.Spec.Rollout
	in := plan.Input{
		Strategy: spec.RolloutStrategy, Revision: RevisionOf(s.Set), Fleet: string(s.Set.UID), Rollout: NumberOf(s.Set),
		UnreachablePolicy: spec.UnreachablePolicy, Paused: paused, Aborted: spec.AbortedRevision == RevisionOf(s.Set), Now: s.Now,
	}
	if spec.RetriedAt != nil {
		in.RetriedAt = spec.RetriedAt.Time
	}
	for _, group := range spec.Groups {
		in.Groups = append(in.Groups, group.Name)
		if group.Approval == v1alpha1.GroupApprovalRequired {
			in.NeedApproval = append(in.NeedApproval, group.Name)
		}
	}
	for _, a := range s.Approvals {
		in.Approvals = append(in.Approvals, a.Approval)
	}
	if s.started != nil {
		in.Snapshot, in.Promise = s.started.snapshot(), &s.started.Promise
	}
	for _, m := range s.Members {
		in.Clusters = append(in.Clusters, s.plannedCluster(m))
	}
	return in
}

func (s *Scope) plannedCluster(m *Member) plan.Cluster {
	c := plan.Cluster{
		Name: m.One.Name, Group: m.group, PromisedGroup: m.promised, Record: s.plannedRecord(m), Observed: s.observed(m),
		Held: m.held != "", Silent: m.silent, Blocked: m.blocked != nil, Closed: m.closed, Left: m.One.DeletionTimestamp != nil, HeardAt: &m.HeardAt,
		Unreachable: m.Host.Frozen && !m.Host.Passing || m.held != "" && !isReady(m.One),
	}
	if m.record != nil {
		c.LastGroup = m.record.Group
	}
	return c
}

// observed is what a member reports, as the planner has it: one cluster, which is updated when its components run the version, and available
// when it is Ready and its agent was heard.
func (s *Scope) observed(m *Member) plan.Observed {
	one := m.One
	o := plan.Observed{Generation: one.Generation, ObservedGeneration: one.Status.ObservedGeneration, Desired: 1, Replicas: 1}
	plane := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)
	if plane == nil || plane.ObservedGeneration != one.Generation {
		o.ObservedGeneration = -1
		return o
	}
	if s.hasVersion(m) && plane.Status == metav1.ConditionTrue {
		o.Updated = 1
	}
	if isReady(one) && !m.Agent.Frozen {
		o.Available = 1
	}
	if isRefused(one) {
		o.Failing, o.FailingSince = true, s.Now
	}
	return o
}

// findProblem says why the version cannot be started in a member until a user changes something.
func (s *Scope) findProblem(m *Member) *rollout.Problem {
	if s.hasVersion(m) {
		return nil
	}
	runs := m.One.Spec.Versions.ControlPlane
	if m.One.Status.Versions != nil {
		runs = cmp.Or(m.One.Status.Versions.ControlPlane, runs)
	}
	wanted := s.Set.Spec.Template.Spec.Versions.ControlPlane
	if m.Machine != nil && v1alpha1.IsKubeletTooOld(m.Machine.Spec.Versions.Kubelet, wanted) {
		return &rollout.Problem{Reason: v1alpha1.ReasonUnsupportedKubeletVersion, Message: fmt.Sprintf(
			"spec.template.spec.versions.controlPlane: an API server of %s does not support the kubelet %s of Machine %s in Cluster %s: upgrade the Machines first",
			wanted, m.Machine.Spec.Versions.Kubelet, m.Machine.Name, m.One.Name)}
	}
	if !v1alpha1.IsEarlierMinor(wanted, runs) {
		return nil
	}
	return &rollout.Problem{Reason: v1alpha1.ReasonControlPlaneDowngrade, Message: fmt.Sprintf(
		"spec.template.spec.versions.controlPlane: a control plane cannot go back from %s to %s: raise it, or delete SimulatedCluster %s in namespace %s, which is then created again",
		runs, wanted, m.One.Name, m.One.Namespace)}
}
