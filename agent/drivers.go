package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/agent/driver/kwok"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// makeDrivers makes the driver of every provider, with gated clients, behind the gate.
func (w *worker) makeDrivers(ctx context.Context, c clusters, waker *machine.Waker, plan func(context.Context, *v1alpha1.Machine) (string, error)) (map[string]driver.Driver, error) {
	ca, err := clients.CertificateAuthority(w.target)
	if err != nil {
		return nil, err
	}
	factories := map[string]driver.Factory{
		v1alpha1.ProviderHollow: hollow.Factory(hollow.Options{
			Image: w.HollowNodeImage, MinorImages: w.HollowNodeMinorImages, ServerURL: cmp.Or(w.TargetServerURL, w.target.Host), ServerCA: ca,
			HollowTaint: w.HollowTaint, NodeMonitorGracePeriod: w.NodeMonitorGracePeriod, StaticPodNamespaces: w.StaticPodNamespaces,
		}),
	}
	if w.Kwok.isEnabled() {
		factories[v1alpha1.ProviderKwok] = kwok.Factory(kwok.Options{
			Program: w.Kwok.Program, Dir: w.Kwok.Dir, LeaseDuration: w.Kwok.LeaseDuration, ServerURL: w.target.Host, ServerCA: ca,
			HollowTaint: w.HollowTaint, ServerVersion: w.targetVersion,
		})
	}
	maps.Copy(factories, w.Drivers)
	environment := driver.Environment{
		ClusterName: w.ClusterName, Changed: waker.Wake, Clock: w.clock, DisruptionPlan: plan,
		Target: w.accessTo(c.target, w.TargetNamespace), Host: w.accessTo(c.host, w.HostNamespace),
	}
	drivers := map[string]driver.Driver{}
	for name, factory := range factories {
		environment.Log = w.Log.WithName("driver").WithName(name)
		made, err := factory(ctx, environment)
		if err != nil {
			return nil, fmt.Errorf("making the driver of provider %q: %w", name, err)
		}
		drivers[name] = w.gate.Driver(made)
	}
	return drivers, nil
}

// accessTo is what a driver gets of one of the agent's clusters.
func (w *worker) accessTo(c cluster.Cluster, namespace string) driver.Access {
	return driver.Access{Client: c.GetClient(), Reader: c.GetAPIReader(), Informers: c.GetCache(), Namespace: namespace}
}

// instancesOf returns a function that counts the instances of all drivers, without those that are being removed.
func instancesOf(drivers map[string]driver.Driver) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		count := 0
		for provider, of := range drivers {
			instances, err := driver.Count(ctx, of)
			if err != nil {
				return 0, fmt.Errorf("counting the instances of provider %q: %w", provider, err)
			}
			count += instances
		}
		return count, nil
	}
}
