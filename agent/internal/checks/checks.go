// Package checks reads what the hub has to know of a workload cluster before it starts an upgrade there, and to tell
// whether one went well: the disruption budgets that allow no eviction, the room that quotas leave for pods, and the health
// checks that a user asks for. It changes nothing.
//
// It reads at an interval, not with watches: what it needs of a large cluster is little, and none of it is needed at once.
package checks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// interval is how often everything is read, and restInterval how often while there is nothing to follow: no health check is asked for,
	// no budget is used up and no quota bounds the pods. restShare is how many times as long as a reading took nothing is read.
	interval     = 10 * time.Second
	restInterval = 30 * time.Second
	restShare    = 20
	// longest bounds one reading.
	longest = 20 * time.Second
	// keep is how long the last reading counts when the next ones fail.
	keep = time.Minute
)

// Deps are what a Checker works with. All are required but Log.
type Deps struct {
	// Target is a client of the workload cluster, and Nodes reads its Nodes from the cache.
	Target kubernetes.Interface
	Nodes  client.Reader
	// Host reads, uncached, from the cluster where the hollow-node pods run, in HostNamespace.
	Host          client.Reader
	HostNamespace string
	// Cluster returns the Cluster as it was seen last, nil if there is none to report on.
	Cluster func() *v1alpha1.Cluster
	Freeze  freeze.Checker
	poll.Runtime
}

// Result is what the last reading came to.
type Result struct {
	// Known is false before the first reading.
	Known bool
	// Conditions are DisruptionAllowed and those of the health checks.
	Conditions []metav1.Condition
	// PodQuota is nil if no quota bounds the hollow-node pods, or none can be read.
	PodQuota *v1alpha1.PodQuota
}

// Checker reads at an interval while the agent is not frozen.
type Checker struct {
	Deps

	// reading keeps two readings from running at once; the fields up to the next mutex are its.
	reading sync.Mutex
	// exhausted is since when each budget has allowed no disruption.
	exhausted map[types.UID]time.Time
	// last are the readings that succeeded, by what was read.
	last map[subject]good
	// failures are of those that could not be read the last time.
	failures poll.Failures
	// thaw is the freeze before whose end everything was read.
	thaw uint64
	// restsUntil is when everything is read again if the Cluster's spec stays that of generation; zero if there is something to follow.
	restsUntil time.Time
	generation int64

	mu     sync.Mutex
	result Result
}

// subject is what is read: the budgets, the quotas, or the Deployment of a health check. Its name is the type of the condition.
type subject struct {
	name       string
	deployment v1alpha1.DeploymentReference
}

// quotas is the name of a subject that has no condition.
const quotas = "ResourceQuotas"

// good is a reading that succeeded.
type good struct {
	at        time.Time
	condition metav1.Condition
	quota     *v1alpha1.PodQuota
}

// New returns a Checker.
func New(deps Deps) (*Checker, error) {
	if deps.Target == nil || deps.Nodes == nil || deps.Host == nil || deps.HostNamespace == "" || deps.Cluster == nil || deps.Freeze == nil || deps.Clock == nil {
		return nil, errors.New("checks.Deps: Target, Nodes, Host, HostNamespace, Cluster, Freeze and Clock are required")
	}
	return &Checker{Deps: deps, failures: poll.Failures{Log: deps.Log}}, nil
}

// Result returns what the last reading came to.
func (c *Checker) Result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

// Start reads until ctx ends. It implements manager.Runnable.
func (c *Checker) Start(ctx context.Context) error {
	var started time.Time
	return poll.Loop{
		Do: func(ctx context.Context) error {
			started = c.Clock.Now()
			if c.Freeze.Check() == nil && !c.isResting() {
				c.Read(ctx)
			}
			return nil
		},
		Next:    func(context.Context) time.Duration { return max(interval, restShare*c.Clock.Since(started)) },
		Runtime: c.Runtime,
	}.Run(ctx)
}

// isResting reports whether the last reading has found nothing to follow, and is not old.
func (c *Checker) isResting() bool {
	c.reading.Lock()
	defer c.reading.Unlock()
	cluster := c.Cluster()
	return cluster != nil && cluster.Generation == c.generation && c.Clock.Now().Before(c.restsUntil)
}

// ReadBeforeThaw reads once before the end of each freeze, so that the hub does not go by what was there before it.
func (c *Checker) ReadBeforeThaw(ctx context.Context, freeze uint64) {
	c.reading.Lock()
	done := c.thaw == freeze
	c.thaw = freeze
	c.reading.Unlock()
	if !done {
		c.Read(ctx)
	}
}

// Read reads everything once.
func (c *Checker) Read(ctx context.Context) {
	c.reading.Lock()
	defer c.reading.Unlock()
	cluster := c.Cluster()
	if cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	subjects := []subject{{name: v1alpha1.ClusterDisruptionAllowedCondition}, {name: quotas}}
	for _, check := range cluster.Spec.HealthChecks {
		subjects = append(subjects, subject{check.Type, check.Deployment})
	}
	now, result, last := c.Clock.Now(), Result{Known: true}, map[subject]good{}
	var names []string
	failed := false
	for _, what := range subjects {
		found, err := c.readSubject(ctx, what, cluster.Name, now)
		if err != nil {
			found, failed = c.lastReading(what, err, now), true
		}
		if !found.at.IsZero() {
			last[what] = found
		}
		names = append(names, "Reading for check "+what.name)
		c.failures.Note("Reading for check "+what.name, err)
		if what.name == quotas {
			result.PodQuota = found.quota
			continue
		}
		found.condition.Type, found.condition.ObservedGeneration = what.name, cluster.Generation
		result.Conditions = append(result.Conditions, found.condition)
	}
	c.last, c.generation, c.restsUntil = last, cluster.Generation, time.Time{}
	if !failed && len(cluster.Spec.HealthChecks) == 0 && len(c.exhausted) == 0 && result.PodQuota == nil {
		c.restsUntil = now.Add(restInterval)
	}
	c.failures.Retain(names...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = result
}

// readSubject reads one of the subjects.
func (c *Checker) readSubject(ctx context.Context, what subject, cluster string, now time.Time) (good, error) {
	found := good{at: now}
	var err error
	switch what.name {
	case v1alpha1.ClusterDisruptionAllowedCondition:
		found.condition, err = c.checkBudgets(ctx, cluster, now)
	case quotas:
		found.quota, err = c.tightestQuota(ctx)
	default:
		found.condition, err = c.checkDeployment(ctx, what.deployment)
	}
	return found, err
}

// lastReading is what counts of what could not be read now: the last reading, for a while.
func (c *Checker) lastReading(what subject, err error, now time.Time) good {
	if last, found := c.last[what]; found && now.Sub(last.at) < keep {
		return last
	}
	return good{condition: metav1.Condition{
		Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonCheckFailed, Message: fmt.Sprintf("the agent cannot read it: %v", err),
	}}
}
