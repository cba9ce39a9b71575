package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// contest is about a MachineDeployment whose fields another field manager sets back each time that the fleet has corrected them.
type contest struct {
	// corrections is how many there were, the last of them at a time after which the next waits for delay.
	corrections int
	last        time.Time
	delay       time.Duration
	// fields are those that were corrected last, and managers those who had set them.
	fields, managers []string
}

func (c contest) retryAt() time.Time { return c.last.Add(c.delay) }

// contests remembers corrections until nobody has set them back for as long as the next one would have waited. The zero value is
// ready for use.
type contests struct {
	mu  sync.Mutex
	all map[place]contest
}

func (c *contests) contestAt(at place) (contest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, is := c.all[at]
	return found, is
}

// addCorrection notes a correction. The next one in the same cluster waits twice as long as this one did.
func (c *contests) addCorrection(at place, fields, managers []string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[place]contest{}
	}
	before := c.all[at]
	c.all[at] = contest{
		corrections: before.corrections + 1, last: now, delay: min(max(2*before.delay, FirstRetry), LastRetry), fields: fields, managers: managers,
	}
}

func (c *contests) endContest(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, at)
}

// forgetClusters ends what is not about clusters of a fleet any more.
func (c *contests) forgetClusters(fleet types.UID, has func(cluster string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.all {
		if at.fleet == fleet && !has(at.cluster) {
			delete(c.all, at)
		}
	}
}

// addContest reads what is remembered of a member. While the next correction waits, it is the time alone that ends that.
func (r *Observer) addContest(s *Scope, m *Member) {
	found, is := r.contests.contestAt(place{s.Fleet.UID, m.Cluster.Name})
	if !is {
		return
	}
	m.contest = &found
	s.lookAgain(found.retryAt())
}

// EndContests forgets those that are over: nobody has set the fields back when the next correction was due.
func (r *Observer) EndContests(s *Scope) {
	for _, m := range s.Members {
		if m.contest != nil && m.held == "" && !m.silent && !s.Now.Before(m.contest.retryAt()) && s.correctionOf(m) == nil {
			r.contests.endContest(place{s.Fleet.UID, m.Cluster.Name})
			m.contest = nil
		}
	}
	r.contests.forgetClusters(s.Fleet.UID, func(cluster string) bool {
		return slices.ContainsFunc(s.Members, func(m *Member) bool { return m.Cluster.Name == cluster })
	})
}

// isContested reports whether a correction has to wait: others have changed what the fleet wrote, and did so before. What the fleet itself
// wants to change is written at once.
func (m *Member) isContested(s *Scope, wanted, last *Applied) bool {
	return m.contest != nil && s.Now.Before(m.contest.retryAt()) && last.sameAs(wanted)
}

// sameAs reports whether both are the same.
func (a *Applied) sameAs(other *Applied) bool {
	if a == nil || other == nil {
		return false
	}
	left, err := json.Marshal(a)
	right, otherErr := json.Marshal(other)
	return err == nil && otherErr == nil && string(left) == string(right)
}

// NoteCorrection remembers a correction of what others have changed.
func (r *Observer) NoteCorrection(s *Scope, w Write, patch []byte) {
	m := w.Member
	if patch == nil || !readApplied(m.Deployment).sameAs(w.Content) {
		return
	}
	fields := ChangedFields(patch)
	r.contests.addCorrection(place{s.Fleet.UID, m.Cluster.Name}, fields, managersOf(m.Deployment, fields), s.Now)
}

// uncontested is the type of the fact that nobody fights with the fleet for a field.
const uncontested = "Uncontested"

// contestFact says who sets fields back that the fleet owns. A single edit that was corrected is none.
func (s *Scope) contestFact() metav1.Condition {
	fact := metav1.Condition{Type: uncontested, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady}
	var names []string
	for _, m := range s.Members {
		if m.contest == nil || m.contest.corrections < 2 {
			continue
		}
		if names = append(names, m.Cluster.Name); len(names) > 1 {
			continue
		}
		fact.Status, fact.Reason = metav1.ConditionFalse, v1alpha1.ReasonFieldsContested
		fact.Message = fmt.Sprintf("field manager %s keeps reverting %s of MachineDeployment %s/%s, which the fleet has corrected %d times; the next correction is at %s at the earliest: let only one of the two set the field",
			cmp.Or(reconciler.ListFew(m.contest.managers), "that is not known"), reconciler.ListFew(m.contest.fields), m.Cluster.Name, s.Fleet.Name,
			m.contest.corrections, m.contest.retryAt().UTC().Format(time.RFC3339))
	}
	if len(names) > 1 {
		fact.Message += "; in other clusters too: " + reconciler.ListFew(names[1:])
	}
	return fact
}

// managersOf are those, but for the fleet's own, who have set one of some fields of an object, the last one first.
func managersOf(object metav1.Object, fields []string) []string {
	entries := slices.Clone(object.GetManagedFields())
	slices.SortStableFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		if a.Time == nil || b.Time == nil {
			return 0
		}
		return b.Time.Compare(a.Time.Time)
	})
	var names []string
	for _, entry := range entries {
		var set map[string]any
		if entry.Manager == string(FieldOwner) || entry.Subresource != "" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		sets := slices.ContainsFunc(fields, func(field string) bool { return hasField(set, field) })
		if sets && !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
	}
	return names
}

// hasField reports whether a field is in managed fields. Its path is as changedFields has it.
func hasField(set map[string]any, path string) bool {
	for path != "" {
		var key string
		if bracketed, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]"); strings.HasPrefix(path, "[") && found {
			key, path = bracketed, strings.TrimPrefix(rest, ".")
		} else if at := strings.IndexAny(path, ".["); at >= 0 {
			key, path = path[:at], strings.TrimPrefix(path[at:], ".")
		} else {
			key, path = path, ""
		}
		below, is := set["f:"+key].(map[string]any)
		if !is {
			return false
		}
		set = below
	}
	return true
}
