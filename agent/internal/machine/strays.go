package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// strayInterval is how often instances without a Machine are looked for.
const strayInterval = time.Minute

// Strays is a runnable that reports instances without a Machine. It never touches them: a Machine that is missing
// orders nothing.
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
			klog.FromContext(ctx).Error(err, "Looking for instances without a machine failed")
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
		var strays []string
		for _, instance := range instances {
			if !known.Has(instance.Name) {
				strays = append(strays, instance.Name)
			}
		}
		slices.Sort(strays)
		s.controller.Metrics.strays.WithLabelValues(provider).Set(float64(len(strays)))
		if !slices.Equal(strays, s.last[provider]) {
			klog.FromContext(ctx).Info("Leaving instances for which the hub has no machine", "provider", provider, "instances", strays)
		}
		s.last[provider] = strays
	}
	return nil
}
