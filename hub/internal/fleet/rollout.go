package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// mostRollouts is how many rollouts of a fleet are kept.
	mostRollouts = 10
	// mostTurns is how many turns of a rollout are kept: the first, and the last ones.
	mostTurns = 40
	// longestTurn is how many characters the message of a turn has at most.
	longestTurn = 1024
	// largestRollout is how many bytes a record may take up: the annotations of an object may have 256 KiB together.
	largestRollout = 240 << 10
)

// Rollout is the record of one rollout of a revision, for a person to read. Times are in UTC and have whole seconds.
type Rollout struct {
	// Number is that of the template when the rollout started, and Revision its hash.
	Number   int64  `json:"number"`
	Revision string `json:"revision"`
	Started  string `json:"started"`
	// Superseded is when the fleet got another template; empty while it has this one.
	Superseded string `json:"superseded,omitempty"`
	// Turns are the changes of the fleet's Progressing condition.
	Turns []Turn `json:"turns,omitempty"`
	// Approvals are those by which groups were started.
	Approvals []Approved `json:"approvals,omitempty"`
	// Clusters are those in which the revision was started, by name.
	Clusters map[string]ClusterRollout `json:"clusters,omitempty"`
	// Omitted is how many clusters that succeeded are left out, because the record would be too large.
	Omitted int `json:"omitted,omitempty"`
}

// Turn is a moment at which a rollout changed its course.
type Turn struct {
	At      string `json:"at"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// ClusterRollout is what happened to a rollout in one cluster.
type ClusterRollout struct {
	Group   string `json:"group,omitempty"`
	Started string `json:"started,omitempty"`
	Soaked  string `json:"soaked,omitempty"`
	// Phase is how far the cluster came, and Since when it came there.
	Phase plan.Phase `json:"phase"`
	Since string     `json:"since"`
	// Failure is why it failed. It stays when the cluster is rolled back, tried again, or healthy again.
	Failure string `json:"failure,omitempty"`
	// Left is when the cluster left the fleet.
	Left string `json:"left,omitempty"`
}

// stored is a rollout with the object that keeps it; nil before it is written.
type stored struct {
	Rollout
	object *appsv1.ControllerRevision
	// dirty: it has changed since it was written. urgent: it is to be written at once.
	dirty, urgent bool
}

// Rollouts reads the records of a fleet's rollouts, the oldest first.
func Rollouts(ctx context.Context, reader client.Reader, namespace string, fleet *v1alpha1.MachineFleet) ([]Rollout, error) {
	found, err := storedRollouts(ctx, reader, namespace, fleet)
	var all []Rollout
	for _, r := range found {
		all = append(all, r.Rollout)
	}
	return all, err
}

func storedRollouts(ctx context.Context, reader client.Reader, namespace string, fleet *v1alpha1.MachineFleet) ([]*stored, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.FleetRolloutLabel: fleet.Name}); err != nil {
		return nil, fmt.Errorf("listing the rollouts of machine fleet %s: %w", fleet.Name, err)
	}
	var all []*stored
	for i := range list.Items {
		object := &list.Items[i]
		r := &stored{object: object}
		if metav1.IsControlledBy(object, fleet) && json.Unmarshal([]byte(object.Annotations[v1alpha1.FleetRolloutAnnotation]), &r.Rollout) == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *stored) int { return cmp.Compare(a.object.Revision, b.object.Revision) })
	return all, nil
}

// keepTimes takes over from the last record when the revision was started and soaked.
func (r *record) keepTimes(last *record, starts bool) {
	switch {
	case starts:
		r.Began = r.Since
	case last != nil && last.Revision == r.Revision:
		r.Began, r.Soaked = last.Began, last.Soaked
	}
	if r.Phase == plan.Soaking && r.Soaked == "" {
		r.Soaked = r.Since
	}
}

// formatTime is a moment as a record has it.
func formatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// stampOf is the moment of a field of a cluster's record; empty if it has none.
func stampOf(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return ""
	}
	return formatTime(at)
}

// noteMember records how far a member is.
func (r *stored) noteMember(s *scope, m *member) {
	if r.Clusters == nil {
		r.Clusters = map[string]ClusterRollout{}
	}
	last := r.Clusters[m.cluster.Name]
	now := ClusterRollout{
		Group: m.record.Group, Started: cmp.Or(stampOf(m.record.Began), last.Started), Soaked: stampOf(m.record.Soaked),
		Phase: m.record.Phase, Since: stampOf(m.record.Since), Failure: last.Failure,
	}
	failed := now.Phase == plan.Failed || now.Phase == plan.TimedOut || now.Phase == plan.RollbackFailed
	switch {
	case m.record.Cause != "":
		now.Failure = m.record.Cause
	case failed:
		now.Failure = conditions.Shorten(m.reasonOf(now.Phase).message, longestCause)
	}
	if failed && last.Phase == now.Phase && last.Since == now.Since && last.Failure != "" {
		now.Failure = last.Failure // Why it failed, and not what it says by now.
	}
	if !m.selected {
		now.Left = cmp.Or(last.Left, formatTime(s.now))
	}
	if now != last {
		r.Clusters[m.cluster.Name], r.dirty = now, true
	}
}

// noteTurn records how the fleet's Progressing condition has turned, with the clusters that had failed then.
func (r *stored) noteTurn(s *scope, progressing *metav1.Condition) {
	if progressing == nil || len(r.Turns) > 0 && r.Turns[len(r.Turns)-1].Reason == progressing.Reason {
		return
	}
	message := progressing.Message
	var failures []string
	for _, failure := range s.fleet.Status.Failures {
		if failures = append(failures, failure.Cluster+": "+failure.Reason+": "+failure.Message); len(failures) == 3 {
			break
		}
	}
	if len(failures) > 0 {
		message = conditions.Shorten(strings.Join(failures, "; "), longestTurn/2) + "; " + message
	}
	r.Turns = append(r.Turns, Turn{formatTime(s.now), progressing.Reason, conditions.Shorten(message, longestTurn)})
	if len(r.Turns) > mostTurns {
		r.Turns = slices.Delete(r.Turns, 1, 2)
	}
	r.dirty, r.urgent = true, true
}

// noteLeft records which clusters are not among the fleet's any more.
func (r *stored) noteLeft(s *scope, seen map[string]bool) {
	for name, cluster := range r.Clusters {
		if !seen[name] && cluster.Left == "" {
			cluster.Left = formatTime(s.now)
			r.Clusters[name], r.dirty = cluster, true
		}
	}
}

// recordText is the record as JSON. If it is too large, clusters that succeeded are left out and counted.
func (r *stored) recordText() (string, error) {
	written := r.Rollout
	text, err := json.Marshal(written)
	if err != nil || len(text) <= largestRollout {
		return string(text), err
	}
	written.Clusters = map[string]ClusterRollout{}
	size := largestRollout - len(text)
	names := make([]string, 0, len(r.Clusters))
	for name, cluster := range r.Clusters {
		names = append(names, name)
		size += entrySize(name, cluster)
	}
	// What needs a person comes first.
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Clusters[a].newsWeight(), r.Clusters[b].newsWeight()), cmp.Compare(a, b))
	})
	for _, name := range names {
		if size -= entrySize(name, r.Clusters[name]); size < 1024 {
			written.Omitted++
			continue
		}
		written.Clusters[name] = r.Clusters[name]
	}
	text, err = json.Marshal(written)
	return string(text), err
}

func entrySize(name string, cluster ClusterRollout) int {
	text, _ := json.Marshal(cluster) // It has texts only.
	return len(name) + len(text) + 4
}

// newsWeight orders clusters by how much there is to say of them.
func (c ClusterRollout) newsWeight() int {
	switch {
	case c.Failure != "":
		return 0
	case c.Phase != plan.Succeeded || c.Left != "":
		return 1
	}
	return 2
}
