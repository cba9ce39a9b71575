// Package rollout observes MachineFleets, decides how their rollouts continue, and says in their status how far they are. It writes nothing:
// the controller carries a decision out, and the command line shows it.
package rollout

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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// FieldOwner is who the API server says wrote what the controller of fleets writes.
const FieldOwner = client.FieldOwner("hollowfleet-fleet")

// Deps is what an Observer needs. All of it is required.
type Deps struct {
	// Client reads from the cache, and asks the API server by dry runs whether it takes a template.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Placements reads Placements while their kind is installed.
	Placements Placements
	// Agents tells which agents this process has heard.
	Agents agents
}

// Placements reads Placements, or says that their kind is not installed, or that this is not known yet.
type Placements interface {
	Cached() (client.Reader, error)
	Live() (client.Reader, error)
}

// agents tells which agents this process has heard.
type agents interface {
	// RenewedAt is when the Lease of a cluster's agent was renewed last; zero if that is not known.
	RenewedAt(cluster string) time.Time
	// Verdict freezes a cluster whose agent was not heard yet.
	Verdict(cluster *v1alpha1.Cluster) freeze.Verdict
}

// Observer observes fleets. It remembers what is stored nowhere: since when it has seen something, and what the API server answered.
type Observer struct {
	Deps
	refused  refusals
	contests contests
	// proven tells, by MachineDeployment, whether the record of an older hub is of that very object.
	proven     ByUID[bool]
	seen       sightings
	validated  validations
	remembered ByUID[Snapshot]
	spellings  ByUID[Spelling]
}

// NewObserver returns an Observer.
func NewObserver(deps Deps) (*Observer, error) {
	if deps.Client == nil || deps.Live == nil || deps.Placements == nil || deps.Agents == nil {
		return nil, errors.New("making an observer of MachineFleets: a dependency is missing")
	}
	return &Observer{Deps: deps}, nil
}

// ObserveCached reads all that the fleet's next step rests on, from the cache. It returns nil if this process has not read the Placements
// yet; that it has will be news.
func (r *Observer) ObserveCached(ctx context.Context, fleet *v1alpha1.MachineFleet, now time.Time) (*Scope, error) {
	return r.observe(ctx, sources{r.Client, false, r.Placements.Cached}, fleet, now)
}

// ObserveLive reads everything from the API server. It returns nil if the fleet was deleted, recreated or changed; its watch event
// requeues it.
func (r *Observer) ObserveLive(ctx context.Context, fleet *v1alpha1.MachineFleet, now time.Time) (*Scope, error) {
	current := &v1alpha1.MachineFleet{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(fleet), current); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the machine fleet again: %w", err)
	}
	if current.UID != fleet.UID || current.Generation != fleet.Generation {
		return nil, nil
	}
	return r.observe(ctx, sources{r.Live, true, r.Placements.Live}, current, now)
}

// NoteWrite remembers the result of a write to a cluster: after a refusal nothing is started there for a while.
func (r *Observer) NoteWrite(fleet types.UID, cluster string, err error, now time.Time) {
	r.refused.Record(place{fleet, cluster}, err, now)
}

// DeploymentName is the field by which MachineDeployments are listed: all those of one fleet have its name.
const DeploymentName = "metadata.name"

// Problem says what keeps the fleet from acting, in one cluster or at all, and what a user can do.
type Problem struct{ Reason, Message string }

// Member is one cluster that the fleet selects, or that has left it.
type Member struct {
	Cluster *v1alpha1.Cluster
	// Deployment is nil if there is none.
	Deployment *v1alpha1.MachineDeployment
	// Record is nil if the MachineDeployment is not the fleet's.
	Record *Record
	// matches: the selector or the Placement chooses the cluster. selected: it is accepted besides.
	matches, Selected bool
	// leftSince is since when this process has seen that the cluster is not chosen any more; zero if it is.
	leftSince time.Time
	// group is the decision group as the spec says now, and promised is that of the snapshot or, for a cluster that is not in it, the
	// one by the selectors that were promised; nil if it is not known.
	group    string
	promised *string
	replicas *int32
	// template holds for the cluster. unusable says why spec.replicasFromLabel does not; nil if it does.
	template *template
	unusable *Problem
	// held says why nothing may be done in the cluster; empty if something may. silent: it is left as it is for now, because
	// its agent was not heard yet, or a write was refused.
	held   string
	silent bool
	// HeardAt is when its agent was heard last; nil if there is none.
	HeardAt *time.Time
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
	blocked []Problem
	// contest is about what others have set back in it; nil if nobody has.
	contest *contest
}

// Scope is all that one decision rests on.
type Scope struct {
	Fleet    *v1alpha1.MachineFleet
	Now      time.Time
	Revision string
	// Content is the text of the revision.
	Content *kept
	// Rollout is the number of this rollout of the revision, and approvals are those for it.
	Rollout   int64
	Approvals approvals
	selection *selection
	// snapshot has the groups of the clusters with which the revision was started, by name; nil if it was not started.
	snapshot map[string]string
	// promise is what the spec said then; nil if that is not known. unbound: an older hub has started the rollout without one.
	promise *binding
	unbound bool
	// partialSince is since when this process has seen the selection partial; zero if it is not.
	partialSince time.Time
	// SettlesAt is when settleTime is over for something that this process has seen of the Placement; zero if it is for all.
	SettlesAt time.Time
	// Members are those that are selected and those that left in the middle of the revision, by name. left are all that
	// are not chosen any more and have a MachineDeployment of the fleet.
	Members, Left []*Member
	windows       *windows
	// Invalid is the first field of the spec that cannot be used; unused are overrides and groups without a cluster.
	Invalid *Problem
	unused  []string
	// RetryAfter is when a write that was refused is tried again.
	RetryAfter time.Duration
}

// observe reads all that the fleet's next step rests on. It returns nil if this process has not read the Placements yet; that
// it has will be news.
func (r *Observer) observe(ctx context.Context, reader sources, fleet *v1alpha1.MachineFleet, now time.Time) (*Scope, error) {
	s := &Scope{Fleet: fleet, Now: now}
	spelled, err := r.ReadSpelling(ctx, fleet)
	if err != nil {
		return nil, err
	}
	s.Revision, s.Content = spelled.Revision, spelled.content
	s.Rollout = NumberOf(fleet, s.Revision)
	// Nothing changes what is listed, so the cache need not copy it.
	clusters, deployments := &v1alpha1.ClusterList{}, &v1alpha1.MachineDeploymentList{}
	if err := reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	if err := reader.List(ctx, deployments, client.MatchingFields{DeploymentName: fleet.Name}, client.UnsafeDisableDeepCopy); err != nil {
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
	if s.Invalid = invalid; invalid != nil {
		return s, nil
	}
	s.partialSince = r.seen.seenSince(place{fleet: fleet.UID}, s.selection.isPartial(), now)
	s.requeueWhenSettled(s.partialSince)
	byNamespace := map[string]*v1alpha1.MachineDeployment{}
	for i := range deployments.Items {
		byNamespace[deployments.Items[i].Namespace] = &deployments.Items[i]
	}
	slices.SortFunc(clusters.Items, func(a, b v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if err := r.addMember(ctx, reader, s, chosen, &Member{Cluster: cluster, Deployment: byNamespace[cluster.Name]}); err != nil {
			return nil, err
		}
	}
	if err := r.addSnapshot(ctx, s); err != nil {
		return nil, err
	}
	if err := r.addApprovals(ctx, reader, s); err != nil {
		return nil, err
	}
	s.unused = chosen.unusedSelectors(fleet)
	s.Invalid, err = r.validateTemplates(ctx, s)
	return s, err
}

// requeueWhenSettled has the next step taken when settleTime is over for something that has been seen since then, if ever.
func (s *Scope) requeueWhenSettled(since time.Time) {
	if at := since.Add(SettleTime); !since.IsZero() && s.Now.Before(at) && (s.SettlesAt.IsZero() || at.Before(s.SettlesAt)) {
		s.SettlesAt = at
	}
}

// addMember takes in one cluster, unless the fleet has nothing to do with it.
func (r *Observer) addMember(ctx context.Context, reader client.Reader, s *Scope, chosen *selectors, m *Member) error {
	fleet, unknown := s.Fleet, undecodable.Check(m.Cluster)
	var err error
	if m.Record, err = r.provenRecord(ctx, fleet, m.Deployment); err != nil {
		return err
	}
	if m.Record != nil {
		m.Record.dropUnchanged(s.Revision, chosen.unchanged)
	}
	m.matches = s.selection.hasMember(m)
	// Whether a cluster is accepted whose spec is not known is not known either: it does not leave for that.
	m.Selected = m.matches && (m.Cluster.Accepted() || unknown != nil) && !m.Cluster.IsLeaving()
	if !m.Selected && m.Record == nil {
		return nil
	}
	r.findHold(m, unknown)
	m.unhealthy = unhealthyConditions(fleet.Spec.HealthConditions, m.Cluster)
	m.opensAt, m.closed = isClosed(s.windows, m.Cluster)
	chosen.classifyMember(s, m)
	current := s.IsCurrent(m)
	m.leftSince = r.seen.seenSince(place{fleet.UID, m.Cluster.Name}, !m.matches, s.Now)
	s.requeueWhenSettled(m.leftSince)
	if !m.matches {
		s.Left = append(s.Left, m)
	}
	removable := !m.matches && fleet.Spec.RemovalPolicy == v1alpha1.RemovalDelete && m.held == ""
	if !m.Selected && (!current || removable) {
		return nil
	}
	s.Members = append(s.Members, m)
	r.addContest(s, m)
	return r.addProblem(ctx, reader, s, m)
}

// addProblem finds out what keeps the current revision from being started in a cluster.
func (r *Observer) addProblem(ctx context.Context, reader client.Reader, s *Scope, m *Member) error {
	if wait, refused := r.refused.Wait(place{s.Fleet.UID, m.Cluster.Name}, s.Now); refused != nil {
		s.delayAfterRefusal(m, wait, refused)
		return nil
	}
	if !m.Selected {
		return nil
	}
	var err error
	m.blocked, err = s.preflightProblems(ctx, reader, m)
	return err
}

// replicasFromLabel takes the replicas from a label of the cluster, if it has that. What cannot be used changes nothing in a
// cluster that has a MachineDeployment: a mistyped label is no order to delete Machines.
func (m *Member) replicasFromLabel(key string) {
	value, has := m.Cluster.Labels[key]
	if key == "" || !has {
		return
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil && n <= v1alpha1.MaxReplicas {
		m.replicas = new(int32(n))
		return
	}
	if m.replicas = nil; m.Record != nil {
		if last := readApplied(m.Deployment); last != nil {
			m.replicas = last.Spec.Replicas
		}
	}
	m.unusable = &Problem{v1alpha1.ReasonInvalidReplicasLabel, fmt.Sprintf(
		"spec.replicasFromLabel: label %s of Cluster %s is %q, which is not a number from 0 to %d: correct or remove the label", key, m.Cluster.Name, value, v1alpha1.MaxReplicas)}
}

// findHold finds out whether anything may be done in a cluster.
func (r *Observer) findHold(m *Member, unknown error) {
	cluster := freeze.OfCluster(m.Cluster.Name, m.Cluster.Name, m.Cluster)
	verdicts := []freeze.Verdict{cluster, freeze.OfDecoding(m.Cluster)}
	if m.Deployment != nil {
		verdicts = append(verdicts, freeze.OfDecoding(m.Deployment), freeze.OfAnnotation("MachineDeployment", m.Deployment),
			freeze.OfCondition("MachineDeployment", m.Deployment, m.Deployment.Status.Conditions))
	}
	ready := meta.FindStatusCondition(m.Cluster.Status.Conditions, v1alpha1.ReadyCondition)
	switch frozen := freeze.First(verdicts...); {
	case frozen.Frozen:
		m.held = frozen.Message
	case unknown != nil:
		m.held = unknown.Error()
	case ready == nil || ready.Status != metav1.ConditionTrue:
		m.held = fmt.Sprintf("Cluster %s is not Ready", m.Cluster.Name)
	case m.Deployment != nil && m.Deployment.Spec.Paused:
		m.held = fmt.Sprintf("MachineDeployment %s/%s is paused: unset its spec.paused to continue", m.Deployment.Namespace, m.Deployment.Name)
	}
	m.unreachable = cluster.Frozen || ready == nil || ready.Status != metav1.ConditionTrue
	if meta.IsStatusConditionTrue(m.Cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition) {
		m.HeardAt = new(r.Agents.RenewedAt(m.Cluster.Name))
	}
	// A cluster whose agent has become silent is frozen, which is remembered. One whose agent this hub has not heard yet was fine
	// when the hub was ended, and its soak continues.
	m.silent = m.held == "" && r.Agents.Verdict(m.Cluster).Frozen
}

// delayAfterRefusal leaves a cluster as it is in which the last write was refused, until it is time to try again: a plan whose first
// write fails each time would never come to the other clusters.
func (s *Scope) delayAfterRefusal(m *Member, wait time.Duration, refused error) {
	if s.RetryAfter == 0 || wait < s.RetryAfter {
		s.RetryAfter = wait
	}
	m.silent = true
	m.blocked = []Problem{{v1alpha1.ReasonWriteRefused, "the API server refused the last write: " + refused.Error()}}
}
