package cluster

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// heartbeats remembers when this process saw each agent's Lease change: what counts is the hub's own clock,
// not the time that the agent wrote. Most renewals end here and wake no controller.
type heartbeats struct {
	mu       sync.Mutex
	clusters map[string]*heartbeat
	// armed receives when there is a deadline that the last call of expired did not take into account.
	armed chan struct{}
	// noteRenewal, if not nil, is told of each renewal that proves that the agent is there.
	noteRenewal func(cluster string, at time.Time)
}

type heartbeat struct {
	// last is the Lease as last seen, and holder who held it then; empty if there is none.
	last, holder string
	// renewed is set once a renewal proves that the agent is there; at is when the last one came, else when this process
	// started to look. hinted is set by one that proves nothing yet, and met stays once an agent was there.
	renewed, hinted, met bool
	at                   time.Time
	// version is the resource version of the Lease as last seen.
	version string
	// quiet: the agent counts as silent, so its next renewal is news.
	quiet bool
	// grace is how long the agent may be silent. It is watched while it counts as connected.
	grace   time.Duration
	watched bool
	skew    skew
}

func newHeartbeats() *heartbeats {
	return &heartbeats{clusters: map[string]*heartbeat{}, armed: make(chan struct{}, 1)}
}

// agentState is what the hub knows of an agent.
type agentState struct {
	connected bool
	// seen: a Lease has been seen, now or ever before.
	seen bool
	// noRole: the ClusterRole is missing that gives agents their rights.
	noRole bool
	// skew is what status.clockSkew is to say.
	skew *metav1.Duration
}

// observeLease notes a Lease and reports whether its Cluster has to be looked at for it. initial means that the
// Lease was there before this process looked: its age is not known.
func (h *heartbeats) observeLease(lease *coordinationv1.Lease, initial bool, now time.Time) (wake bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	beat, known := h.clusters[lease.Namespace]
	if !known {
		beat = h.startHeartbeat(lease.Namespace, now)
	}
	seen := fingerprintOf(lease)
	if beat.last == seen {
		return false
	}
	version, holder := beat.version, beat.holder
	beat.last, beat.version, beat.holder = seen, lease.ResourceVersion, ptr.Deref(lease.Spec.HolderIdentity, "")
	if order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, version); err == nil && order < 0 {
		// The API server has gone back to an older state, which is no renewal.
		beat.resetProof()
		return true
	}
	if initial {
		return beat.quiet
	}
	if !beat.provesAgent(holder, now) {
		return false
	}
	first := !beat.renewed
	beat.renewed, beat.met, beat.at = true, true, now
	if h.noteRenewal != nil {
		h.noteRenewal(lease.Namespace, now)
	}
	if lease.Spec.RenewTime != nil {
		beat.skew.measureSkew(lease.Spec.RenewTime.Sub(now))
	}
	return first || beat.quiet || beat.skew.hasMoved()
}

// provesAgent reports whether a renewal at now proves that the agent is there. before is who held the Lease until then.
//
// The first one after a silence, or after the start of this process, proves nothing if its holder is the one from before: it
// may have been under way since before a break of the connection, and arrive when that is over, while the agent has
// frozen and not said so yet. The next one is made by an agent that knows of the break, and that has written on the
// Cluster what follows from it. So is the first one of another holder.
func (b *heartbeat) provesAgent(before string, now time.Time) bool {
	if b.renewed && b.grace > 0 && now.Sub(b.at) >= b.grace {
		b.resetProof() // It was silent, and was not reconciled yet.
	}
	switch {
	case b.holder == "":
		return false // An agent that stops has given the Lease up.
	case b.renewed || b.hinted || b.holder != before:
		return true
	}
	b.hinted = true
	return false
}

// resetProof lets the agent prove again that it is there.
func (b *heartbeat) resetProof() { b.renewed, b.hinted = false, false }

// isRenewed reports whether this process has seen renewals that prove that the cluster's agent is there.
func (h *heartbeats) isRenewed(cluster string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	beat, known := h.clusters[cluster]
	return known && beat.renewed
}

func (h *heartbeats) startHeartbeat(cluster string, now time.Time) *heartbeat {
	beat := &heartbeat{at: now, quiet: true}
	h.clusters[cluster] = beat
	return beat
}

func fingerprintOf(lease *coordinationv1.Lease) string {
	text := string(lease.UID)
	if lease.Spec.RenewTime != nil {
		text += lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	return text + ptr.Deref(lease.Spec.HolderIdentity, "")
}

// evaluateAgent says whether cluster's agent is connected. An agent that was connected when this process started
// stays so for one grace period: a new hub knows no better, and must not take its own absence for the agent's.
func (h *heartbeats) evaluateAgent(cluster *v1alpha1.Cluster, now time.Time) agentState {
	h.mu.Lock()
	defer h.mu.Unlock()
	connected := meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	joined := meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition)
	if cluster.Status.Namespace == "" {
		// No agent can be at work: a Lease of that namespace is another client's.
		return agentState{seen: joined, skew: cluster.Status.ClockSkew}
	}
	beat, known := h.clusters[cluster.Name]
	if !known {
		beat = h.startHeartbeat(cluster.Name, now)
	}
	limit := gracePeriod(cluster)
	v := agentState{seen: joined || beat.met, skew: beat.skew.publishSkew(cluster.Status.ClockSkew)}
	if beat.renewed || connected {
		v.connected = now.Sub(beat.at) < limit
	}
	if beat.renewed && !v.connected {
		beat.resetProof()
	}
	if v.connected && (!beat.watched || beat.grace != limit) {
		select {
		case h.armed <- struct{}{}:
		default: // It is told already.
		}
	}
	beat.quiet, beat.watched, beat.grace = !v.connected, v.connected, limit
	return v
}

// expiredClusters returns the clusters whose agents have just fallen silent, each once, and the time until the next may: 0 if
// none is watched.
func (h *heartbeats) expiredClusters(now time.Time) (silent []string, next time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for cluster, beat := range h.clusters {
		if !beat.watched {
			continue
		}
		left := beat.at.Add(beat.grace).Sub(now)
		if left <= 0 {
			beat.watched = false
			silent = append(silent, cluster)
		} else if next == 0 || left < next {
			next = left
		}
	}
	return silent, next
}

// watchSilence wakes each cluster at the moment when its agent has fallen silent, until ctx ends. A deadline that a renewal
// has moved on wakes no controller: nothing is looked at in vain, however many agents there are.
func (h *heartbeats) watchSilence(ctx context.Context, clock clock.Clock, wake func(cluster string)) {
	for {
		silent, next := h.expiredClusters(clock.Now())
		for _, cluster := range silent {
			wake(cluster)
		}
		if !h.waitForNext(ctx, clock, next) {
			return
		}
	}
}

// waitForNext returns when it is time to look again, at the latest after next, and reports false when ctx has ended.
func (h *heartbeats) waitForNext(ctx context.Context, clock clock.Clock, next time.Duration) bool {
	var due <-chan time.Time
	if next > 0 {
		timer := clock.NewTimer(next)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
	case <-h.armed:
	}
	return true
}

func (h *heartbeats) forgetCluster(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clusters, cluster)
}

// forgetNamespace forgets the Lease of a namespace in which no Cluster was ever looked for: it was another client's. What is known of
// a Cluster's own agent stays, as its Lease may come back.
func (h *heartbeats) forgetNamespace(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if beat := h.clusters[namespace]; beat != nil && beat.grace == 0 {
		delete(h.clusters, namespace)
	}
}

// gracePeriod is how long the agent may be silent.
func gracePeriod(cluster *v1alpha1.Cluster) time.Duration {
	return time.Duration(cluster.Heartbeat().GraceSeconds) * time.Second
}

// heldState is what the hub knew before, while what the agent has written on cluster is still on its way here.
func (a agentState) heldState(cluster *v1alpha1.Cluster) agentState {
	a.seen = meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition)
	a.connected = meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	return a
}

// agentConditions of the agent, as the hub sees it.
func (a agentState) agentConditions(cluster *v1alpha1.Cluster) (joined, connected metav1.Condition) {
	joined = metav1.Condition{Type: v1alpha1.ClusterJoinedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNeverSeen,
		Message: "No agent of this cluster has reported yet"}
	connected = metav1.Condition{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNeverSeen,
		Message: joined.Message}
	if a.seen {
		joined.Status, joined.Reason, joined.Message = metav1.ConditionTrue, v1alpha1.ReasonReady, ""
		connected.Reason = v1alpha1.ReasonLeaseExpired
		connected.Message = "The agent has not renewed its Lease for " + gracePeriod(cluster).String()
	}
	if a.noRole {
		connected.Message += ". ClusterRole " + AgentRole + ", which gives agents their rights, does not exist on the hub: run hub install"
	}
	if a.connected {
		connected.Status, connected.Reason, connected.Message = metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed, ""
	}
	return joined, connected
}
