package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// strayInterval is how often strays are looked for.
	strayInterval = time.Minute

	strayNodes    = "nodes"
	strayRequests = "certificate requests"
)

// Strays is a runnable that reports instances, Nodes and certificate requests without a Machine. It never touches
// them: a Machine that is missing orders nothing.
type Strays struct {
	controller *Controller
	last       map[string][]string
}

// Strays returns the runnable.
func (c *Controller) Strays() *Strays { return &Strays{controller: c, last: map[string][]string{}} }

// Start looks until ctx ends. It implements manager.Runnable.
func (s *Strays) Start(ctx context.Context) error {
	ticker := time.NewTicker(strayInterval)
	defer ticker.Stop()
	for {
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Looking for what has no machine failed")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Look counts once, and logs what has changed since the last time.
func (s *Strays) Look(ctx context.Context) error {
	machines := &v1alpha1.MachineList{}
	if err := s.controller.Hub.List(ctx, machines, client.InNamespace(s.controller.ClusterName), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	known := sets.New[string]()
	for i := range machines.Items {
		known.Insert(machines.Items[i].Name)
	}
	for _, provider := range s.controller.providerNames() {
		instances, err := s.controller.Drivers[provider].List(ctx)
		if err != nil {
			return fmt.Errorf("listing the instances of provider %q: %w", provider, err)
		}
		var names []string
		for _, instance := range instances {
			names = append(names, instance.Name)
		}
		count := s.tell(ctx, "instances of provider "+provider, names, known)
		s.controller.Metrics.strays.WithLabelValues(provider).Set(count)
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	s.controller.Metrics.strayNodes.Set(s.tell(ctx, strayNodes, nodes, known))
	requested, err := s.controller.Requests.Nodes(ctx)
	if err != nil {
		return err
	}
	s.controller.Metrics.strayRequests.Set(s.tell(ctx, strayRequests, requested, known))
	return nil
}

// nodes returns the names of the Nodes that an agent of this cluster has tied to a Machine.
func (s *Strays) nodes(ctx context.Context) ([]string, error) {
	nodes := &corev1.NodeList{}
	if err := s.controller.Target.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		if nodes.Items[i].Annotations[v1alpha1.NodeClusterNamespaceAnnotation] == s.controller.ClusterName {
			names = append(names, nodes.Items[i].Name)
		}
	}
	return names, nil
}

// tell logs those of names that are not known, if they are not the same as the last time, and returns how many
// they are.
func (s *Strays) tell(ctx context.Context, what string, names []string, known sets.Set[string]) float64 {
	strays := slices.DeleteFunc(names, known.Has)
	slices.Sort(strays)
	if !slices.Equal(strays, s.last[what]) {
		klog.FromContext(ctx).Info("Leaving what has no machine on the hub", "what", what, "names", strays)
	}
	s.last[what] = strays
	return float64(len(strays))
}
