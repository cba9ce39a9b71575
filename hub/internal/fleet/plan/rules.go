package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// unlimited is how many clusters may be in progress at once where nothing bounds it.
const unlimited = math.MaxInt32

// rules are a RolloutStrategy as the planner uses it.
type rules struct {
	// limit is how many clusters may be in progress at once.
	limit int
	// soak is minSuccessTime; deadline is progressDeadline, 0 for none.
	soak, deadline time.Duration
	// failures is how many clusters may fail, outside of mandatory groups.
	failures intstr.IntOrString
	waves    []wave
}

// wave is a set of clusters that all have to be over before a cluster of the next wave is started.
type wave struct {
	groups []string
	// except: the wave has all clusters but those of its groups.
	except bool
	// mandatory: no cluster may fail. unbounded: any number of them may.
	mandatory, unbounded bool
	// ofAll: a percentage of failures is of all clusters, not of the wave's.
	ofAll bool
}

func (w wave) hasGroup(group string) bool { return slices.Contains(w.groups, group) != w.except }

// maxFailures is how many clusters of a wave may fail. members are the groups of the clusters on which percentages rest, by name.
func (w wave) maxFailures(failures intstr.IntOrString, members map[string]string) int {
	if w.mandatory {
		return 0
	}
	total := 0
	for _, group := range members {
		if w.ofAll || w.hasGroup(group) {
			total++
		}
	}
	if w.unbounded {
		return total
	}
	// What may fail is rounded down: 10% of 5 clusters is none.
	n, _ := readAmount(failures, total, false)
	return n
}

// policyFor is what holds for c. No wave follows a mandatory group that has not proven the template, so there Skip is Hold. No
// wave waits for a cluster that has left.
func policyFor(c Cluster, policy v1alpha1.UnreachablePolicy, all []*gates) v1alpha1.UnreachablePolicy {
	mandatory := slices.ContainsFunc(all, func(g *gates) bool { return g.isMandatory(c) })
	switch {
	case !c.Unreachable || c.Left:
		return ""
	case policy == v1alpha1.UnreachableFail, policy == v1alpha1.UnreachableSkip && !mandatory:
		return policy
	}
	return v1alpha1.UnreachableHold
}

// newRules reads a strategy for a fleet of so many clusters.
func newRules(s ocm.RolloutStrategy, groups []string, total int) (rules, error) {
	if err := onlyItsOwn(s); err != nil {
		return rules{}, err
	}
	switch s.Type {
	case ocm.All, "":
		r := rules{limit: unlimited, waves: []wave{{except: true, unbounded: true}}}
		if s.All == nil {
			return r, nil
		}
		var err error
		r.deadline, err = readDeadline("all", s.All.ProgressDeadline)
		return r, err
	case ocm.Progressive:
		return progressiveRules(s, groups, total)
	case ocm.ProgressivePerGroup:
		return perGroup(s, groups)
	}
	return rules{}, fmt.Errorf("rolloutStrategy.type: %q is unknown; use All, Progressive or ProgressivePerGroup", s.Type)
}

// onlyItsOwn refuses a strategy with the settings of another type, which would do nothing.
func onlyItsOwn(s ocm.RolloutStrategy) error {
	chosen := s.Type
	if chosen == "" {
		chosen = ocm.All
	}
	for _, part := range []struct {
		set   bool
		of    ocm.RolloutType
		field string
	}{
		{s.All != nil, ocm.All, "all"},
		{s.Progressive != nil, ocm.Progressive, "progressive"},
		{s.ProgressivePerGroup != nil, ocm.ProgressivePerGroup, "progressivePerGroup"},
	} {
		if part.set && part.of != chosen {
			return fmt.Errorf("rolloutStrategy.%s: it has no effect with type %s; remove it, or set type to %s", part.field, chosen, part.of)
		}
	}
	return nil
}

func progressiveRules(s ocm.RolloutStrategy, groups []string, total int) (rules, error) {
	if s.Progressive == nil {
		return rules{}, fmt.Errorf("rolloutStrategy.progressive: missing; set at least its maxConcurrency")
	}
	p := s.Progressive
	r, err := readSettings("progressive", p.RolloutConfig)
	if err != nil {
		return rules{}, err
	}
	limit, err := readAmount(p.MaxConcurrency, total, true)
	if err != nil || limit == 0 && total > 0 {
		return rules{}, fmt.Errorf("rolloutStrategy.progressive.maxConcurrency: %q is not a count above 0 or a percentage from 1%% to 100%%; "+
			"set how many clusters may be in progress at once", p.MaxConcurrency.String())
	}
	r.limit = limit
	first, err := r.addMandatory("progressive", p.MandatoryDecisionGroups.MandatoryDecisionGroups, groups)
	if err != nil {
		return rules{}, err
	}
	r.waves = append(r.waves, wave{groups: first, except: true, ofAll: true})
	return r, nil
}

func perGroup(s ocm.RolloutStrategy, groups []string) (rules, error) {
	p := s.ProgressivePerGroup
	if p == nil {
		p = &ocm.RolloutProgressivePerGroup{}
	}
	r, err := readSettings("progressivePerGroup", p.RolloutConfig)
	if err != nil {
		return rules{}, err
	}
	r.limit = unlimited
	first, err := r.addMandatory("progressivePerGroup", p.MandatoryDecisionGroups.MandatoryDecisionGroups, groups)
	if err != nil {
		return rules{}, err
	}
	for _, group := range groups {
		if !slices.Contains(first, group) {
			r.waves = append(r.waves, wave{groups: []string{group}})
		}
	}
	// Clusters in no group are a wave of their own.
	r.waves = append(r.waves, wave{groups: groups, except: true})
	return r, nil
}

// readSettings reads what both progressive types have.
func readSettings(field string, c ocm.RolloutConfig) (rules, error) {
	if c.MinSuccessTime.Duration < 0 {
		return rules{}, fmt.Errorf("rolloutStrategy.%s.minSuccessTime: %s is negative; use 0 or more", field, c.MinSuccessTime.Duration)
	}
	if _, err := readAmount(c.MaxFailures, 1, false); err != nil {
		return rules{}, fmt.Errorf("rolloutStrategy.%s.maxFailures: %w", field, err)
	}
	within, err := readDeadline(field, c.ProgressDeadline)
	return rules{soak: c.MinSuccessTime.Duration, deadline: within, failures: c.MaxFailures}, err
}

// readDeadline reads a progressDeadline. Open Cluster Management's own pattern for it lets values pass that are none, such
// as 5m-or-so.
func readDeadline(field, value string) (time.Duration, error) {
	if value == "" || value == "None" {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("rolloutStrategy.%s.progressDeadline: %q is not None or a duration above 0 such as 90m; correct it", field, value)
	}
	return d, nil
}

// addMandatory adds a wave for each mandatory group, in their order, and returns the names of the groups.
func (r *rules) addMandatory(field string, wanted []ocm.MandatoryDecisionGroup, groups []string) ([]string, error) {
	var names []string
	for i, m := range wanted {
		at := fmt.Sprintf("rolloutStrategy.%s.mandatoryDecisionGroups[%d]", field, i)
		switch {
		case m.GroupName == "":
			return nil, fmt.Errorf("%s.groupName: empty; name the group, because an index changes its meaning when groups change", at)
		case !slices.Contains(groups, m.GroupName):
			return nil, fmt.Errorf("%s.groupName: unknown group %q; the groups are %q", at, m.GroupName, groups)
		case slices.Contains(names, m.GroupName):
			return nil, fmt.Errorf("%s.groupName: %q is listed twice; remove one", at, m.GroupName)
		}
		names = append(names, m.GroupName)
		r.waves = append(r.waves, wave{groups: []string{m.GroupName}, mandatory: true})
	}
	return names, nil
}

// MandatoryGroups are the names of a strategy's mandatory groups, in their order.
func MandatoryGroups(s ocm.RolloutStrategy) []string {
	var wanted []ocm.MandatoryDecisionGroup
	switch {
	case s.Type == ocm.Progressive && s.Progressive != nil:
		wanted = s.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
	case s.Type == ocm.ProgressivePerGroup && s.ProgressivePerGroup != nil:
		wanted = s.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups
	}
	var names []string
	for _, m := range wanted {
		names = append(names, m.GroupName)
	}
	return names
}

// readAmount reads a count or a percentage of total.
func readAmount(value intstr.IntOrString, total int, up bool) (int, error) {
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return 0, fmt.Errorf("%d is negative; use a count of 0 or more, or a percentage from 0%% to 100%%", value.IntVal)
		}
		return int(value.IntVal), nil
	}
	digits, isPercentage := strings.CutSuffix(value.StrVal, "%")
	percent, err := strconv.ParseUint(digits, 10, 32)
	switch {
	case err == nil && !isPercentage && percent <= math.MaxInt32:
		return int(percent), nil
	case err != nil || percent > 100:
		return 0, fmt.Errorf("%q is neither a count nor a percentage; use a count of 0 or more, or a percentage from 0%% to 100%%", value.StrVal)
	}
	scaled := int(percent) * total
	if up {
		scaled += 99
	}
	return scaled / 100, nil
}
