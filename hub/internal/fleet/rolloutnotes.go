package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
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

// mostApproved is how many approvals the record of a rollout has.
const mostApproved = 256

// noteApprovals records who has approved the groups that need it, and who took that back.
func (c *Controller) noteApprovals(ctx context.Context, s *rollout.Scope, r *stored) {
	for _, a := range s.Approvals {
		known := slices.ContainsFunc(r.Approvals, func(old rollout.Approved) bool { return old.Approval == a.Name })
		if known || len(r.Approvals) >= mostApproved || !s.NeedsApproval(a.Group) {
			continue
		}
		r.Approvals = append(r.Approvals, rollout.Approved{
			Group: a.Group, By: a.By, At: rollout.FormatTime(a.Created), Approval: a.Name, Rollout: a.Rollout, Claimed: !c.isApproverChecked(ctx, a),
		})
		r.dirty, r.urgent = true, true
	}
	gated := s.GatedGroups()
	for i := range r.Approvals {
		old := &r.Approvals[i]
		if !slices.Contains(gated, old.Group) {
			continue
		}
		there := slices.ContainsFunc(s.Approvals, func(a rollout.Approval) bool { return a.Name == old.Approval })
		if old.Approval != "" && old.Rollout == s.Rollout && old.TakenBack == "" && !there {
			old.TakenBack, r.dirty = rollout.FormatTime(s.Now), true
		}
	}
}

// isApproverChecked reports whether the admission policy was in force when an approval was given: it holds the approver's name to that of
// the user. A policy that was created later proves nothing.
func (c *Controller) isApproverChecked(ctx context.Context, a rollout.Approval) bool {
	for _, object := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
		err := c.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ApprovalPolicy}, object)
		if err != nil || object.GetCreationTimestamp().After(a.Created) {
			return false
		}
	}
	return true
}
