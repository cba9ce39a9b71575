package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// deploymentName is the field by which MachineDeployments are listed: all those of one fleet have its name.
const deploymentName = "metadata.name"

// problem says what keeps the fleet from acting, in one cluster or at all, and what a user can do.
type problem struct{ reason, message string }

// member is one cluster that the fleet selects, or that has left it.
type member struct {
	cluster *v1alpha1.Cluster
	// deployment is nil if there is none.
	deployment *v1alpha1.MachineDeployment
	// record is nil if the MachineDeployment is not the fleet's.
	record *record
	// matches: the selector or the Placement chooses the cluster. selected: it is accepted besides.
	matches, selected bool
	// leftSince is since when this process has seen that the cluster is not chosen any more; zero if it is.
	leftSince time.Time
	// group is the decision group as the spec says now, and promised is that of the snapshot or, for a cluster that is not in it, the
	// one by the selectors that were promised; nil if it is not known.
	group    string
	promised *string
	replicas *int32
	// template holds for the cluster. unusable says why spec.replicasFromLabel does not; nil if it does.
	template *template
	unusable *problem
	// held says why nothing may be done in the cluster; empty if something may. silent: it is left as it is for now, because
	// its agent was not heard yet, or a write was refused.
	held   string
	silent bool
	// heardAt is when its agent was heard last; nil if there is none.
	heardAt *time.Time
	// unreachable: it is held because the cluster is frozen or not Ready, and not for what a user said of its
	// MachineDeployment.
	unreachable bool
	// closed: no template is started there until a maintenance window opens, at opensAt.
	closed  bool
	opensAt time.Time
	// promisedClosed: it is closed only by the windows and exclusions with which the rollout was started.
	promisedClosed bool
	// unhealthy says which conditions of spec.healthConditions do not hold in the cluster.
	unhealthy []string
	// blocked is all that keeps the current revision from being started there; empty if it can be.
	blocked []problem
	// contest is about what others have set back in it; nil if nobody has.
	contest *contest
}

// scope is all that one decision rests on.
type scope struct {
	fleet    *v1alpha1.MachineFleet
	now      time.Time
	revision string
	// content is the text of the revision.
	content *kept
	// rollout is the number of this rollout of the revision, and approvals are those for it.
	rollout   int64
	approvals approvals
	selection *selection
	// snapshot has the groups of the clusters with which the revision was started, by name; nil if it was not started.
	snapshot map[string]string
	// promise is what the spec said then; nil if that is not known.
	promise *binding
	// partialSince is since when this process has seen the selection partial; zero if it is not.
	partialSince time.Time
	// settlesAt is when settleTime is over for something that this process has seen of the Placement; zero if it is for all.
	settlesAt time.Time
	// members are those that are selected and those that left in the middle of the revision, by name. left are all that
	// are not chosen any more and have a MachineDeployment of the fleet.
	members, left []*member
	windows       *windows
	// invalid is the first field of the spec that cannot be used; unused are overrides and groups without a cluster.
	invalid *problem
	unused  []string
	// retryAfter is when a write that was refused is tried again.
	retryAfter time.Duration
}

// observe reads all that the fleet's next step rests on. It returns nil if this process has not read the Placements yet; that
// it has will be news.
func (c *Controller) observe(ctx context.Context, reader sources, fleet *v1alpha1.MachineFleet, now time.Time) (*scope, error) {
	s := &scope{fleet: fleet, now: now}
	spelled, err := c.readSpelling(ctx, fleet)
	if err != nil {
		return nil, err
	}
	s.revision, s.content = spelled.revision, spelled.content
	s.rollout = rolloutNumber(fleet, s.revision)
	// Nothing changes what is listed, so the cache need not copy it.
	clusters, deployments := &v1alpha1.ClusterList{}, &v1alpha1.MachineDeploymentList{}
	if err := reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	if err := reader.List(ctx, deployments, client.MatchingFields{deploymentName: fleet.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing machine deployments: %w", err)
	}
	chosen, invalid := newSelectors(fleet, spelled)
	if invalid == nil {
		s.windows, invalid = newWindows(fleet, now)
	}
	if invalid == nil {
		s.selection, invalid, err = readSelection(ctx, reader, fleet)
		if errors.Is(err, placement.ErrStarting) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if s.invalid = invalid; invalid != nil {
		return s, nil
	}
	s.partialSince = c.seen.seenSince(place{fleet: fleet.UID}, s.selection.partial, now)
	s.requeueWhenSettled(s.partialSince)
	byNamespace := map[string]*v1alpha1.MachineDeployment{}
	for i := range deployments.Items {
		byNamespace[deployments.Items[i].Namespace] = &deployments.Items[i]
	}
	slices.SortFunc(clusters.Items, func(a, b v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if err := c.addMember(ctx, reader, s, chosen, &member{cluster: cluster, deployment: byNamespace[cluster.Name]}); err != nil {
			return nil, err
		}
	}
	if err := c.addSnapshot(ctx, s); err != nil {
		return nil, err
	}
	if err := c.addApprovals(ctx, reader, s); err != nil {
		return nil, err
	}
	s.unused = chosen.unusedSelectors(fleet)
	s.invalid, err = c.validateTemplates(ctx, s)
	return s, err
}

// requeueWhenSettled has the next step taken when settleTime is over for something that has been seen since then, if ever.
func (s *scope) requeueWhenSettled(since time.Time) {
	if at := since.Add(settleTime); !since.IsZero() && s.now.Before(at) && (s.settlesAt.IsZero() || at.Before(s.settlesAt)) {
		s.settlesAt = at
	}
}

// addMember takes in one cluster, unless the fleet has nothing to do with it.
func (c *Controller) addMember(ctx context.Context, reader client.Reader, s *scope, chosen *selectors, m *member) error {
	fleet, unknown := s.fleet, undecodable.Check(m.cluster)
	var err error
	if m.record, err = c.provenRecord(ctx, fleet, m.deployment); err != nil {
		return err
	}
	m.matches = s.selection.hasMember(m)
	// Whether a cluster is accepted whose spec is not known is not known either: it does not leave for that.
	m.selected = m.matches && (m.cluster.Accepted() || unknown != nil)
	if !m.selected && m.record == nil {
		return nil
	}
	c.findHold(m, unknown)
	m.unhealthy = unhealthyConditions(fleet.Spec.HealthConditions, m.cluster)
	m.opensAt, m.closed = isClosed(s.windows, m.cluster)
	chosen.classifyMember(s, m)
	current := s.isCurrent(m)
	m.leftSince = c.seen.seenSince(place{fleet.UID, m.cluster.Name}, !m.matches, s.now)
	s.requeueWhenSettled(m.leftSince)
	if !m.matches {
		s.left = append(s.left, m)
	}
	removable := !m.matches && fleet.Spec.RemovalPolicy == v1alpha1.RemovalDelete && m.held == ""
	if !m.selected && (!current || removable) {
		return nil
	}
	s.members = append(s.members, m)
	c.addContest(s, m)
	return c.addProblem(ctx, reader, s, m)
}

// addProblem finds out what keeps the current revision from being started in a cluster.
func (c *Controller) addProblem(ctx context.Context, reader client.Reader, s *scope, m *member) error {
	if wait, refused := c.refused.Wait(place{s.fleet.UID, m.cluster.Name}, s.now); refused != nil {
		s.delayAfterRefusal(m, wait, refused)
		return nil
	}
	if !m.selected {
		return nil
	}
	var err error
	m.blocked, err = s.preflightProblems(ctx, reader, m)
	return err
}

// replicasFromLabel takes the replicas from a label of the cluster, if it has that. What cannot be used changes nothing in a
// cluster that has a MachineDeployment: a mistyped label is no order to delete Machines.
func (m *member) replicasFromLabel(key string) {
	value, has := m.cluster.Labels[key]
	if key == "" || !has {
		return
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil && n <= v1alpha1.MaxReplicas {
		m.replicas = new(int32(n))
		return
	}
	if m.replicas = nil; m.record != nil {
		if last := readApplied(m.deployment); last != nil {
			m.replicas = last.Spec.Replicas
		}
	}
	m.unusable = &problem{v1alpha1.ReasonInvalidReplicasLabel, fmt.Sprintf(
		"spec.replicasFromLabel: label %s of Cluster %s is %q, which is not a number from 0 to %d: correct or remove the label", key, m.cluster.Name, value, v1alpha1.MaxReplicas)}
}

// findHold finds out whether anything may be done in a cluster.
func (c *Controller) findHold(m *member, unknown error) {
	cluster := freeze.OfCluster(m.cluster.Name, m.cluster.Name, m.cluster)
	verdicts := []freeze.Verdict{cluster, freeze.OfDecoding(m.cluster)}
	if m.deployment != nil {
		verdicts = append(verdicts, freeze.OfDecoding(m.deployment), freeze.OfAnnotation("MachineDeployment", m.deployment),
			freeze.OfCondition("MachineDeployment", m.deployment, m.deployment.Status.Conditions))
	}
	ready := meta.FindStatusCondition(m.cluster.Status.Conditions, v1alpha1.ReadyCondition)
	switch frozen := freeze.First(verdicts...); {
	case frozen.Frozen:
		m.held = frozen.Message
	case unknown != nil:
		m.held = unknown.Error()
	case ready == nil || ready.Status != metav1.ConditionTrue:
		m.held = fmt.Sprintf("Cluster %s is not Ready", m.cluster.Name)
	case m.deployment != nil && m.deployment.Spec.Paused:
		m.held = fmt.Sprintf("MachineDeployment %s/%s is paused: unset its spec.paused to continue", m.deployment.Namespace, m.deployment.Name)
	}
	m.unreachable = cluster.Frozen || ready == nil || ready.Status != metav1.ConditionTrue
	if meta.IsStatusConditionTrue(m.cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition) {
		m.heardAt = new(c.Agents.RenewedAt(m.cluster.Name))
	}
	// A cluster whose agent has become silent is frozen, which is remembered. One whose agent this hub has not heard yet was fine
	// when the hub was ended, and its soak continues.
	m.silent = m.held == "" && c.Agents.Verdict(m.cluster).Frozen
}

// delayAfterRefusal leaves a cluster as it is in which the last write was refused, until it is time to try again: a plan whose first
// write fails each time would never come to the other clusters.
func (s *scope) delayAfterRefusal(m *member, wait time.Duration, refused error) {
	if s.retryAfter == 0 || wait < s.retryAfter {
		s.retryAfter = wait
	}
	m.silent = true
	m.blocked = []problem{{v1alpha1.ReasonWriteRefused, "the API server refused the last write: " + refused.Error()}}
}

// plannedCluster is what the planner needs to know of a member.
func (s *scope) plannedCluster(m *member) plan.Cluster {
	cluster := plan.Cluster{
		Name: m.cluster.Name, Group: m.group, Record: m.record.plannedRecord(), Held: m.held != "", Unreachable: m.unreachable, Silent: m.silent, Blocked: len(m.blocked) > 0, Closed: m.closed,
		Left: !m.selected,
	}
	cluster.HeardAt, cluster.PromisedGroup = m.heardAt, m.promised
	if m.record != nil {
		cluster.LastGroup = m.record.Group
	}
	cluster.Record.Revision, cluster.Record.Previous = m.toPlan(s, cluster.Record.Revision), m.toPlan(s, cluster.Record.Previous)
	if d := m.deployment; d != nil {
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
func (m *member) failingCondition() *metav1.Condition {
	if m.deployment == nil {
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
		found := meta.FindStatusCondition(m.deployment.Status.Conditions, says.kind)
		if found != nil && found.Status == says.status && (latest == nil || latest.LastTransitionTime.Before(&found.LastTransitionTime)) {
			latest = found
		}
	}
	return latest
}
