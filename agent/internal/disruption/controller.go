package disruption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

const (
	// interval is how often the runs are read, and how old they may be when a pod is created. It is well below lead, and a run that starts
	// is found in time. While nothing is to be done, a change is waited for instead.
	interval = 5 * time.Second
	// restAfter is how long nothing is to be done before that: a pod that is created may still have the plan of a run that is over.
	restAfter = time.Minute
	// longest bounds one round.
	longest = 30 * time.Second
)

// Deps are what a Controller works with. All are required but Log.
type Deps struct {
	// Hub has the Machines, from the cache, and the runs.
	Hub clients.Hub
	// Watch watches the runs, or their metadata, while there is nothing to do.
	Watch poll.WatchFunc
	// Nodes reads the Nodes of the target from the cache.
	Nodes client.Reader
	// Host has the hollow-node pods, from the cache, whose annotations are written.
	Host clients.Host
	// Target lists the pods of Nodes, when their eviction is expected.
	Target kubernetes.Interface
	Freeze Freeze
	poll.Runtime
}

// Freeze is what has to be known of the freeze: a *freeze.Monitor.
type Freeze interface {
	freeze.Checker
	freeze.Downtime
	// Answered is when an API server last gave a good answer.
	Answered(scope freeze.Scope) time.Time
}

// Controller carries runs out. While there are any it reads at an interval: what it waits for are mostly times.
type Controller struct {
	Deps
	// working is held by the round that works. mu guards arrivals, and is held while nothing is read or written.
	working  sync.Mutex
	mu       sync.Mutex
	arrivals arrivals
	// version is that of the last list of runs, empty if the hub did not answer. busyAt is when something was last to be done.
	version string
	busyAt  time.Time
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if !deps.Hub.IsComplete() || deps.Watch == nil || deps.Nodes == nil || deps.Host.Client == nil || deps.Host.Namespace == "" || deps.Target == nil || deps.Freeze == nil || deps.Clock == nil {
		return nil, errors.New("node disruptions need the cluster's namespace, clients of hub, target and host, the host's namespace, the freeze state and a clock")
	}
	return &Controller{Deps: deps, arrivals: arrivals{asking: map[string]types.UID{}, since: map[types.UID]time.Time{}}}, nil
}

// Start works until ctx ends. It implements manager.Runnable.
func (c *Controller) Start(ctx context.Context) error {
	return poll.Loop{Doing: "Carrying out node disruptions", Do: c.Work, Timeout: longest, Next: c.awaitRound, Runtime: c.Runtime}.Run(ctx)
}

// awaitRound returns how long to wait for the next round. While nothing is to be done, it first waits for a change of a run.
func (c *Controller) awaitRound(ctx context.Context) time.Duration {
	c.mu.Lock()
	version, rests := c.version, c.version != "" && (c.busyAt.IsZero() || c.Clock.Since(c.busyAt) >= restAfter)
	c.mu.Unlock()
	if rests && poll.AwaitChange(ctx, c.Watch, version, poll.LongestSilence) {
		return 0
	}
	return interval
}

// noteRound takes in the version of a list of runs, empty if there is none, and whether something is to be done for them.
func (c *Controller) noteRound(version string, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
	if busy {
		c.busyAt = c.Clock.Now()
	}
}

// Work reads everything, and writes what follows: first what the runs are to know, then the plans, which are made of nothing
// else. An object that cannot be read or written stops no other one.
func (c *Controller) Work(ctx context.Context) error {
	c.working.Lock()
	defer c.working.Unlock()
	return c.advanceRuns(ctx)
}

// advanceRuns is Work for who holds the lock.
func (c *Controller) advanceRuns(ctx context.Context) error {
	c.noteRound("", false)
	if freeze.IsBystander(c.Freeze.Check()) {
		return nil
	}
	arriving := c.arrivingMachines()
	runs := &v1alpha1.NodeDisruptionRunList{}
	switch err := c.Hub.Live.List(ctx, runs, client.InNamespace(c.Hub.Namespace)); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// A hub of an earlier release has no disruptions. This is no list without runs: plans stay as they are, and end by themselves.
		c.rememberRound(c.arrivals.runs, arriving, nil)
		return nil
	case err != nil:
		return fmt.Errorf("listing node disruption runs: %w", err)
	}
	world, problems, err := c.observe(ctx, runs.Items)
	if err != nil {
		return err
	}
	world.Arriving = arriving
	decision := Decide(world)
	c.noteRound(runs.ResourceVersion, len(problems) > 0 || world.isBusy())
	unwritten := map[types.UID]error{}
	for i := range world.Runs {
		run := &world.Runs[i]
		if err := c.report(ctx, run, decision.Statuses[i]); err != nil {
			problems, unwritten[run.UID] = append(problems, err), err
			continue
		}
		run.Status = decision.Statuses[i]
	}
	if world.Frozen {
		c.rememberRound(world.Runs, nil, unwritten)
		return errors.Join(problems...)
	}
	c.rememberRound(world.Runs, arriving, unwritten)
	for _, name := range slices.Sorted(maps.Keys(decision.Plans)) {
		problems = append(problems, c.writePlan(ctx, name, decision.Plans[name]))
	}
	return errors.Join(problems...)
}

// observe reads what a decision rests on: without any run, the pods of which a plan may have to be taken off. It also returns
// what concerns single objects and stops no other one.
func (c *Controller) observe(ctx context.Context, runs []v1alpha1.NodeDisruptionRun) (World, []error, error) {
	world := World{
		Now: c.Clock.Now(), Frozen: c.Freeze.Check() != nil, Downtime: c.Freeze.FrozenSince, Answered: c.Freeze.Answered(freeze.Target),
		Nodes: map[string]*corev1.Node{}, Pods: map[string]Pod{}, Unreadable: map[string]bool{}, Evictable: map[string]int32{},
	}
	var problems []error
	for i := range runs {
		if err := undecodable.Check(&runs[i]); err != nil {
			problems = append(problems, err)
			world.Unreadable[string(runs[i].UID)] = true
			continue
		}
		world.Runs = append(world.Runs, runs[i])
	}
	machines, nodes, pods := &v1alpha1.MachineList{}, &corev1.NodeList{}, &corev1.PodList{}
	var failures []error
	if len(world.Runs) > 0 {
		failures = append(failures,
			c.Hub.List(ctx, machines, client.InNamespace(c.Hub.Namespace), client.UnsafeDisableDeepCopy), c.Nodes.List(ctx, nodes, client.UnsafeDisableDeepCopy))
	}
	failures = append(failures, c.Host.List(ctx, pods, client.InNamespace(c.Host.Namespace), client.UnsafeDisableDeepCopy))
	if err := errors.Join(failures...); err != nil {
		return World{}, nil, fmt.Errorf("reading the state for node disruptions: %w", err)
	}
	for _, machine := range machines.Items {
		if machine.DecodeError == "" {
			world.Machines = append(world.Machines, machine)
		}
	}
	for i := range nodes.Items {
		world.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if name := pod.Labels[v1alpha1.MachineNameLabel]; name != "" && pod.DeletionTimestamp == nil {
			world.Pods[name] = Pod{Disruptable: hollow.Disruptable(pod), Plan: pod.Annotations[disrupt.Annotation]}
		}
	}
	for _, name := range world.evictionsExpected() {
		pods, err := c.countEvictable(ctx, name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		world.Evictable[name] = pods
	}
	return world, problems, nil
}

// countEvictable counts the pods of a Node that an eviction would take. The API server answers from its cache.
func (c *Controller) countEvictable(ctx context.Context, node string) (int32, error) {
	pods, err := c.Target.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), ResourceVersion: "0",
	})
	if err != nil {
		return 0, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	var count int32
	for i := range pods.Items {
		if isEvictable(&pods.Items[i]) {
			count++
		}
	}
	return count, nil
}

// report writes the status of a run if it has changed.
func (c *Controller) report(ctx context.Context, run *v1alpha1.NodeDisruptionRun, status v1alpha1.NodeDisruptionRunStatus) error {
	if equality.Semantic.DeepEqual(run.Status, status) {
		return nil
	}
	changed := run.DeepCopy()
	changed.Status = status
	// Another agent may have started the run in the meantime: its choice must not be replaced.
	if err := c.Hub.Status().Patch(ctx, changed, reconciler.MergeFromWithLock(run)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of node disruption run %s: %w", run.Name, err)
	}
	return nil
}

// writePlan puts a plan on the pod of a Machine, or takes it off.
func (c *Controller) writePlan(ctx context.Context, machine, plan string) error {
	pods := &corev1.PodList{}
	if err := c.Host.List(ctx, pods, client.InNamespace(c.Host.Namespace), client.MatchingLabels{v1alpha1.MachineNameLabel: machine}); err != nil {
		return fmt.Errorf("finding the pod of machine %s: %w", machine, err)
	}
	for i := range pods.Items {
		before := &pods.Items[i]
		after := before.DeepCopy()
		if plan == "" {
			delete(after.Annotations, disrupt.Annotation)
		} else {
			metav1.SetMetaDataAnnotation(&after.ObjectMeta, disrupt.Annotation, plan)
		}
		// A pod of that name that was made since has no disruption, or another one.
		if err := c.Host.Patch(ctx, after, reconciler.MergeFromWithLock(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the plan of disruptions on pod %s: %w", before.Name, err)
		}
	}
	return nil
}
