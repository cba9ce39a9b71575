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

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// heartbeats remembers when this process saw each agent's Lease change: what counts is the hub's own clock,
// not the time that the agent wrote. Most renewals end here and wake nobody.
type heartbeats struct {
	mu       sync.Mutex
	clusters map[string]*heartbeat
	// armed receives when a deadline was set that expired has not looked at.
	armed chan struct{}
}

type heartbeat struct {
	// last is the Lease as last seen; empty if there is none.
	last string
	// renewed is set once the Lease has been seen to change; at is when that was last, else when this
	// process began to look.
	renewed bool
	at      time.Time
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

// verdict is what the hub knows of an agent.
type verdict struct {
	connected bool
	// seen: a Lease has been seen, now or ever before.
	seen bool
	// skew is what status.clockSkew is to say.
	skew *metav1.Duration
}

// observe notes a Lease and reports whether its Cluster has to be looked at for it. initial means that the
// Lease was there before this process looked: nobody can tell how old it is.
func (h *heartbeats) observe(lease *coordinationv1.Lease, initial bool, now time.Time) (wake bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	beat, known := h.clusters[lease.Namespace]
	if !known {
		beat = h.start(lease.Namespace, now)
	}
	seen := fingerprint(lease)
	if beat.last == seen {
		return false
	}
	beat.last = seen
	before := beat.version
	beat.version = lease.ResourceVersion
	if order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, before); err == nil && order < 0 {
		// The API server has gone back to an older state, which is no renewal.
		beat.renewed = false
		return true
	}
	if initial {
		return beat.quiet
	}
	first := !beat.renewed
	beat.renewed, beat.at = true, now
	if lease.Spec.RenewTime != nil {
		beat.skew.measure(lease.Spec.RenewTime.Sub(now))
	}
	return first || beat.quiet || beat.skew.moved()
}

// renewed tells whether this process has seen the cluster's Lease change.
func (h *heartbeats) renewed(cluster string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	beat, known := h.clusters[cluster]
	return known && beat.renewed
}

func (h *heartbeats) start(cluster string, now time.Time) *heartbeat {
	beat := &heartbeat{at: now, quiet: true}
	h.clusters[cluster] = beat
	return beat
}

func fingerprint(lease *coordinationv1.Lease) string {
	text := string(lease.UID)
	if lease.Spec.RenewTime != nil {
		text += lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	if lease.Spec.HolderIdentity != nil {
		text += *lease.Spec.HolderIdentity
	}
	return text
}

// judge says whether cluster's agent is connected. An agent that was connected when this process started
// stays so for one grace period: a new hub knows no better, and must not take its own absence for the agent's.
func (h *heartbeats) judge(cluster *v1alpha1.Cluster, now time.Time) verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	connected := meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	joined := meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition)
	if cluster.Status.Namespace == "" {
		// No agent can be at work: a Lease of that namespace is somebody else's.
		return verdict{seen: joined, skew: cluster.Status.ClockSkew}
	}
	beat, known := h.clusters[cluster.Name]
	if !known {
		beat = h.start(cluster.Name, now)
	}
	limit := grace(cluster)
	v := verdict{seen: joined || beat.renewed, skew: beat.skew.publish(cluster.Status.ClockSkew)}
	if beat.renewed || connected {
		v.connected = now.Sub(beat.at) < limit
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

// expired returns the clusters whose agents have just fallen silent, each once, and the time until the next may: 0 if
// none is watched.
func (h *heartbeats) expired(now time.Time) (silent []string, next time.Duration) {
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

// watch wakes each cluster at the moment when its agent has fallen silent, until ctx ends. A deadline that a renewal
// has moved on wakes nobody: nothing is looked at in vain, however many agents there are.
func (h *heartbeats) watch(ctx context.Context, clock clock.Clock, wake func(cluster string)) {
	for {
		silent, next := h.expired(clock.Now())
		for _, cluster := range silent {
			wake(cluster)
		}
		if !h.wait(ctx, clock, next) {
			return
		}
	}
}

// wait returns when it is time to look again, at the latest after next, and reports false when ctx has ended.
func (h *heartbeats) wait(ctx context.Context, clock clock.Clock, next time.Duration) bool {
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

func (h *heartbeats) forget(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clusters, cluster)
}

// grace is how long the agent may be silent.
func grace(cluster *v1alpha1.Cluster) time.Duration {
	return time.Duration(cluster.Heartbeat().GraceSeconds) * time.Second
}

// conditions of the agent, as the hub sees it.
func (v verdict) conditions(cluster *v1alpha1.Cluster) (joined, connected metav1.Condition) {
	joined = metav1.Condition{Type: v1alpha1.ClusterJoinedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNeverSeen,
		Message: "No agent of this cluster has reported yet"}
	connected = metav1.Condition{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNeverSeen,
		Message: joined.Message}
	if v.seen {
		joined.Status, joined.Reason, joined.Message = metav1.ConditionTrue, v1alpha1.ReasonReady, ""
		connected.Reason = v1alpha1.ReasonLeaseExpired
		connected.Message = "The agent has not renewed its Lease for " + grace(cluster).String()
	}
	if v.connected {
		connected.Status, connected.Reason, connected.Message = metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed, ""
	}
	return joined, connected
}
