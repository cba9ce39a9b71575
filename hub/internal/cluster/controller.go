// Package cluster lets workload clusters join: it gives each accepted Cluster its namespace, gives its agent
// access to that and to nothing else, and says whether the agent is heard of.
package cluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/clustermetrics"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// Who may write roles and bindings may not give more than it has: RBAC checks that the hub itself holds what
// it gives each agent (clusters, clusters/status, certificatesigningrequests), or may bind the role
// (hollowfleet-agent).
//
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,resourceNames=hollowfleet-agent,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters/status,verbs=get;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=hollowfleet-agent,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=hollowfleet-agent,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=hollowfleet-agent,verbs=bind
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps is what the controller needs. All of it is required but Heartbeat, Version and Undecodable.
type Deps struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server: a Cluster goes only when its access is known to be gone.
	Live     client.Reader
	Recorder events.EventRecorder
	// Agents is told of every agent that is heard.
	Agents *freeze.Agents
	Clock  clock.Clock
	// Heartbeat is for what Clusters leave open; what it leaves open itself is v1alpha1.DefaultHeartbeat.
	Heartbeat v1alpha1.Heartbeat
	// Version of the hub, for agents to compare with theirs. Empty means that it is not known.
	Version string
	// Undecodable, if not nil, knows the objects that cannot be decoded.
	Undecodable *undecodable.Tracker
}

// Controller is the logic of one Cluster: observe, act, report.
type Controller struct {
	Deps
	heartbeats *heartbeats
	throttle   reconciler.StatusThrottle
}

// countsInterval is that of the counts of Machines: the longer they keep changing, the less often they are written.
var countsInterval = reconciler.StatusBounds{First: 2 * reconciler.StatusInterval, Longest: reconciler.LongestStatusInterval}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Recorder == nil || deps.Agents == nil || deps.Clock == nil {
		return nil, errors.New("making the Cluster controller: a dependency is missing")
	}
	deps.Heartbeat = deps.Heartbeat.Or(v1alpha1.DefaultHeartbeat)
	c := &Controller{Deps: deps, heartbeats: newHeartbeats()}
	c.heartbeats.noteRenewal = deps.Agents.NoteRenewal
	return c, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(cluster *v1alpha1.Cluster) any { return &cluster.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, cluster *v1alpha1.Cluster) (reconciler.Next, error) {
	if cluster.DeletionTimestamp != nil {
		return reconciler.Next{}, c.endAccess(ctx, cluster)
	}
	if err := c.addFinalizer(ctx, cluster); err != nil {
		return reconciler.Next{}, err
	}
	before := cluster.Status.DeepCopy()
	now := c.Clock.Now()
	namespace, accessErr := c.admitCluster(ctx, cluster)
	counts, countErr := c.countMachines(ctx, cluster, now)
	cluster.Status.Heartbeat = new(cluster.Spec.Heartbeat.Or(c.Heartbeat))
	cluster.Status.HubVersion = c.Version
	heard := c.heartbeats.evaluateAgent(cluster, now)
	// A renewal that comes from here on counts at the next look: this one may miss what the agent has written before it.
	renewed := c.heartbeats.isRenewed(cluster.Name)
	if !renewed {
		c.Agents.Forget(cluster.Name)
	}
	arrived, hearErr := c.hasArrived(ctx, cluster, renewed)
	if !arrived {
		heard = heard.heldState(cluster)
	}
	if countErr == nil {
		cluster.Status.Machines = counts
	}
	var roleErr error
	if !heard.connected {
		heard.noRole, roleErr = c.lacksRole(ctx)
	}
	decodedCondition(cluster, c.Undecodable.In(cluster.Name), now)
	report(cluster, namespace, heard, now)
	clustermetrics.Preset(cluster.Name)
	c.emitEvents(before, cluster)
	var next reconciler.Next
	if !equality.Semantic.DeepEqual(before, &cluster.Status) {
		wait := c.throttle.BackoffDelay(cluster.UID, !onlyCounts(before, &cluster.Status), countsInterval, now)
		next.DeferStatus = wait > 0
		next = next.NoLaterThan(wait)
	}
	told := equality.Semantic.DeepEqual(before, &cluster.Status) || onlyCounts(before, &cluster.Status)
	if renewed && arrived && told && c.heartbeats.isRenewed(cluster.Name) {
		c.Agents.Hear(cluster.Name)
	}
	return next, errors.Join(accessErr, countErr, hearErr, roleErr)
}

// addFinalizer puts the hub's finalizer on cluster, so that the agent's access ends with it.
func (c *Controller) addFinalizer(ctx context.Context, cluster *v1alpha1.Cluster) error {
	before := cluster.DeepCopy()
	if !controllerutil.AddFinalizer(cluster, v1alpha1.ClusterFinalizer) {
		return nil
	}
	// Finalizers are a list, which a merge patch replaces whole: hence the lock.
	if err := c.Client.Patch(ctx, cluster, reconciler.MergeFromWithLock(before)); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

// endAccess ends the access of the agent of a cluster that is being deleted. Its namespace and Machines stay,
// and so do its nodes, until the user deletes them.
func (c *Controller) endAccess(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if !controllerutil.ContainsFinalizer(cluster, v1alpha1.ClusterFinalizer) {
		return nil
	}
	if err := c.withdrawAccess(ctx, c.Live, cluster, access{}, namespaceUnknown); err != nil {
		return err
	}
	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, v1alpha1.ClusterFinalizer)
	if err := c.Client.Patch(ctx, cluster, reconciler.MergeFromWithLock(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	c.heartbeats.forgetCluster(cluster.Name)
	c.Agents.Forget(cluster.Name)
	clustermetrics.Forget(cluster.Name)
	return nil
}

// An agent that counts as heard lets this process create and delete for its cluster. What the agent has to say about
// that, such as that it is frozen or that this hub was restored from a backup, it writes on the Cluster before it renews
// its Lease. But here the two come from different caches, and the other controllers go by a condition that this one
// writes. So after the renewal the Cluster is read once more, from the API server: the agent is heard when the cache has
// that version and there is nothing left to write about it. An agent that falls silent has to be heard again.

// hasArrived reports whether cluster, as the cache has it, holds all that its agent has written before it renewed its Lease, if
// it has. If not, a newer one comes with an event.
func (c *Controller) hasArrived(ctx context.Context, cluster *v1alpha1.Cluster, renewed bool) (bool, error) {
	if !renewed || c.Agents.Heard(cluster.Name) {
		return true, nil
	}
	live := &v1alpha1.Cluster{}
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(cluster), live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading what the agent has written: %w", err)
	}
	return live.ResourceVersion == cluster.ResourceVersion, nil
}
