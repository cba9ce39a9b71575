package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// findInterval is how often orphans are looked for, and findAgainAfter how soon again when there is news.
	findInterval, findAgainAfter = time.Minute, 5 * time.Second
	// mostOrphans is how many are named on the hub.
	mostOrphans = 10

	kindNodes    = "nodes"
	kindRequests = "certificate requests"
)

// OrphanFinder is a runnable that reports instances, Nodes and certificate requests without a Machine. It never touches
// them: a Machine that is missing orders nothing.
type OrphanFinder struct {
	hub     Hub
	target  Target
	drivers drivers
	metrics *Metrics
	clock   clock.WithTicker
	last    map[string][]string
	// lasting are those which were there the last time already. A Machine and what belongs to it come into the caches
	// of the agent one after the other.
	lasting lasting
	// reported is what the hub is told; nil before it is known.
	reported atomic.Pointer[v1alpha1.Orphans]
}

// lasting are names of orphans by what they are.
type lasting struct {
	instances, nodes, requests []string
}

func newOrphanFinder(hub Hub, target Target, drivers drivers, metrics *Metrics, clock clock.WithTicker) *OrphanFinder {
	return &OrphanFinder{hub: hub, target: target, drivers: drivers, metrics: metrics, clock: clock, last: map[string][]string{}}
}

// Orphans returns what has no Machine on the hub, nil for nothing, and whether that is known.
func (s *OrphanFinder) Orphans() (orphans *v1alpha1.Orphans, known bool) {
	found := s.reported.Load()
	if found == nil || found.Instances+found.Nodes+found.CertificateRequests > 0 {
		return found, found != nil
	}
	return nil, true
}

// Start looks until ctx ends. It implements manager.Runnable.
func (s *OrphanFinder) Start(ctx context.Context) error {
	var news bool
	return poll.Loop{
		Doing: "Looking for what has no machine",
		Do: func(ctx context.Context) (err error) {
			news, err = s.Find(ctx)
			return err
		},
		Next: func(context.Context) time.Duration {
			if news {
				return findAgainAfter
			}
			return findInterval
		},
		Runtime: poll.Runtime{Clock: s.clock, Log: klog.FromContext(ctx)},
	}.Run(ctx)
}

// Find looks once, and logs what has changed since the last time. It reports whether anything has.
func (s *OrphanFinder) Find(ctx context.Context) (news bool, err error) {
	s.lasting = lasting{}
	news, err = s.findOrphans(ctx)
	if err == nil {
		s.reported.Store(orphansOf(s.lasting))
	}
	return news, err
}

// orphansOf counts and names.
func orphansOf(found lasting) *v1alpha1.Orphans {
	orphans := &v1alpha1.Orphans{
		Instances: int32(len(found.instances)), Nodes: int32(len(found.nodes)), CertificateRequests: int32(len(found.requests)),
	}
	for _, kind := range []struct {
		is    string
		names []string
	}{{"instance", found.instances}, {"node", found.nodes}, {"certificate request", found.requests}} {
		for _, name := range kind.names {
			orphans.Names = append(orphans.Names, kind.is+"/"+name)
		}
	}
	orphans.Names = orphans.Names[:min(len(orphans.Names), mostOrphans)]
	return orphans
}

func (s *OrphanFinder) findOrphans(ctx context.Context) (news bool, err error) {
	machines := &v1alpha1.MachineList{}
	if err := s.hub.Client.List(ctx, machines, client.InNamespace(s.hub.ClusterName), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing machines: %w", err)
	}
	known := sets.New[string]()
	for i := range machines.Items {
		known.Insert(machines.Items[i].Name)
	}
	for _, provider := range s.drivers.providerNames() {
		instances, err := s.drivers[provider].List(ctx)
		if err != nil {
			return false, fmt.Errorf("listing the instances of provider %q: %w", provider, err)
		}
		var names []string
		for _, instance := range instances {
			names = append(names, instance.Name)
		}
		count, stayed, changed := s.reportOrphans(ctx, "instances of provider "+provider, names, known)
		s.metrics.orphanedInstances.WithLabelValues(provider).Set(count)
		s.lasting.instances, news = append(s.lasting.instances, stayed...), news || changed
	}
	nodes, err := s.listNodes(ctx)
	if err != nil {
		return news, err
	}
	count, stayed, changed := s.reportOrphans(ctx, kindNodes, nodes, known)
	s.metrics.orphanedNodes.Set(count)
	s.lasting.nodes, news = stayed, news || changed
	requested, err := s.target.Requests.Nodes(ctx)
	if err != nil {
		return news, err
	}
	count, stayed, changed = s.reportOrphans(ctx, kindRequests, requested, known)
	s.metrics.orphanedRequests.Set(count)
	s.lasting.requests, news = stayed, news || changed
	return news, nil
}

// listNodes returns the names of the Nodes that were made for Machines of this cluster.
func (s *OrphanFinder) listNodes(ctx context.Context) ([]string, error) {
	nodes := &corev1.NodeList{}
	if err := s.target.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		if madeFor(s.hub.ClusterName, &nodes.Items[i]) {
			names = append(names, nodes.Items[i].Name)
		}
	}
	return names, nil
}

// madeFor reports whether an agent of cluster has tied node to a Machine, or node has registered as a hollow one of cluster:
// it may have lost its Machine before the agent came to it.
func madeFor(cluster string, node *corev1.Node) bool {
	return node.Annotations[v1alpha1.NodeClusterNamespaceAnnotation] == cluster ||
		node.Labels[v1alpha1.HollowNodeLabel] != "" && strings.HasSuffix(node.Spec.ProviderID, "://"+cluster+"/"+node.Name)
}

// reportOrphans logs those of names that are not known, if they are not the same as the last time, and returns how many
// they are, those of them that were so the last time, and whether they have changed since.
func (s *OrphanFinder) reportOrphans(ctx context.Context, what string, names []string, known sets.Set[string]) (count float64, stayed []string, news bool) {
	orphaned := slices.DeleteFunc(slices.Clone(names), known.Has)
	slices.Sort(orphaned)
	last := s.last[what]
	if news = !slices.Equal(orphaned, last); news {
		klog.FromContext(ctx).Info("Leaving what has no machine on the hub", "what", what, "names", orphaned)
	}
	s.last[what] = orphaned
	for _, name := range orphaned {
		if _, found := slices.BinarySearch(last, name); found {
			stayed = append(stayed, name)
		}
	}
	return float64(len(orphaned)), stayed, news
}
