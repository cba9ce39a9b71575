// Package simulatedcluster makes the Cluster of each SimulatedCluster, says how the simulated cluster is, and removes it in order: its
// Machines, then its agent and control plane, which its host's agent removes, then its Cluster, then its namespace.
//
// The Cluster and its namespace carry the namespace and UID of the SimulatedCluster. What does not is another's, and is not changed: a
// copy or a restored SimulatedCluster has another UID, so of several with one name exactly one has the Cluster. Each step of a removal
// rests on what the API server answers, and nothing is done while the host or the cluster is frozen.
package simulatedcluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machineclasses;machinedeployments,verbs=create
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments;machinesets;machines;loadtestruns,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// The admission policy hollowfleet-hub keeps the deletion of Clusters and namespaces to those of SimulatedClusters.

// Deps is what the controller needs. All of it is required.
type Deps struct {
	// Client reads from the cache and writes. Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder events.EventRecorder
	// Agents are those that this process has heard.
	Agents *freeze.Agents
	Clock  clock.PassiveClock
}

// Controller is the logic of one SimulatedCluster.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Recorder == nil || deps.Agents == nil || deps.Clock == nil {
		return nil, errors.New("making the SimulatedCluster controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(one *v1alpha1.SimulatedCluster) any { return &one.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, one *v1alpha1.SimulatedCluster) (reconciler.Next, error) {
	deleting := one.DeletionTimestamp != nil
	if deleting && !controllerutil.ContainsFinalizer(one, v1alpha1.ClusterFinalizer) {
		return reconciler.Next{}, nil
	}
	reader := client.Reader(c.Client)
	if deleting {
		reader = c.Live // A removal rests on what there is, not on what the cache shows.
	}
	s, err := c.observe(ctx, reader, one)
	if err != nil {
		return reconciler.Next{}, err
	}
	if deleting {
		err = c.removeNext(ctx, s)
	} else if err = c.ensureCluster(ctx, s); err == nil {
		err = c.createInitial(ctx, s)
	}
	if !s.gone {
		c.report(s)
	}
	return reconciler.Next{}, err
}

// scope is what a step rests on.
type scope struct {
	one *v1alpha1.SimulatedCluster
	// host is the Cluster of the namespace; nil if there is none.
	host          *v1alpha1.Cluster
	hostSimulated bool
	// cluster is the Cluster of the name; nil if there is none.
	cluster *v1alpha1.Cluster
	// held is what keeps the hub from beginning and removing something for it.
	held freeze.Verdict

	// created is what is to be said of the Cluster, started of what it starts with, and removing what the removal
	// waits for.
	created  metav1.Condition
	started  metav1.Condition
	removing metav1.Condition
	// gone: the last finalizer was removed.
	gone bool
}

// owns reports whether the Cluster was made for the SimulatedCluster.
func (s *scope) owns() bool {
	return s.cluster != nil && s.cluster.Annotations[v1alpha1.SimulatedClusterAnnotation] == s.one.ProofOfSimulation()
}

func (c *Controller) observe(ctx context.Context, reader client.Reader, one *v1alpha1.SimulatedCluster) (*scope, error) {
	s := &scope{one: one}
	var err error
	if s.host, err = readCluster(ctx, reader, one.Namespace); err != nil {
		return nil, err
	}
	if s.cluster, err = readCluster(ctx, reader, one.Name); err != nil {
		return nil, err
	}
	s.hostSimulated = s.host != nil && s.host.IsSimulated()
	s.held = freeze.All(freeze.OfAnnotation("SimulatedCluster", one), freeze.First(freeze.OfStart(one.Namespace, s.host), c.Agents.Verdict(s.host)))
	return s, nil
}

// readCluster returns the Cluster of a name; nil if there is none.
func readCluster(ctx context.Context, reader client.Reader, name string) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	return cluster, nil
}
