package waves

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// MemberPreview is a SimulatedCluster of a set, for a user to see.
type MemberPreview struct {
	rollout.ClusterPreview

	One *v1alpha1.SimulatedCluster
	// Record is what the hub noted of the version there; nil for nothing.
	Record *rollout.Record
}

// Preview is how far the members of a scope are, and the waves, found by the same deciding as the hub's. problem is why nothing is started
// anywhere; nil if something may be. Of hosts and agents it knows what the scope says.
func Preview(s *Scope) (all []plan.Wave, members []MemberPreview, problem *rollout.Problem) {
	d := Decide(s)
	all, _ = plan.Waves(s.planInput(true)) // An error is a problem already.
	for _, m := range s.Members {
		if m.One.DeletionTimestamp == nil {
			members = append(members, s.previewMember(m, all))
		}
	}
	return all, members, d.stop
}

func (s *Scope) previewMember(m *Member, all []plan.Wave) MemberPreview {
	p := MemberPreview{One: m.One, ClusterPreview: rollout.ClusterPreview{Cluster: m.Cluster, Group: m.group, Held: m.held}}
	if p.Cluster == nil {
		p.Cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: m.One.Name}}
	}
	if record := s.plannedRecord(m); record.Revision == RevisionOf(s.Set) {
		if p.Phase = record.Phase; !record.Empty {
			p.Since = record.Since
		}
	}
	if m.record != nil && m.record.Revision == RevisionOf(s.Set) {
		p.Record = m.record
		if m.record.Group != "" {
			p.Group = m.record.Group
		}
	}
	for i, wave := range all {
		if slices.Contains(wave.Clusters, m.One.Name) {
			p.Wave = i + 1
		}
	}
	switch {
	case m.blocked != nil:
		p.Blocked = []rollout.Problem{*m.blocked}
	case p.Phase == plan.Failed || p.Phase == plan.TimedOut:
		p.Failure = s.failureOf(m)
	}
	p.Unapproved = slices.Contains(s.Set.Status.Rollout.AwaitingApproval, p.Group)
	if m.closed && p.Phase == plan.ToApply {
		p.OpensAt = m.opensAt
	}
	return p
}

// BeganAt is when the version was started there, as text; empty if that is not known.
func (p *MemberPreview) BeganAt() string {
	if p.Record == nil {
		return ""
	}
	return p.Record.Began
}

// SoakedAt is when the version soaked there first, as text.
func (p *MemberPreview) SoakedAt() string {
	if p.Record == nil {
		return ""
	}
	return p.Record.Soaked
}
