package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// Promise is what the spec of a fleet said when a revision was started, and until when that holds: until a user has the revision
// started again. Every field of the spec that can keep a cluster from being started is in it, but for those that are there for a user
// to allow something in the middle, such as spec.paused and spec.adopt.
type Promise struct {
	plan.Promise
	RetriedAt time.Time `json:"retriedAt,omitzero"`

	// GroupSelectors choose the clusters of the groups, in their order; null chooses those of the Placement's group of the name.
	GroupSelectors        []*metav1.LabelSelector                `json:"groupSelectors,omitempty"`
	MaintenanceWindows    []v1alpha1.MaintenanceWindow           `json:"maintenanceWindows,omitempty"`
	MaintenanceExclusions []v1alpha1.MaintenanceExclusion        `json:"maintenanceExclusions,omitempty"`
	HealthConditions      []v1alpha1.MachineFleetHealthCondition `json:"healthConditions,omitempty"`
	// Choices are the ways in which windows and exclusions chose the clusters of the snapshot by the labels that they had, and
	// Chosen has the number of the choice of each, in the order of the clusters' names: 0*40 1 0*3 are forty, one and three.
	Choices []choice `json:"choices,omitempty"`
	Chosen  string   `json:"chosen,omitempty"`
}

// newPromise is what the spec promises if the revision is started now in members, by name.
func (s *Scope) newPromise(members map[string]string) *Promise {
	spec := &s.Fleet.Spec
	p := &Promise{
		RetriedAt:          s.plannedInput().RetriedAt,
		MaintenanceWindows: spec.MaintenanceWindows, MaintenanceExclusions: spec.MaintenanceExclusions, HealthConditions: spec.HealthConditions,
	}
	p.Promise = plan.Promise{
		Since: s.Now, Strategy: spec.RolloutStrategy, UnreachablePolicy: cmp.Or(spec.UnreachablePolicy, v1alpha1.UnreachableHold),
	}
	for _, group := range spec.Groups {
		p.Groups, p.GroupSelectors = append(p.Groups, group.Name), append(p.GroupSelectors, group.ClusterSelector)
		if group.Approval == v1alpha1.GroupApprovalRequired {
			p.Approval = append(p.Approval, group.Name)
		}
	}
	if s.windows != nil && len(p.MaintenanceWindows)+len(p.MaintenanceExclusions) > 0 {
		p.setChoices(s, members)
	}
	return p
}

// setChoices notes which windows and exclusions choose each member now.
func (p *Promise) setChoices(s *Scope, members map[string]string) {
	numbers, all := map[string]int{}, []int{}
	for _, m := range s.Members { // They are in the order of their names.
		if _, is := members[m.Cluster.Name]; !is {
			continue
		}
		c := s.windows.chooseFor(labels.Set(m.Cluster.Labels))
		number, known := numbers[c.choiceKey()]
		if !known {
			number = len(p.Choices)
			numbers[c.choiceKey()], p.Choices = number, append(p.Choices, c)
		}
		all = append(all, number)
	}
	p.Chosen = packRuns(all)
}

// choicesOf are the choices of the clusters of a snapshot, by name; nil if they are not known.
func (p *Promise) choicesOf(members map[string]string) map[string]choice {
	numbers := unpackRuns(p.Chosen, len(members))
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(numbers) != len(names) {
		return nil
	}
	found := map[string]choice{}
	for i, name := range names {
		if numbers[i] >= len(p.Choices) {
			return nil
		}
		c := p.Choices[numbers[i]]
		if !isWithin(c.Windows, len(p.MaintenanceWindows)) || !isWithin(c.Exclusions, len(p.MaintenanceExclusions)) {
			return nil
		}
		found[name] = c
	}
	return found
}

// isWithin reports whether all places are those of a list of so many entries.
func isWithin(places []int, entries int) bool {
	return !slices.ContainsFunc(places, func(place int) bool { return place < 0 || place >= entries })
}

// packRuns writes numbers as runs of equal ones.
func packRuns(numbers []int) string {
	var runs []string
	for i := 0; i < len(numbers); {
		end := i
		for end < len(numbers) && numbers[end] == numbers[i] {
			end++
		}
		run := strconv.Itoa(numbers[i])
		if end-i > 1 {
			run += "*" + strconv.Itoa(end-i)
		}
		runs, i = append(runs, run), end
	}
	return strings.Join(runs, " ")
}

// unpackRuns is the opposite of packRuns; nil if there is anything else, or more than so many numbers.
func unpackRuns(text string, most int) []int {
	all := []int{}
	for run := range strings.FieldsSeq(text) {
		number, times, several := strings.Cut(run, "*")
		n, err := strconv.Atoi(number)
		count := 1
		if several && err == nil {
			count, err = strconv.Atoi(times)
		}
		if err != nil || n < 0 || count < 1 || count > most-len(all) {
			return nil
		}
		all = append(all, slices.Repeat([]int{n}, count)...)
	}
	return all
}

// binding is a promise as it binds the clusters of a fleet.
type binding struct {
	*Promise
	windows *windows
	// selectors are those of the groups; nil if they are not known.
	selectors []labels.Selector
	choices   map[string]choice
	// common are the answers of both specs together, by the choices of both.
	common map[string]opening
}

// bindPromise reads what is kept of the spec with which the revision was started.
func (s *Scope) bindPromise(known Snapshot) *Problem {
	s.snapshot, s.unbound = known.members, known.unbound
	if known.promise == nil {
		return nil
	}
	s.promise = &binding{Promise: known.promise, choices: known.promise.choicesOf(known.members), common: map[string]opening{}}
	var invalid *Problem
	if s.promise.windows, invalid = readWindows(known.promise.MaintenanceWindows, known.promise.MaintenanceExclusions, s.Now); invalid != nil {
		invalid.Message = fmt.Sprintf("%s: its value from the start of the rollout can no longer be used: %s", invalid.Message, wayOut)
		return invalid
	}
	if invalid = s.promise.readSelectors(); invalid != nil {
		return invalid
	}
	for _, m := range slices.Concat(s.Members, s.Left) {
		s.applyPromise(m)
	}
	return nil
}

// readSelectors reads those of the groups. An older hub has not kept them.
func (b *binding) readSelectors() *Problem {
	if len(b.GroupSelectors) != len(b.Groups) {
		return nil
	}
	b.selectors = make([]labels.Selector, len(b.Groups))
	for i, from := range b.GroupSelectors {
		if from == nil {
			continue
		}
		var err error
		if b.selectors[i], err = metav1.LabelSelectorAsSelector(from); err != nil {
			return &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf(
				"spec.groups[%s].clusterSelector: its value from the start of the rollout can no longer be used: %v: %s", b.Groups[i], err, wayOut)}
		}
	}
	return nil
}

// groupOf is the group that a cluster has by the selectors with which the revision was started; nil if they are not known.
func (b *binding) groupOf(chosen *selection, cluster *v1alpha1.Cluster) *string {
	if b.selectors == nil {
		return nil
	}
	for i, group := range b.selectors {
		if group == nil && chosen.Groups[cluster.Name] == b.Groups[i] || group != nil && group.Matches(labels.Set(cluster.Labels)) {
			return &b.Groups[i]
		}
	}
	return new("")
}

// wayOut is what ends a promise.
const wayOut = "set spec.retriedAt (kubectl hollow rollout retry) to start by the current spec"

// applyPromise holds a member to its windows, exclusions and health conditions as they were when the revision was started, beside those
// of the spec as it is now.
func (s *Scope) applyPromise(m *Member) {
	if _, known := s.snapshot[m.Cluster.Name]; !known && s.snapshot != nil {
		m.promised = s.promise.groupOf(s.selection, m.Cluster)
	}
	then := s.promise.chooseWindows(m.Cluster)
	if isClosed := s.promise.windows.openingFor(then).closed; isClosed || m.closed {
		m.promisedClosed = !m.closed
		found := s.commonOpening(s.windows.chooseFor(labels.Set(m.Cluster.Labels)), then)
		m.closed, m.opensAt = true, found.opens
		s.lookAgain(found.again)
	}
	for _, why := range unhealthyConditions(s.promise.HealthConditions, m.Cluster) {
		if !slices.Contains(m.unhealthy, why) {
			m.unhealthy = append(m.unhealthy, why+" (so spec.healthConditions said when the rollout started; "+wayOut+")")
		}
	}
}

// commonOpening is what the windows of the spec as it is now and those that were promised say together.
func (s *Scope) commonOpening(present, promised choice) opening {
	key := present.choiceKey() + promised.choiceKey()
	found, known := s.promise.common[key]
	if !known {
		found = openingOf(s.Now, s.windows.hoursFor(present), s.promise.windows.hoursFor(promised))
		s.promise.common[key] = found
	}
	return found
}

// chooseWindows finds the windows and exclusions that a cluster had when the revision was started. One that came later has those for its
// labels now.
func (b *binding) chooseWindows(cluster *v1alpha1.Cluster) choice {
	if c, known := b.choices[cluster.Name]; known {
		return c
	}
	return b.windows.chooseFor(labels.Set(cluster.Labels))
}

// promisedHours are the windows that a cluster had when the revision was started.
func (s *Scope) promisedHours(cluster *v1alpha1.Cluster) hours {
	if s.promise == nil {
		return hours{{}}
	}
	return s.promise.windows.hoursFor(s.promise.chooseWindows(cluster))
}

// IsOpen reports whether the maintenance windows of a cluster are as they were for what waits for them.
func (s *Scope) IsOpen(w Write, fleet *v1alpha1.MachineFleet, cluster *v1alpha1.Cluster, now time.Time) bool {
	if !w.Begins && !w.RollsBack && !w.Removes || w.Member.closed {
		return true // It does not wait for one.
	}
	windows, invalid := newWindows(fleet, now)
	if invalid != nil {
		return false
	}
	present := windows.hoursFor(windows.chooseFor(labels.Set(cluster.Labels)))
	return !openingOf(now, present, s.promisedHours(cluster)).closed
}

// lookAgain has the next step taken no later than at a moment; zero is none.
func (s *Scope) lookAgain(at time.Time) {
	if !at.IsZero() && (s.SettlesAt.IsZero() || at.Before(s.SettlesAt)) {
		s.SettlesAt = at
	}
}

// readPromise reads a promise as it is kept; nil if it cannot be read.
func readPromise(text string) *Promise {
	promise := &Promise{}
	if json.Unmarshal([]byte(text), promise) != nil {
		return nil
	}
	return promise
}
