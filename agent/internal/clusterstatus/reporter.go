// Package clusterstatus tells the hub about the agent and its cluster: a Lease, renewed every heartbeat, and the
// agent's part of the Cluster's status, written only when it changes.
//
// It works with a client of its own that the freeze gate does not stop: a frozen agent that falls silent could
// not be told from a dead one.
package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/checks"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// fieldManager owns the agent's part of the status.
	fieldManager = "hollowfleet-agent"
	// statusInterval is how often the status is held against what is known.
	statusInterval = 10 * time.Second
	// waiting is how soon to look again for a Cluster that is not ready for reports.
	waiting = time.Second
	// longestWrite bounds one write to the hub, longestReturn a renewal after a break: that is three reads and two writes,
	// each of which may take about as long as a probe that still succeeds.
	longestWrite, longestReturn = 10 * time.Second, 25 * time.Second
)

// Deps are what a Reporter works with. All are required but SimulatedClusters and Log.
type Deps struct {
	// Client is an uncached client of the hub, not gated.
	Client client.Client
	// Last is the agent's Cluster as it was seen last; none while the hub shuts the agent out.
	Last  clients.ClusterCache
	Facts Facts
	// Freeze is the freeze monitor, and Changes receives after its state changed.
	Freeze  Freeze
	Changes <-chan struct{}
	// HubIdentity knows whether the hub is the one that the agent works for.
	HubIdentity HubIdentity
	// Lease knows whether this process holds the Lease. It has an identity before Start.
	Lease        *LeaseHolder
	AgentVersion string
	// SimulatedClusters: the agent runs them.
	SimulatedClusters bool
	poll.Runtime
}

// ReportableCluster is the agent's Cluster as it was seen last; none while the hub shuts the agent out.
type ReportableCluster struct {
	clients.ClusterCache
	Denied freeze.BlockerFunc
}

// Cluster returns nil if there is none that the agent may report on.
func (r ReportableCluster) Cluster() *v1alpha1.Cluster {
	if _, denied := r.Denied(); denied {
		return nil
	}
	return r.ClusterCache.Cluster()
}

// Facts are what the agent knows of its cluster.
type Facts interface {
	// Target returns UID and version of the target; empty if not known.
	Target() (uid, version string)
	// Capacity returns the capacity of the cluster's Nodes; nil if not known.
	Capacity(ctx context.Context) corev1.ResourceList
	// Orphans returns what has no Machine on the hub, nil for nothing, and whether that is known.
	Orphans() (orphans *v1alpha1.Orphans, known bool)
	// Checks returns what was read in the cluster for the hub's checks.
	Checks() checks.Result
}

// Freeze is a *freeze.Monitor. What the hub is told of a freeze is one that the agent counts.
type Freeze interface {
	Refresh() freeze.State
	// Look is called after it may have changed whether this agent may act.
	Notify()
	// Uptime tells when agents of the cluster could act. The Lease hands that on from one to the next, at no extra write.
	Uptime() freeze.Uptime
	// Remember takes in what the Lease tells of it.
	Remember(freeze.Uptime)
}

// HubIdentity knows whether the hub is the one that the agent works for.
type HubIdentity interface {
	// CheckLease looks at the hub before a renewal that does not follow on one which the hub has confirmed to this process.
	CheckLease(ctx context.Context, lease *coordinationv1.Lease) error
	// Renewing prepares a Lease that is about to be written; Renewed takes in that the hub has confirmed it.
	Renewing(ctx context.Context, lease *coordinationv1.Lease)
	Renewed(lease *coordinationv1.Lease)
	// Blocked tells why the agent may not work for this hub.
	Blocked() (why freeze.Blocker, blocked bool)
	// Finding returns what waits for a person's acknowledgement, empty if nothing does.
	Finding() (id string, known bool)
}

// Reporter reports until its context ends.
type Reporter struct {
	Deps
	lease    *coordinationv1.Lease
	capacity debounced[corev1.ResourceList]
	podQuota debounced[*v1alpha1.PodQuota]
	// troubles is how the probes failed at the last report.
	troubles map[freeze.Scope]freeze.Outcome
	// said is what was last told of the hold of the Lease.
	said string
	// failures are of the writes that failed last.
	failures poll.Failures
}

// New returns a Reporter.
func New(deps Deps) (*Reporter, error) {
	if deps.Client == nil || deps.Last == nil || deps.Facts == nil || deps.Freeze == nil || deps.Changes == nil ||
		deps.HubIdentity == nil || deps.Lease == nil || deps.Clock == nil {
		return nil, errors.New("clusterstatus.Deps: Client, Last, Facts, Freeze, Changes, HubIdentity, Lease and Clock are required")
	}
	return &Reporter{Deps: deps, said: v1alpha1.ReasonLeaseNotHeld, failures: poll.Failures{Log: deps.Log}}, nil
}

// Start reports until ctx ends. It waits for the Cluster to be joined, and stands by while another agent has the
// Lease; when another one takes it, the error is ErrLeaseLost.
func (r *Reporter) Start(ctx context.Context) error {
	renewAt, statusAt := r.Clock.Now(), r.Clock.Now()
	for {
		cluster := r.Last.Cluster()
		now := r.Clock.Now()
		if !Joined(cluster) {
			renewAt, statusAt = now.Add(waiting), now.Add(waiting)
		} else {
			if !now.Before(renewAt) {
				renewAt = r.renewLease(ctx, cluster, now)
				if err := r.reportHolderChange(); err != nil {
					return err
				}
			}
			if !now.Before(statusAt) {
				statusAt = now.Add(statusInterval)
				if _, blocked := r.Lease.Blocked(); !blocked {
					r.attemptWrite(ctx, longestWrite, "Cluster status", r.writeNow)
				}
			}
		}
		now = r.Clock.Now()
		timer := r.Clock.NewTimer(max(min(renewAt.Sub(now), statusAt.Sub(now)), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.Changes:
			statusAt = r.Clock.Now()
			if r.isOutdated() {
				renewAt = statusAt
			}
		case <-timer.C():
		}
		timer.Stop()
	}
}

// reportHolderChange tells of a change of who holds the Lease.
func (r *Reporter) reportHolderChange() error {
	why, _ := r.Lease.Blocked()
	if why.Reason+why.Message == r.said {
		return nil
	}
	r.said = why.Reason + why.Message
	r.Freeze.Notify()
	if to, lost := r.Lease.lostTo(); lost {
		return fmt.Errorf("%w: %s", ErrLeaseLost, to)
	}
	return nil
}

// Joined reports whether the hub has accepted a Cluster and made its namespace, so that its agent may work.
func Joined(cluster *v1alpha1.Cluster) bool {
	return cluster != nil && cluster.Accepted() && cluster.Status.Namespace != ""
}

func renewalPeriod(cluster *v1alpha1.Cluster) time.Duration {
	return time.Duration(cluster.Heartbeat().PeriodSeconds) * time.Second
}

func (r *Reporter) attemptWrite(ctx context.Context, longest time.Duration, what string, write func(context.Context) error) (ok bool) {
	bounded, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err := write(bounded)
	if ctx.Err() != nil {
		return false
	}
	r.failures.Note("Writing the "+what, err)
	return err == nil
}

// writeNow writes the status of the Cluster as it is now, after the Lease.
func (r *Reporter) writeNow(ctx context.Context) error {
	if cluster := r.Last.Cluster(); cluster != nil {
		return r.writeStatus(ctx, cluster)
	}
	return nil
}

func (r *Reporter) writeStatus(ctx context.Context, cluster *v1alpha1.Cluster) error {
	known := facts{
		agentVersion: r.AgentVersion, freeze: r.Freeze.Refresh(), generation: cluster.Generation, healthChecks: cluster.Spec.HealthChecks, now: r.Clock.Now(),
		simulatedClusters: r.SimulatedClusters,
	}
	capacity := r.Facts.Capacity(ctx)
	known.capacity = r.capacity.offerValue(capacity, capacity != nil, known.now)
	troubles := troublesOf(known.freeze, r.troubles)
	known.otherTrouble = !maps.Equal(troubles, r.troubles)
	known.clusterUID, known.kubernetesVersion = r.Facts.Target()
	known.finding, known.findingKnown = r.HubIdentity.Finding()
	known.orphans, known.orphansKnown = r.Facts.Orphans()
	known.checks = r.Facts.Checks()
	known.podQuota = r.podQuota.offerValue(known.checks.PodQuota, known.checks.Known, known.now)
	own := statusOf(cluster.Status, known)
	if hasSameStatus(cluster.Status, own) {
		r.troubles = troubles
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&own)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Cluster",
		"metadata": map[string]any{"name": cluster.Name, "uid": string(cluster.UID)},
		"status":   content,
	}}
	// Applying keeps the hub's conditions, which stand in the same list.
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, client.FieldOwner(fieldManager))
	if err != nil {
		return fmt.Errorf("applying the status of Cluster %s: %w", cluster.Name, err)
	}
	updated := &v1alpha1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, updated); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	r.Last.Seen(updated)
	r.troubles = troubles
	return nil
}
