// Package hubidentity keeps the agent from working for a hub that is not the one that it knows.
//
// # What is compared
//
// The agent remembers the UID of its Cluster and the last renewal of its Lease that the hub has confirmed. A hub that
// shows another UID, that shows an older renewal or none, or that has no Machine at all although the cluster has
// instances, is strange: it may be new, empty, or restored from a backup. What it says is then no ground to act on,
// and the agent is frozen until a person acknowledges the hub. Where there are no instances there is nothing to lose,
// and no person is asked. policy.go decides this and is pure.
//
// # When
//
// A renewal that follows on one which the hub has confirmed is itself a proof: it would meet a conflict on a hub that
// has lost that one. Every other one, such as the first of a process, makes the agent look at what the hub shows
// before it is overwritten (Meet). The agent is frozen from then on until that is judged, and says so on the Cluster
// before it renews. So does everything that a hub's order makes the agent do (Verify): between a restore of the hub
// and the next renewal nothing is done for it.
//
// # What survives
//
// The memory is a ConfigMap in the namespace of the hollow-node pods. It is written also while the agent is frozen,
// and nothing else is. Until the judgement is stored there, the Lease itself keeps what it showed, in an annotation:
// an agent that dies in between finds it again.
//
// # When the hub denies the agent
//
// An API server checks rights only when a watch starts: one that was open when the agent lost its rights continues. So
// Denial ends the agent's own watches, and the agent does nothing on the hub but probe it, until the hub lets it in
// again.
package hubidentity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// idLength is how much of a hash tells findings of one cluster apart.
const idLength = 12

// Hub is what tells one hub, and one state of it, from another.
type Hub struct {
	// ClusterUID is the UID of the agent's own Cluster. It is empty of a hub that is not known.
	ClusterUID string `json:"clusterUID,omitempty"`
	// Renewed is the last renewal of the cluster's Lease that the hub has confirmed, or that it shows: as the agent
	// wrote it, whatever its clock said. Zero if there is none.
	Renewed time.Time `json:"renewed,omitzero"`
}

// Known reports whether there is a hub at all.
func (h Hub) Known() bool { return h.ClusterUID != "" }

// Mismatch tells why seen is not h a moment later, as a reason of package v1alpha1; empty if it may well be. An
// unknown hub continues as any.
func (h Hub) Mismatch(seen Hub) (strange string) {
	switch {
	case !h.Known():
		return ""
	case h.ClusterUID != seen.ClusterUID:
		return v1alpha1.ReasonHubChanged
	case seen.Renewed.Before(h.Renewed):
		return v1alpha1.ReasonHubRestored
	}
	return ""
}

// Memory is what an agent remembers of its hub. It is stored in the workload cluster.
type Memory struct {
	// Hub is the one that the agent works for.
	Hub Hub `json:"hub,omitzero"`
	// EmptyAccepted: a person knows that this hub has no Machines although the cluster has instances.
	EmptyAccepted bool `json:"emptyAccepted,omitempty"`
	// Finding waits for a person; nil if none does.
	Finding *Finding `json:"finding,omitempty"`
}

// Current is the hub that the agent is connected to: the one that it works for, or the strange one.
func (m *Memory) Current() *Hub {
	if m.Finding != nil {
		return &m.Finding.Hub
	}
	return &m.Hub
}

// Finding is a hub that is not the one that the agent knows.
type Finding struct {
	// ID tells it from every other finding.
	ID string `json:"id"`
	// Reason is one of HubChanged, HubRestored and HubEmpty.
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	Hub     Hub       `json:"hub"`
}

// Observation is what can be seen now.
type Observation struct {
	// Cluster is the agent's cluster, for messages.
	Cluster string
	Hub     Hub
	// Machines are those that the hub lists, or some of them: none only if there is none. Instances are all that
	// the cluster has of Machines, without those that are being removed.
	Machines, Instances int
	// Acknowledged is the finding that a person has acknowledged last.
	Acknowledged string
	// Nonce is different each time.
	Nonce string
	Now   time.Time
}

// Outcome is what came of a look at the hub.
type Outcome string

// The outcomes.
const (
	// Unchanged: what held before holds.
	Unchanged Outcome = "Unchanged"
	// Met: the agent did not know any hub, and knows this one from now on.
	Met Outcome = "Met"
	// NothingToLose: the hub is strange and the cluster has no instances, so the agent works for it from now on.
	NothingToLose Outcome = "NothingToLose"
	// Found: the hub is strange, or strange in another way than before.
	Found Outcome = "Found"
	// Back: the hub that the agent knows is back.
	Back Outcome = "Back"
	// Acknowledged: a person has acknowledged the strange hub.
	Acknowledged Outcome = "Acknowledged"
)

// changes are the outcomes that are counted: all but Unchanged.
var changes = []Outcome{Met, NothingToLose, Found, Back, Acknowledged}

// Evaluate holds what is seen against what is remembered, and returns what to remember from now on.
func Evaluate(m Memory, s Observation) (Memory, Outcome) {
	if s.Instances == 0 {
		return nothingToLose(m, s)
	}
	if m.Finding != nil {
		return keepFinding(m, s)
	}
	if strange := m.describeMismatch(s); strange != "" {
		return addFinding(m, s, strange), Found
	}
	outcome := Unchanged
	if !m.Hub.Known() {
		outcome = Met
	}
	return Memory{Hub: s.Hub, EmptyAccepted: m.EmptyAccepted && s.Machines == 0}, outcome
}

// describeMismatch tells why the hub is not the one that the agent works for; empty if it is.
func (m *Memory) describeMismatch(s Observation) string {
	if strange := m.Hub.Mismatch(s.Hub); strange != "" {
		return strange
	}
	if s.Machines == 0 && s.Instances > 0 && !m.EmptyAccepted {
		return v1alpha1.ReasonHubEmpty
	}
	return ""
}

func nothingToLose(m Memory, s Observation) (Memory, Outcome) {
	outcome := Unchanged
	switch {
	case m.Finding != nil || m.Hub.Mismatch(s.Hub) != "":
		outcome = NothingToLose
	case !m.Hub.Known():
		outcome = Met
	}
	return Memory{Hub: s.Hub}, outcome
}

// keepFinding keeps a finding until a person has acknowledged this very one, or it does not describe the hub any more.
func keepFinding(m Memory, s Observation) (Memory, Outcome) {
	strange := m.Finding.Hub.Mismatch(s.Hub)
	switch {
	case strange == "" && s.Acknowledged == m.Finding.ID:
		return Memory{Hub: s.Hub, EmptyAccepted: s.Machines == 0}, Acknowledged
	case strange == "":
		kept := *m.Finding
		kept.Hub = s.Hub
		m.Finding = &kept
		return m, Unchanged
	case m.Hub.Known() && s.Hub.ClusterUID != m.Finding.Hub.ClusterUID && m.describeMismatch(s) == "":
		// It is not the strange hub in another state of its own.
		return Memory{Hub: s.Hub, EmptyAccepted: m.EmptyAccepted && s.Machines == 0}, Back
	}
	if against := m.describeMismatch(s); against != "" {
		strange = against
	}
	return addFinding(m, s, strange), Found
}

func addFinding(m Memory, s Observation, reason string) Memory {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%v\n%v\n%s", reason, m.Hub, s.Hub, s.Nonce))
	m.Finding = &Finding{
		ID: hex.EncodeToString(sum[:])[:idLength], Reason: reason, Since: s.Now, Hub: s.Hub,
		Message: describeFinding(m.Hub, s, reason),
	}
	return m
}

// describeFinding says what was found, and what ends the freeze.
func describeFinding(known Hub, s Observation, reason string) string {
	text := ""
	switch reason {
	case v1alpha1.ReasonHubChanged:
		text = fmt.Sprintf("Cluster %s is not the Cluster that this agent knows: its UID is %s and was %s, so it was recreated, or this is another hub",
			s.Cluster, s.Hub.ClusterUID, known.ClusterUID)
	case v1alpha1.ReasonHubRestored:
		text = fmt.Sprintf("the hub is older than before: it had confirmed a renewal of the Lease of cluster %s at %s, and now has %s; it was restored from a backup, or has lost the Lease",
			s.Cluster, formatTime(known.Renewed), describeRenewal(s.Hub.Renewed))
	case v1alpha1.ReasonHubEmpty:
		text = fmt.Sprintf("the hub has no Machine of cluster %s any more", s.Cluster)
	}
	if s.Machines == 0 && reason != v1alpha1.ReasonHubEmpty {
		text += ", and it has no Machine of the cluster"
	}
	return fmt.Sprintf("%s. The cluster has %s, which stay unchanged. Nothing is created or deleted until you have checked the hub and run: kubectl hollow cluster acknowledge %s",
		text, countInstances(s.Instances), s.Cluster)
}

func countInstances(n int) string {
	if n == 1 {
		return "1 instance of a Machine"
	}
	return fmt.Sprintf("%d instances of Machines", n)
}

func describeRenewal(renewed time.Time) string {
	if renewed.IsZero() {
		return "shows no Lease"
	}
	return "shows one of " + formatTime(renewed)
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "no time at all"
	}
	return t.UTC().Format(time.RFC3339)
}
