package waves

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

// MemberPreview is a SimulatedCluster of a set, for a user to see.
type MemberPreview struct {
	rollout.ClusterPreview

	One *v1alpha1.SimulatedCluster
	// Record is what the hub noted of the version there; nil for nothing.
	Record *rollout.Record
}

// NewPreviewScope is what a user who may read them knows of a set: its SimulatedClusters, and what their Clusters and those of their hosts
// say. clusterNamed returns nil for a Cluster that does not exist.
func NewPreviewScope(set *v1alpha1.SimulatedClusterSet, ones []*v1alpha1.SimulatedCluster, clusterNamed func(string) *v1alpha1.Cluster, now time.Time) *Scope {
	s := &Scope{Set: set, Now: now, Frozen: freeze.OfAnnotation("SimulatedClusterSet", set)}
	for _, one := range ones {
		cluster := clusterNamed(one.Name)
		s.Members = append(s.Members, &Member{One: one, Cluster: cluster, Host: reportedFreeze(clusterNamed(one.Namespace)), Agent: reportedFreeze(cluster)})
	}
	return s
}

// reportedFreeze is what a Cluster says of its freeze.
func reportedFreeze(cluster *v1alpha1.Cluster) freeze.Verdict {
	if cluster == nil {
		return freeze.Verdict{}
	}
	frozen := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.FrozenCondition)
	if frozen == nil || frozen.Status != metav1.ConditionTrue {
		return freeze.Verdict{}
	}
	return freeze.Verdict{Frozen: true, Reason: frozen.Reason, Message: cmp.Or(frozen.Message, "Cluster "+cluster.Name+" is frozen")}
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
