// Package machine marks the Machines of a cluster while their state is not known: what their agent said last stays as
// it is, and the condition Stale says that it may be true no longer.
package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinestate"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines/status,verbs=patch

const (
	// atOnce is how many Machines of a cluster are marked or unmarked in a row; the next follow after pause. No user waits
	// for a marker, and a cluster of thousands must not hold up the others.
	atOnce = 50
	pause  = time.Second
)

// Controller keeps the markers of one cluster's Machines.
type Controller struct {
	client client.Client
}

// New returns a Controller.
func New(c client.Client) (*Controller, error) {
	if c == nil {
		return nil, errors.New("making the staleness controller: no client")
	}
	return &Controller{client: c}, nil
}

// Reconcile implements reconcile.Reconciler. Of a Cluster that is gone nothing is known: its Machines stay as
// they are.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &v1alpha1.Cluster{}
	if err := c.client.Get(ctx, request.NamespacedName, cluster); apierrors.IsNotFound(err) || undecodable.Is(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting cluster %s: %w", request.Name, err)
	}
	wanted, known := Marker(cluster)
	if !known {
		return reconcile.Result{}, nil // What makes it known asks for the cluster again.
	}
	var machines []*v1alpha1.Machine
	err := machinestate.Each(ctx, c.client, func(machine *v1alpha1.Machine) {
		if machine.Spec.ClusterName == cluster.Name && !marked(machine, wanted) {
			machines = append(machines, machine)
		}
	}, client.InNamespace(cluster.Name), client.UnsafeDisableDeepCopy)
	if err != nil || len(machines) == 0 {
		return reconcile.Result{}, err
	}
	klog.FromContext(ctx).V(2).Info("Marking machines", "stale", wanted != nil, "machines", len(machines))
	for _, machine := range machines[:min(len(machines), atOnce)] {
		if err := c.write(ctx, machine, wanted); err != nil {
			return reconcile.Result{}, err
		}
	}
	// The cache shows what was written a moment later. Should it show nothing new then, there is no more to do.
	return reconcile.Result{RequeueAfter: pause}, nil
}

// write changes the marker alone. The agent writes the list of conditions too: with the lock, each of the two puts its
// own into the list that the other has left. A Machine that has changed meanwhile is looked at again after pause.
func (c *Controller) write(ctx context.Context, cached *v1alpha1.Machine, wanted *metav1.Condition) error {
	machine := cached.DeepCopy()
	mark(machine, wanted, time.Now())
	err := c.client.Status().Patch(ctx, machine, reconciler.MergeFromWithLock(cached.DeepCopy()))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("marking machine %s: %w", machine.Name, err)
	}
	return nil
}
