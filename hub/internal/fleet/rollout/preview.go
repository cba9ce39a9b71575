package rollout

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// Preview is how a fleet is and what the hub would do next, for a user to see. It is found by the same reading and deciding
// as the hub's.
type Preview struct {
	Fleet *v1alpha1.MachineFleet
	// Revision is that of the template.
	Revision string
	Waves    []plan.Wave
	// Members are the fleet's clusters, by name.
	Members []ClusterPreview
	// Problem is why nothing is started in any cluster; nil if something may be.
	Problem *Problem
	// Unused names the overrides and groups of the spec that choose no cluster.
	Unused []string
	// Windowless are the clusters that none of the fleet's maintenance windows chooses, by name; none if it has no window.
	Windowless []string

	// selected are the names of the fleet's clusters; nil if they are not known.
	selected map[string]bool
}

// ClusterPreview is a cluster of a fleet, for a user to see.
type ClusterPreview struct {
	Cluster *v1alpha1.Cluster
	// Kubelet is the version that the fleet wants there, and Override the name of the override from whose template the cluster's
	// is merged; empty if it is spec.template as it is.
	Kubelet, Override string
	// Deployment is nil if there is none yet.
	Deployment *v1alpha1.MachineDeployment
	// Wave is the number of its wave, from 1; 0 if there are no waves because of a Problem.
	Wave int
	// Group is its decision group; empty if it is in none.
	Group string
	// Phase is how far the cluster is with Revision, and Since is when the phase started.
	Phase plan.Phase
	Since time.Time
	// Failure is why the cluster has failed; nil if it has not.
	Failure *Problem
	// Held says why nothing is started there for now; empty if something may be.
	Held string
	// Blocked is all that keeps Revision from being started there; empty if it can be.
	Blocked []Problem
	// Unhealthy says which conditions of spec.healthConditions the cluster waits for.
	Unhealthy []string
	// Unapproved: its group waits for an approval.
	Unapproved bool
	// OpensAt is when its next maintenance window opens; zero if it need not wait for one.
	OpensAt time.Time
	// Starts: the hub would start with the revision there now.
	Begins bool
}

// Problems is all that is wrong in the cluster, the most important first.
func (m *ClusterPreview) Problems() []string {
	var all []string
	for _, p := range m.Blocked {
		all = append(all, p.Message)
	}
	if m.Failure != nil {
		all = append(all, m.Failure.Message)
	} else {
		all = append(all, m.Unhealthy...)
	}
	if m.Held != "" && (m.Failure == nil || m.Failure.Reason != v1alpha1.ReasonClusterUnreachable) {
		all = append(all, m.Held)
	}
	return all
}

// NewPreview reads all that the next step of fleet rests on, with the rights of the user. The spec of fleet need not be the one that is
// stored.
func NewPreview(ctx context.Context, c client.Client, fleet *v1alpha1.MachineFleet, now time.Time) (*Preview, error) {
	user := ownRights{c}
	r, err := NewObserver(Deps{Client: user, Live: user, Placements: user, Agents: user})
	if err != nil {
		return nil, err
	}
	spelled, err := spellingForUser(ctx, c, fleet)
	if err != nil {
		return nil, err
	}
	r.spellings.SetValue(fleet.UID, spelled)
	s, err := r.ObserveCached(ctx, fleet, now)
	if err != nil {
		return nil, err
	}
	d := Decide(s)
	p := &Preview{Fleet: fleet, Revision: s.Revision, Unused: s.unused, Windowless: s.windowlessClusters()}
	switch {
	case d.frozen.Frozen:
		p.Problem = &Problem{d.frozen.Reason, d.frozen.Message}
	case d.stop != nil:
		p.Problem = d.stop
	}
	// An error is a Problem already.
	p.Waves, _ = plan.Waves(s.planInput(true))
	if s.selection != nil && !s.selection.isPartial() {
		p.selected = map[string]bool{}
	}
	for _, m := range s.Members {
		p.Members = append(p.Members, p.previewMember(s, d, m))
		if p.selected != nil && m.Selected {
			p.selected[m.Cluster.Name] = true
		}
	}
	return p, nil
}

func (p *Preview) previewMember(s *Scope, d Decision, m *Member) ClusterPreview {
	result := ClusterPreview{
		Cluster: m.Cluster, Kubelet: m.template.kubeletVersion(), Override: m.template.override, Deployment: m.Deployment,
		Group: s.recordedGroup(m), Phase: s.phaseOf(m), Held: m.held, Blocked: m.blocked,
	}
	result.Unhealthy = m.unhealthyIn(result.Phase)
	if s.IsCurrent(m) {
		result.Since = m.Record.PlannedRecord().Since
	}
	result.Failure = s.failureOf(m)
	result.Unapproved = s.planInput(true).AwaitedGroup(s.plannedCluster(m)) != ""
	if m.closed && result.Phase == plan.ToApply {
		result.OpensAt = m.opensAt
	}
	for i, wave := range p.Waves {
		if slices.Contains(wave.Clusters, m.Cluster.Name) {
			result.Wave = i + 1
		}
	}
	for _, change := range d.Plan.Changes {
		result.Begins = result.Begins || change.Apply && change.Cluster == m.Cluster.Name
	}
	return result
}

// Owns reports whether a MachineDeployment is the fleet's.
func Owns(fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) bool {
	return OwnRecord(fleet, deployment) != nil
}

// RevisionOf is the revision whose template a MachineDeployment of the fleet has; empty if it is not the fleet's.
func RevisionOf(fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) string {
	if !Owns(fleet, deployment) {
		return ""
	}
	return FleetRevision(ReadRecord(deployment).TemplateRevision())
}

// PhaseOf reads how far a MachineDeployment of the fleet is with the revision that the fleet has now.
func PhaseOf(fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) plan.Phase {
	r := OwnRecord(fleet, deployment)
	revision, err := Revision(fleet)
	if r == nil || err != nil || FleetRevision(r.Revision) != revision {
		return plan.ToApply
	}
	return r.Phase
}

// StartedRecord is the record of a MachineDeployment of the fleet; zero if the revision that the fleet has now was not started there, or if
// the cluster was frozen or not Ready when the hub last looked.
func StartedRecord(fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) plan.Record {
	r := OwnRecord(fleet, deployment)
	if r == nil || r.Held || PhaseOf(fleet, deployment) == plan.ToApply {
		return plan.Record{}
	}
	return r.PlannedRecord()
}
