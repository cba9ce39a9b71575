package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
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

// stored is a rollout as it is to be stored.
type stored struct {
	rollout.Rollout
	// dirty: it has changed since it was written. urgent: it is to be written at once.
	dirty, urgent bool
}

// noteMember records how far a member is.
func (r *stored) noteMember(s *rollout.Scope, m *rollout.Member) {
	if r.Clusters == nil {
		r.Clusters = map[string]rollout.ClusterRollout{}
	}
	last := r.Clusters[m.Cluster.Name]
	now := rollout.ClusterRollout{
		Group: m.Record.Group, Started: cmp.Or(rollout.StampOf(m.Record.Began), last.Started), Soaked: rollout.StampOf(m.Record.Soaked),
		Phase: m.Record.Phase, Since: rollout.StampOf(m.Record.Since), Failure: last.Failure,
	}
	failed := now.Phase == plan.Failed || now.Phase == plan.TimedOut || now.Phase == plan.RollbackFailed
	switch {
	case m.Record.Cause != "":
		now.Failure = m.Record.Cause
	case failed:
		now.Failure = conditions.Shorten(m.ReasonOf(now.Phase).Message, rollout.LongestCause)
	}
	if failed && last.Phase == now.Phase && last.Since == now.Since && last.Failure != "" {
		now.Failure = last.Failure // Why it failed, and not what it says by now.
	}
	if !m.Selected {
		now.Left = cmp.Or(last.Left, rollout.FormatTime(s.Now))
	}
	if now != last {
		r.Clusters[m.Cluster.Name], r.dirty = now, true
	}
}

// noteTurn records how the fleet's Progressing condition has turned, with the clusters that had failed then.
func (r *stored) noteTurn(s *rollout.Scope, progressing *metav1.Condition) {
	if progressing == nil || len(r.Turns) > 0 && r.Turns[len(r.Turns)-1].Reason == progressing.Reason {
		return
	}
	message := progressing.Message
	var failures []string
	for _, failure := range s.Fleet.Status.Failures {
		if failures = append(failures, failure.Cluster+": "+failure.Reason+": "+failure.Message); len(failures) == 3 {
			break
		}
	}
	if len(failures) > 0 {
		message = conditions.Shorten(strings.Join(failures, "; "), longestTurn/2) + "; " + message
	}
	r.Turns = append(r.Turns, rollout.Turn{At: rollout.FormatTime(s.Now), Reason: progressing.Reason, Message: conditions.Shorten(message, longestTurn)})
	if len(r.Turns) > mostTurns {
		r.Turns = slices.Delete(r.Turns, 1, 2)
	}
	r.dirty, r.urgent = true, true
}

// noteLeft records which clusters are not among the fleet's any more.
func (r *stored) noteLeft(s *rollout.Scope, seen map[string]bool) {
	for name, cluster := range r.Clusters {
		if !seen[name] && cluster.Left == "" {
			cluster.Left = rollout.FormatTime(s.Now)
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
	written.Clusters = map[string]rollout.ClusterRollout{}
	size := largestRollout - len(text)
	names := make([]string, 0, len(r.Clusters))
	for name, cluster := range r.Clusters {
		names = append(names, name)
		size += entrySize(name, cluster)
	}
	// What needs a person comes first.
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(newsWeight(r.Clusters[a]), newsWeight(r.Clusters[b])), cmp.Compare(a, b))
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

func entrySize(name string, cluster rollout.ClusterRollout) int {
	text, _ := json.Marshal(cluster) // It has texts only.
	return len(name) + len(text) + 4
}

// newsWeight orders clusters by how much there is to say of them.
func newsWeight(c rollout.ClusterRollout) int {
	switch {
	case c.Failure != "":
		return 0
	case c.Phase != plan.Succeeded || c.Left != "":
		return 1
	}
	return 2
}
