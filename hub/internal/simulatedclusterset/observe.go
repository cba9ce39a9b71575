package simulatedclusterset

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/waves"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

// scope is what a decision about a set rests on.
type scope struct {
	set   *v1alpha1.SimulatedClusterSet
	input plan.Input
	// members are the set's SimulatedClusters, by ordinal, and takers what has the names of the others.
	members map[int]*v1alpha1.SimulatedCluster
	takers  map[int]string
	// invalid says why spec.hostSelector cannot be used.
	invalid string
	frozen  freeze.Verdict
	// clusters are all Clusters, by name, and rollout is what the rollout of the version rests on.
	clusters map[string]*v1alpha1.Cluster
	rollout  *waves.Scope
}

// observe reads the SimulatedClusters with reader. Clusters come from the cache; those in which something is about to change are read
// once more, see checkHost.
func (c *Controller) observe(ctx context.Context, reader client.Reader, set *v1alpha1.SimulatedClusterSet) (*scope, error) {
	s := &scope{set: set, members: map[int]*v1alpha1.SimulatedCluster{}, takers: map[int]string{}, frozen: freeze.OfAnnotation("SimulatedClusterSet", set)}
	s.clusters = map[string]*v1alpha1.Cluster{}
	s.input = plan.Input{Replicas: v1alpha1.DesiredReplicas(set.Spec.Replicas), Frozen: s.frozen.Frozen, Taken: map[int]bool{}}
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.HostSelector)
	if err != nil {
		selector, s.invalid = labels.Nothing(), fmt.Sprintf("spec.hostSelector: not a label selector: %v: correct it", err)
	}
	all, clusters := &v1alpha1.SimulatedClusterList{}, &v1alpha1.ClusterList{}
	if err := reader.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing simulated clusters: %w", err)
	}
	if err := c.Client.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	simulated := map[string]string{}
	for i := range clusters.Items {
		s.clusters[clusters.Items[i].Name] = &clusters.Items[i]
		if proof := clusters.Items[i].Annotations[v1alpha1.SimulatedClusterAnnotation]; proof != "" {
			simulated[clusters.Items[i].Name] = proof
		}
	}
	s.addMembers(all.Items, simulated)
	s.addTakers(all.Items, clusters.Items)
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		s.input.Hosts = append(s.input.Hosts, c.hostOf(cluster, selector.Matches(labels.Set(cluster.Labels))))
	}
	return s, c.addWaves(ctx, s)
}

// addMembers takes in the set's own, and those that it may adopt. Of several with one ordinal, copies in other namespaces, only that one
// counts whose Cluster was made for it, else the oldest; the others say themselves that the name is taken.
func (s *scope) addMembers(all []v1alpha1.SimulatedCluster, simulated map[string]string) {
	found := map[int][]*v1alpha1.SimulatedCluster{}
	for i := range all {
		one := &all[i]
		ordinal, named := plan.OrdinalOf(s.set.Name, one.Name)
		if named && one.DecodeError == "" && (metav1.IsControlledBy(one, s.set) || s.isOrphan(one)) {
			found[ordinal] = append(found[ordinal], one)
		}
	}
	for ordinal, claims := range found {
		one := slices.MinFunc(claims, func(a, b *v1alpha1.SimulatedCluster) int {
			return cmp.Or(
				cmp.Compare(countIf(simulated[b.Name] == b.ProofOfSimulation()), countIf(simulated[a.Name] == a.ProofOfSimulation())),
				a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace))
		})
		s.members[ordinal] = one
		s.input.Members = append(s.input.Members, plan.Member{
			Host: one.Namespace, Ordinal: ordinal, Deleting: one.DeletionTimestamp != nil, Orphan: s.isOrphan(one),
			Kept:     one.Annotations[v1alpha1.ScaleDownDisabledAnnotation] == "true",
			Outdated: !equality.Semantic.DeepEqual(one.Spec.ClusterMetadata, s.set.Spec.Template.Spec.ClusterMetadata),
		})
	}
	slices.SortFunc(s.input.Members, func(a, b plan.Member) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
}

func countIf(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// isOrphan reports whether one has the set's label and no owner, and can be adopted.
func (s *scope) isOrphan(one *v1alpha1.SimulatedCluster) bool {
	return metav1.GetControllerOfNoCopy(one) == nil && one.DeletionTimestamp == nil && one.Labels[v1alpha1.SimulatedClusterSetNameLabel] == s.set.Name
}

// addTakers finds the ordinals that the set lacks and whose names others have.
func (s *scope) addTakers(all []v1alpha1.SimulatedCluster, clusters []v1alpha1.Cluster) {
	note := func(name, what string) {
		if ordinal, named := plan.OrdinalOf(s.set.Name, name); named && s.members[ordinal] == nil {
			s.takers[ordinal], s.input.Taken[ordinal] = what, true
		}
	}
	for i := range clusters {
		note(clusters[i].Name, "Cluster "+clusters[i].Name)
	}
	for i := range all {
		note(all[i].Name, fmt.Sprintf("SimulatedCluster %s/%s", all[i].Namespace, all[i].Name))
	}
}

// hostOf judges a Cluster.
func (c *Controller) hostOf(cluster *v1alpha1.Cluster, selected bool) plan.Host {
	host := plan.Host{Name: cluster.Name, Selected: selected}
	if hold := c.holdOf(cluster.Name, cluster); hold.Frozen {
		host.Held, host.Passing = hold.Message, hold.Passing
	}
	if cluster.DecodeError == "" {
		host.Unusable = explainUnusable(cluster)
	}
	return host
}

// holdOf is what keeps the hub from beginning and removing simulated clusters in a host.
func (c *Controller) holdOf(name string, cluster *v1alpha1.Cluster) freeze.Verdict {
	return freeze.First(freeze.OfStart(name, cluster), c.Agents.Verdict(cluster))
}

// explainUnusable says why a Cluster hosts nothing until a user changes something; empty if it can.
func explainUnusable(cluster *v1alpha1.Cluster) string {
	allowed := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterSimulatedClustersAllowedCondition)
	switch {
	case cluster.IsSimulated():
		return fmt.Sprintf("Cluster %s is simulated itself", cluster.Name)
	case allowed == nil:
		return fmt.Sprintf("the agent of Cluster %s runs no simulated clusters", cluster.Name)
	case allowed.Status != metav1.ConditionTrue:
		return fmt.Sprintf("the agent of Cluster %s runs no simulated clusters: %s", cluster.Name, allowed.Message)
	}
	return ""
}

// checkHost reads a host once more, from the API server, before something is changed there.
func (c *Controller) checkHost(ctx context.Context, name string) error {
	cluster := &v1alpha1.Cluster{}
	switch err := c.Live.Get(ctx, client.ObjectKey{Name: name}, cluster); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading Cluster %s: %w", name, err)
	case err != nil:
		cluster = nil
	}
	if hold := c.holdOf(name, cluster); hold.Frozen {
		return &outcome.Wait{Reason: v1alpha1.ReasonHostsHeld, Message: hold.Message}
	}
	return nil
}
