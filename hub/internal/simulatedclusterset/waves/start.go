package waves

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// largestStart is how many bytes a Start may take up in the status.
const largestStart = 400 << 10

// Start is what a rollout keeps to from its first cluster on, whatever the spec says later: status.rollout.started.
type Start struct {
	// Rollout is the number of the rollout.
	Rollout int64 `json:"rollout"`
	plan.Promise
	// Selectors are the groups with their selectors, and the others the windows and exclusions.
	Selectors             []v1alpha1.MachineFleetGroup    `json:"selectors,omitempty"`
	MaintenanceWindows    []v1alpha1.MaintenanceWindow    `json:"maintenanceWindows,omitempty"`
	MaintenanceExclusions []v1alpha1.MaintenanceExclusion `json:"maintenanceExclusions,omitempty"`
	// Members are the clusters that there were, by name.
	Members map[string]StartMember `json:"members,omitempty"`
}

// StartMember is what a cluster had when the rollout started.
type StartMember struct {
	Group string `json:"group,omitempty"`
	rollout.Choice
}

// binding is a Start as it binds the members.
type binding struct {
	*Start
	calendar *rollout.Calendar
}

const wayOut = "set spec.rollout.retriedAt (kubectl hollow rollout retry) to start by the current spec"

// newStart is what is promised if the version is started now.
func (s *Scope) newStart() *Start {
	spec := &s.Set.Spec.Rollout
	started := &Start{
		Rollout: NumberOf(s.Set), Promise: plan.Promise{Since: s.Now, Strategy: spec.RolloutStrategy, UnreachablePolicy: cmp.Or(spec.UnreachablePolicy, v1alpha1.UnreachableHold)},
		Selectors: spec.Groups, MaintenanceWindows: spec.MaintenanceWindows, MaintenanceExclusions: spec.MaintenanceExclusions, Members: map[string]StartMember{},
	}
	for _, group := range spec.Groups {
		started.Groups = append(started.Groups, group.Name)
		if group.Approval == v1alpha1.GroupApprovalRequired {
			started.Approval = append(started.Approval, group.Name)
		}
	}
	for _, m := range s.Members {
		if m.One.DeletionTimestamp == nil {
			started.Members[m.One.Name] = StartMember{Group: m.group, Choice: s.calendar.Choose(s.labelsOf(m))}
		}
	}
	return started
}

// Raw is a Start as the status has it. An error says why it cannot be kept: then nothing may be started.
func (s *Start) Raw() (*runtime.RawExtension, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing what the rollout keeps to as text: %w", err)
	}
	if len(text) > largestStart {
		return nil, fmt.Errorf("what the rollout keeps to has %d KiB, and %d KiB can be kept: shorten spec.rollout", len(text)>>10, largestStart>>10)
	}
	return &runtime.RawExtension{Raw: text}, nil
}

// bindStart reads what is kept of the rollout; nil if nothing is. What is kept of another rollout does not count.
func (s *Scope) bindStart() (*binding, *rollout.Problem) {
	raw := s.Set.Status.Rollout.Started
	if raw == nil {
		return nil, nil
	}
	started := &Start{}
	if json.Unmarshal(raw.Raw, started) != nil || started.Rollout != NumberOf(s.Set) {
		return nil, nil
	}
	calendar, wrong := rollout.NewCalendar(started.MaintenanceWindows, started.MaintenanceExclusions, s.Now)
	if wrong != nil {
		wrong.Message = fmt.Sprintf("%s: its value from the start of the rollout can no longer be used: %s", wrong.Message, wayOut)
		return nil, wrong
	}
	return &binding{Start: started, calendar: calendar}, nil
}

// snapshot is the groups of the clusters that there were.
func (b *binding) snapshot() map[string]string {
	groups := map[string]string{}
	for name, member := range b.Members {
		groups[name] = member.Group
	}
	return groups
}

// groupOf is the group that a cluster had, or would have had, when the rollout started.
func (b *binding) groupOf(name string, has labels.Set) *string {
	if member, known := b.Members[name]; known {
		return &member.Group
	}
	return new(groupOf(b.Selectors, has))
}

// choiceOf is how windows and exclusions chose a cluster when the rollout started. One that came later has those for its labels now.
func (b *binding) choiceOf(name string, has labels.Set) rollout.Choice {
	if member, known := b.Members[name]; known && b.calendar.Has(member.Choice) {
		return member.Choice
	}
	return b.calendar.Choose(has)
}

// isClosed reports whether nothing is started in a cluster now, by the windows as they are and as they were; and when that is over.
func (s *Scope) isClosed(name string, has labels.Set) (closed bool, opens time.Time) {
	if s.started == nil {
		return s.calendar.IsClosed(s.calendar.Choose(has), nil, rollout.Choice{})
	}
	return s.calendar.IsClosed(s.calendar.Choose(has), s.started.calendar, s.started.choiceOf(name, has))
}

// IsOpen reports whether the maintenance windows allow a start in a member at a moment.
func (s *Scope) IsOpen(m *Member, now time.Time) bool {
	again := &Scope{Set: s.Set, Now: now}
	again.readGates()
	if again.invalid != nil {
		return false
	}
	closed, _ := again.isClosed(m.One.Name, s.labelsOf(m))
	return !closed
}

// IsApproved reports whether a member may be started with these of the approvals.
func (s *Scope) IsApproved(m *Member, approvals []Approval) bool {
	again := *s
	again.Approvals = approvals
	in := again.planInput(false)
	return in.AwaitedGroup(s.plannedCluster(m)) == ""
}

// NeedsApproval reports whether a member is started by an approval only.
func (s *Scope) NeedsApproval(m *Member) bool {
	return s.planInput(false).NeedsApproval(s.plannedCluster(m))
}

// GatedGroups are the groups whose approval may matter; none if no group needs one.
func (s *Scope) GatedGroups() []string {
	var all []string
	gated := false
	for _, group := range s.Set.Spec.Rollout.Groups {
		gated = gated || group.Approval == v1alpha1.GroupApprovalRequired
		all = append(all, group.Name)
	}
	if started, _ := s.bindStart(); started != nil && len(started.Approval) > 0 {
		all, gated = append(all, started.Approval...), true
	}
	if !gated {
		return nil
	}
	slices.Sort(all)
	return slices.Compact(all)
}
