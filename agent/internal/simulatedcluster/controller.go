// Package simulatedcluster runs the SimulatedClusters of a host: its agent gets a credential for the agent of each, has a driver make and
// remove them, and reports how their control planes are.
//
// The agent's finalizer is on a SimulatedCluster before the driver is asked for anything, and goes when the driver says that nothing is
// left. Nothing is made before the hub says that it has made the Cluster, and nothing removed before it says that the Machines are
// gone. What the driver runs and no SimulatedCluster asks for is left alone. While the agent is frozen nothing is made or removed.
package simulatedcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

const (
	// shortest and longest are how long after a round the next one begins while there are SimulatedClusters: the longer the more time has
	// passed since all was as it is to be. Without any, a change is waited for.
	shortest, longest = time.Second, 5 * time.Second
	// breath is the least time between two rounds.
	breath = 500 * time.Millisecond
	// longestRound bounds a round, longestStep what is done for one SimulatedCluster in it. So many are worked on at a time.
	longestRound, longestStep = 30 * time.Second, 20 * time.Second
	concurrency               = 8
	// freshness is how long what an API server has said of itself is taken for how it is now.
	freshness = 30 * time.Second
)

// Deps are what a Controller works with. All are required but Driver and Log.
type Deps struct {
	// Cluster is the host on the hub.
	Cluster string
	// Hub has the SimulatedClusters, whose status and finalizer are written, and the certificate requests.
	Hub clients.Hub
	// Watch watches SimulatedClusters, or their metadata, between rounds.
	Watch poll.WatchFunc
	// Driver runs them, behind the freeze gate. Nil: the administrator of the host has not turned that on.
	Driver clusterdriver.Driver
	// Access tells where the agents of simulated clusters find the hub.
	Access func() (clusterdriver.HubAccess, error)
	// Lifetime is that of the first certificate of such an agent.
	Lifetime time.Duration
	Freeze   Freeze
	poll.Runtime
}

// Freeze is what has to be known of the freeze: a *freeze.Monitor.
type Freeze interface {
	freeze.Checker
	// Deciding returns a context for one decision, and what follows from it. See freeze.Monitor.
	Deciding(ctx context.Context) context.Context
}

// Controller runs SimulatedClusters. Readiness is only told by what the driver has just answered, so it asks at an interval.
type Controller struct {
	Deps
	// working is held by the round that works.
	working sync.Mutex
	known   map[types.UID]*memory
	// version is that of the last list of SimulatedClusters, empty if the hub did not answer; count is how many there were.
	version string
	count   int
	// unsettled is since when something is to be done; zero if nothing is.
	unsettled time.Time
	// unclaimed were the clusters of the driver that nobody asks for.
	unclaimed []string
}

// memory is what is known of a SimulatedCluster in this process only. Without it, the same is done again.
type memory struct {
	request    clientcert.HostedRequest
	credential *clientcert.Credential
	// ensured is what the driver was last asked for, generation that of the SimulatedCluster then.
	ensured    clusterdriver.Desired
	generation int64
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Cluster == "" || !deps.Hub.IsComplete() || deps.Watch == nil || deps.Access == nil || deps.Lifetime <= 0 || deps.Freeze == nil || deps.Clock == nil {
		return nil, errors.New("simulated clusters need the host's name and namespace, clients of the hub, a lifetime of certificates, the freeze state and a clock")
	}
	return &Controller{Deps: deps, known: map[types.UID]*memory{}}, nil
}

// Start works until ctx ends. It implements manager.Runnable. Without a driver it works until it has said so once: what is created later
// is refused by the hub.
func (c *Controller) Start(ctx context.Context) error {
	if c.Driver != nil {
		return poll.Loop{Doing: "Running simulated clusters", Do: c.Work, Timeout: longestRound, Next: c.awaitRound, Runtime: c.Runtime}.Run(ctx)
	}
	failures := poll.Failures{Log: c.Log}
	err := poll.Until(ctx, c.Clock, longest, func(ctx context.Context) (done bool, err error) {
		bounded, cancel := context.WithTimeout(ctx, longestRound)
		defer cancel()
		err = c.Work(bounded)
		failures.Note("Reporting that no simulated clusters are run", err)
		return err == nil && c.version != "", nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The agent ends.
	}
	return err
}

// awaitRound returns how long to wait for the next round. It first waits for a change.
func (c *Controller) awaitRound(ctx context.Context) time.Duration {
	c.working.Lock()
	version, wait := c.version, longest
	switch {
	case version != "" && c.count == 0:
		wait = poll.LongestSilence
	case !c.unsettled.IsZero():
		wait = min(max(c.Clock.Since(c.unsettled)/4, shortest), longest)
	}
	c.working.Unlock()
	if version != "" && poll.AwaitChange(ctx, c.Watch, version, wait) {
		return breath
	}
	return longest
}

// scope is one SimulatedCluster in one round.
type scope struct {
	// before is the SimulatedCluster as it was read, one as it is to be.
	before, one *v1alpha1.SimulatedCluster
	memory      *memory
	// found is what the driver has of that name; nil if there is nothing. silent is why that is not known.
	found    *clusterdriver.Observed
	versions []string
	silent   error
	// frozen is why nothing may be started or removed: the agent is frozen, or a user has frozen the SimulatedCluster.
	frozen error
	// said is ControlPlaneReady as it is to be; without a type it stays. unsettled: something is still to be done.
	said      metav1.Condition
	unsettled bool
	// waiting is why the driver is not asked for the version that is wanted yet; empty if it is.
	waiting string
}

// Work does one round: it reads all SimulatedClusters and what the driver has, and does what is next for each. One that fails stops no
// other one.
func (c *Controller) Work(ctx context.Context) error {
	c.working.Lock()
	defer c.working.Unlock()
	c.version = ""
	frozen := c.Freeze.Check()
	if freeze.IsBystander(frozen) {
		return nil
	}
	ctx = c.Freeze.Deciding(ctx)
	list := &v1alpha1.SimulatedClusterList{}
	switch err := c.Hub.Live.List(ctx, list, client.InNamespace(c.Hub.Namespace)); {
	case c.Driver == nil && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)):
		c.version = "none" // A hub of an earlier release has no simulated clusters.
		return nil
	case err != nil:
		return fmt.Errorf("listing simulated clusters: %w", err)
	}
	inventory, silent := c.listDriver(ctx)
	scopes, problems := c.openScopes(list.Items, inventory, silent, frozen)
	results := make([]error, len(scopes))
	group := errgroup.Group{}
	group.SetLimit(concurrency)
	for i, s := range scopes {
		group.Go(func() error { results[i] = c.advanceCluster(ctx, s); return nil })
	}
	_ = group.Wait()
	c.noteRound(list, scopes, inventory, silent)
	return errors.Join(errors.Join(problems...), errors.Join(results...))
}

// listDriver returns what the driver has.
func (c *Controller) listDriver(ctx context.Context) (clusterdriver.Inventory, error) {
	if c.Driver == nil {
		return clusterdriver.Inventory{}, errors.New("there is no driver")
	}
	bounded, cancel := context.WithTimeout(ctx, longestStep)
	defer cancel()
	return c.Driver.List(bounded)
}

// openScopes returns the scopes of all SimulatedClusters that can be read.
func (c *Controller) openScopes(items []v1alpha1.SimulatedCluster, inventory clusterdriver.Inventory, silent, frozen error) (scopes []*scope, problems []error) {
	remembered := c.known
	c.known = map[types.UID]*memory{}
	for i := range items {
		one := &items[i]
		known := remembered[one.UID]
		if known == nil {
			known = &memory{request: clientcert.HostedRequest{Host: c.Cluster, Cluster: one.Name, Lifetime: c.Lifetime, Clock: c.Clock}}
		}
		c.known[one.UID] = known
		if err := undecodable.Check(one); err != nil {
			problems = append(problems, err)
			continue
		}
		s := &scope{before: one, one: one.DeepCopy(), memory: known, versions: inventory.Versions, silent: silent, frozen: frozen}
		if reason, is := one.Annotations[v1alpha1.FreezeAnnotation]; is && frozen == nil {
			s.frozen = fmt.Errorf("its annotation %s says: %s", v1alpha1.FreezeAnnotation, cmp.Or(reason, "no reason given"))
		}
		if at := slices.IndexFunc(inventory.Clusters, func(o clusterdriver.Observed) bool { return o.Name == one.Name }); at >= 0 {
			s.found = &inventory.Clusters[at]
		}
		scopes = append(scopes, s)
	}
	return scopes, problems
}

// noteRound takes in how a round has ended.
func (c *Controller) noteRound(list *v1alpha1.SimulatedClusterList, scopes []*scope, inventory clusterdriver.Inventory, silent error) {
	c.version, c.count = list.ResourceVersion, len(list.Items)
	switch unsettled := slices.ContainsFunc(scopes, func(s *scope) bool { return s.unsettled }); {
	case !unsettled:
		c.unsettled = time.Time{}
	case c.unsettled.IsZero():
		c.unsettled = c.Clock.Now()
	}
	if silent != nil {
		return
	}
	var unclaimed []string
	for _, found := range inventory.Clusters {
		if c.known[types.UID(found.UID)] == nil {
			unclaimed = append(unclaimed, found.Name)
		}
	}
	if !slices.Equal(unclaimed, c.unclaimed) {
		c.Log.Info("Leaving simulated clusters alone that no SimulatedCluster on the hub asks for", "clusters", reconciler.ListFew(unclaimed))
	}
	c.unclaimed = unclaimed
}

// advanceCluster does what is next for one SimulatedCluster, and reports.
func (c *Controller) advanceCluster(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, longestStep)
	defer cancel()
	var err error
	switch {
	case c.Driver == nil:
		s.sayTurnedOff()
	case s.one.DeletionTimestamp != nil:
		err = c.removeCluster(ctx, s)
	default:
		err = c.ensureCluster(ctx, s)
	}
	err = errors.Join(err, c.report(ctx, s))
	s.unsettled = s.unsettled || err != nil
	if _, settled := outcome.Retry(err); settled || err == nil { // Another has written it, and the next round takes that in.
		return nil
	}
	return fmt.Errorf("simulated cluster %s: %w", s.one.Name, err)
}
