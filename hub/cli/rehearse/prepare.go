package rehearse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

const suffixLength = 5

// prepared is a rehearsal of which nothing has been made yet.
type prepared struct {
	inventory *inventory.Inventory
	versions  shape.Versions
	shape     *shape.Shape
	skew      []shape.SkewProblem
	client    client.WithWatch
	// fleet is the local fleet of the hub; nil if it is none.
	fleet *localFleet
	name  string
	host  string
}

// nodesAtMost is how many Nodes there are at most at a time: groups are upgraded one after the other.
func (p *prepared) nodesAtMost() int {
	sum, surge := 0, 0
	for index, group := range p.shape.Groups {
		sum += group.Nodes
		if bounds := p.shape.MachineDeployments[index].Spec.Strategy.RollingUpdate; bounds != nil {
			if more, err := intstr.GetScaledValueFromIntOrPercent(bounds.MaxSurge, group.Nodes, true); err == nil {
				surge = max(surge, more)
			}
		}
	}
	return sum + surge
}

// prepare decides everything that can be decided before something is made.
func (r *command) prepare(ctx context.Context, found *inventory.Inventory, versions shape.Versions) (*prepared, error) {
	p := &prepared{inventory: found, versions: versions, name: cmp.Or(r.name, "rehearsal-"+rand.String(suffixLength)), host: r.host}
	if !r.dryRun.Active() || r.dryRun.Server() {
		if err := r.findHost(ctx, p); err != nil {
			return nil, err
		}
	}
	p.host = cmp.Or(p.host, "HOST")
	strategy, err := r.newStrategy()
	if err != nil {
		return nil, err
	}
	p.shape = shape.New(found, shape.Options{
		Name: p.name, Host: p.host, Versions: versions, Strategy: strategy, DrainTimeout: r.drainTimeout,
		ReadyAfter: r.readyAfter, TerminationPercent: r.terminationPercent,
	})
	if len(p.shape.Groups) == 0 {
		return nil, cmdutil.Refusal("no Node of the inventory is Ready, so that nothing could be rehearsed: take the inventory when they are")
	}
	p.skew = shape.CheckSkew(p.shape.Groups, versions, r.order)
	if p.client == nil {
		return p, nil
	}
	if err := r.checkRoom(p); err != nil {
		return nil, err
	}
	// The API server says now what it would refuse later.
	if err := p.client.Create(ctx, p.shape.Cluster.DeepCopy(), client.DryRunAll); err != nil {
		return nil, fmt.Errorf("creating SimulatedCluster %s in namespace %s: %w", p.name, p.host, err)
	}
	return p, nil
}

// findHost finds the hub, the Cluster that hosts the rehearsal, and the local fleet that both belong to.
func (r *command) findHost(ctx context.Context, p *prepared) error {
	c, err := r.hub.Client()
	if err != nil {
		return err
	}
	p.client = c
	clusters := &v1alpha1.ClusterList{}
	if err := c.List(ctx, clusters); err != nil {
		return fmt.Errorf("listing Clusters: %w", err)
	}
	if p.host, err = chooseHost(clusters.Items, r.host); err != nil {
		return err
	}
	if slices.ContainsFunc(clusters.Items, func(cluster v1alpha1.Cluster) bool { return cluster.Name == p.name }) {
		return cmdutil.Refusal("--name: Cluster %s exists: choose another name, or leave it out", p.name)
	}
	config, err := r.hub.Config()
	if err != nil {
		return err
	}
	p.fleet = findLocalFleet(r.localDir, config.Host)
	if p.fleet == nil && r.simulatedKubeconfig == "" {
		return cmdutil.Usage("--simulated-kubeconfig: the hub is not that of the local fleet in %s (--local-dir), so say how the simulated cluster is reached", r.localDir)
	}
	return p.fleet.checkVersions(p.versions)
}

// chooseHost is the Cluster that is named, or the only one that hosts simulated clusters.
func chooseHost(clusters []v1alpha1.Cluster, named string) (string, error) {
	var able []string
	for index := range clusters {
		one := &clusters[index]
		allowed := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ClusterSimulatedClustersAllowedCondition)
		isAble := allowed != nil && allowed.Status == "True" && !one.IsSimulated()
		switch {
		case one.Name == named && !isAble:
			return "", cmdutil.Refusal("--host: Cluster %s runs no simulated clusters: name one whose agent does, such as the host of kubectl hollow local up", named)
		case one.Name == named:
			return named, nil
		case isAble:
			able = append(able, one.Name)
		}
	}
	switch {
	case named != "":
		return "", cmdutil.NotFound("--host: Cluster %s does not exist: see kubectl hollow cluster list", named)
	case len(able) == 0:
		return "", cmdutil.Refusal("no Cluster runs simulated clusters: start a host with kubectl hollow local up --clusters 0")
	case len(able) > 1:
		return "", cmdutil.Usage("--host: several Clusters run simulated clusters, so name one of %s", strings.Join(able, ", "))
	}
	return able[0], nil
}

// checkRoom refuses a rehearsal that the machine has no room for.
func (r *command) checkRoom(p *prepared) error {
	nodes := p.nodesAtMost()
	if p.fleet == nil {
		r.hub.Note("Not checked: whether Cluster %s has room for a control plane and %s", p.host, plural.Count(nodes, "hollow Node"))
		return nil
	}
	warnings, err := p.fleet.checkRoom(nodes, r.ignored)
	for _, warning := range warnings {
		r.hub.Note("warning: %s", warning)
	}
	return err
}

// isNewer reports whether a minor such as "v1.37" is after that of a version.
func isNewer(minor, than string) bool {
	a, errA := version.ParseGeneric(minor)
	b, errB := version.ParseGeneric(than)
	return errA == nil && errB == nil && a.Minor() > b.Minor()
}
