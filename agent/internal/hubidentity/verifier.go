package hubidentity

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// tick is how often it is asked whether to look, and lookEvery how often the hub is looked at when all is well.
	tick      = time.Second
	lookEvery = 10 * time.Second
	// storeEvery is how far the last confirmed renewal may be ahead of the one that is stored.
	storeEvery = 2 * time.Minute
	// longestLook bounds one look, longestSave what a renewal waits for.
	longestLook = 10 * time.Second
	longestSave = 2 * time.Second
)

// Deps are what a Verifier works with. All are required but Saw and Log.
type Deps struct {
	// Cluster is the agent's cluster, and the name of its namespace on the hub.
	Cluster string
	Store   *Store
	// Hub reads from the hub's API server.
	Hub client.Reader
	// Last returns the Cluster as it was seen last, nil if never. Seen takes in a newer one.
	Last func() *v1alpha1.Cluster
	Seen func(*v1alpha1.Cluster)
	// Saw, if not nil, is told of the Lease as the hub's API server shows it before something is done for the hub.
	Saw func(*coordinationv1.Lease)
	// Changed is called after Blocked or Finding may have changed.
	Changed func()
	// Nonce returns something else each time.
	Nonce   func() string
	Clock   clock.WithTicker
	Log     logr.Logger
	Metrics *Metrics
}

// Verifier knows the hub.
type Verifier struct {
	Deps
	// looking is held by the goroutine that uses the store.
	looking sync.Mutex
	loaded  bool
	stored  Memory
	lookAt  time.Time

	mu sync.Mutex
	// count counts the cluster's instances, once that can be done.
	count  func(context.Context) (int, error)
	memory Memory
	// begun: the hub has been seen. hub is what it shows or, once that is judged, has confirmed since. sights counts
	// what was seen that has to be judged, renewals what the hub has confirmed.
	begun, judged    bool
	hub              Hub
	sights, renewals uint64
	// storedRenewal is the last renewal that the store knows.
	storedRenewal time.Time
	// doubted is since when there is something to judge, or since when the Cluster has another UID; problem is why it
	// could not be judged.
	doubted time.Time
	problem string

	// broken, if there, is closed when the hub breaks off.
	broken chan struct{}

	kick chan struct{}
}

// New returns a Verifier. It knows nothing before Start.
func New(deps Deps) (*Verifier, error) {
	if deps.Cluster == "" || deps.Store == nil || deps.Hub == nil || deps.Last == nil || deps.Seen == nil ||
		deps.Changed == nil || deps.Nonce == nil || deps.Clock == nil || deps.Metrics == nil {
		return nil, errors.New("the keeper of the hub's identity needs a cluster, a store, the hub, a nonce, a clock and metrics")
	}
	return &Verifier{Deps: deps, kick: make(chan struct{}, 1)}, nil
}

// Instances says how the cluster's instances are counted, those that are being removed left out; nil if that cannot
// be done. The agent is frozen until it can.
func (k *Verifier) Instances(count func(context.Context) (int, error)) {
	k.mu.Lock()
	k.count = count
	k.mu.Unlock()
	k.wake()
}

// ErrBroken says that the hub does not go on from where it was: what was read from it before is not to be used any
// more, and its watches may go on for hours without telling what is missing since.
var ErrBroken = errors.New("the hub does not go on from where it was")

// Continuity returns a runnable that ends with ErrBroken when the hub breaks off after this call.
func (k *Verifier) Continuity() manager.Runnable {
	broken := make(chan struct{})
	k.mu.Lock()
	k.broken = broken
	k.mu.Unlock()
	return manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-broken:
			return ErrBroken
		}
	})
}

// Blocked tells why the agent may not work for this hub. It implements freeze.Barrier.
func (k *Verifier) Blocked() (why freeze.Blocker, barred bool) {
	last := k.Last()
	k.mu.Lock()
	defer k.mu.Unlock()
	remade := last != nil && string(last.UID) != k.hub.ClusterUID
	switch {
	case !k.begun:
		return freeze.Blocker{}, false // Nothing of the hub has been taken for granted yet.
	case k.memory.Finding != nil:
		found := k.memory.Finding
		return freeze.Blocker{Reason: found.Reason, Message: found.Message, Since: found.Since}, true
	case k.judged && !remade:
		return freeze.Blocker{}, false
	case k.judged && k.doubted.IsZero():
		k.doubted = k.Clock.Now()
	}
	message := "the hub is compared with the one that the agent knows"
	if k.problem != "" {
		message += "; so far that fails: " + k.problem
	}
	return freeze.Blocker{Reason: v1alpha1.ReasonHubUnchecked, Message: message, Since: k.doubted}, true
}

// Finding returns what waits for a person, empty if nothing does. It is not known before the hub was judged.
func (k *Verifier) Finding() (id string, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.memory.Finding != nil {
		return k.memory.Finding.ID, true
	}
	return "", k.judged
}

// Start looks at the hub, once it has been met, until ctx ends.
func (k *Verifier) Start(ctx context.Context) error {
	ticker := k.Clock.NewTicker(tick)
	defer ticker.Stop()
	for {
		k.attempt(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		case <-k.kick:
		}
	}
}

func (k *Verifier) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// attempt looks if it is time to, and says in the log what keeps it from doing so, once.
func (k *Verifier) attempt(ctx context.Context) {
	if !k.due() {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	var err error
	if k.remade() {
		err = k.compare(bounded)
	}
	if err == nil {
		err = k.check(bounded)
	}
	if ctx.Err() != nil {
		return
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	k.mu.Lock()
	before := k.problem
	k.problem = problem
	k.mu.Unlock()
	if problem != "" && before == "" {
		k.Log.Info("Comparing the hub with the one that the agent knows fails", "error", problem)
	}
}

// remade tells whether the Cluster that was seen last is not the one that was judged, or is to be.
func (k *Verifier) remade() bool {
	last := k.Last()
	k.mu.Lock()
	defer k.mu.Unlock()
	return last != nil && string(last.UID) != k.hub.ClusterUID
}

// due tells whether there is something to look at.
func (k *Verifier) due() bool {
	last := k.Last()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.begun || k.count == nil || last == nil {
		return false
	}
	acknowledged := k.memory.Finding != nil && last.Annotations[v1alpha1.AcknowledgeHubAnnotation] == k.memory.Finding.ID
	return !k.judged || acknowledged || string(last.UID) != k.hub.ClusterUID || !k.Clock.Now().Before(k.lookAt)
}

// check judges what is seen now, and stores what came of it.
func (k *Verifier) check(ctx context.Context) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	if err := k.load(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	sights, count := k.sights, k.count
	k.mu.Unlock()
	sight, err := k.observe(ctx, count)
	if err != nil {
		return err
	}
	k.mu.Lock()
	sight.Hub = k.hub
	next, outcome := Evaluate(k.memory, sight)
	k.mu.Unlock()
	if k.worthStoring(next) {
		if err := k.save(ctx, next); err != nil {
			return err
		}
	}
	k.settle(next, outcome, sights, sight)
	return nil
}

// observe sees what there is beside the hub's identity.
func (k *Verifier) observe(ctx context.Context, count func(context.Context) (int, error)) (Observation, error) {
	sight := Observation{Cluster: k.Cluster, Nonce: k.Nonce(), Now: k.Clock.Now()}
	if last := k.Last(); last != nil {
		sight.Acknowledged = last.Annotations[v1alpha1.AcknowledgeHubAnnotation]
	}
	var err error
	if sight.Machines, err = k.someMachines(ctx); err != nil {
		return sight, err
	}
	if sight.Instances, err = count(ctx); err != nil {
		return sight, fmt.Errorf("counting the instances: %w", err)
	}
	if sight.Machines == 0 && sight.Instances > 0 {
		// A Machine that was created in between has an instance by now.
		sight.Machines, err = k.someMachines(ctx)
	}
	return sight, err
}

// someMachines asks the hub's API server whether it has any Machine.
func (k *Verifier) someMachines(ctx context.Context) (int, error) {
	machines := &v1alpha1.MachineList{}
	if err := k.Hub.List(ctx, machines, client.InNamespace(k.Cluster), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("listing the hub's Machines: %w", err)
	}
	return len(machines.Items), nil
}

// settle takes a judgement in, unless something else has been seen meanwhile.
func (k *Verifier) settle(next Memory, outcome Outcome, sights uint64, sight Observation) {
	k.mu.Lock()
	if k.sights != sights {
		k.mu.Unlock()
		k.wake()
		return
	}
	news := !k.judged || outcome != Unchanged
	before := k.memory
	k.memory, k.judged, k.doubted = next, true, time.Time{}
	k.lookAt = k.Clock.Now().Add(lookEvery)
	k.mu.Unlock()
	if outcome != Unchanged {
		k.Metrics.record(outcome)
	}
	k.report(before, next, outcome, sight)
	if news {
		k.Changed()
	}
}

// report says in the log what came of a look.
func (k *Verifier) report(before, now Memory, outcome Outcome, sight Observation) {
	log := k.Log.WithValues("Cluster", k.Cluster, "clusterUID", sight.Hub.ClusterUID)
	switch outcome {
	case Unchanged:
	case Met:
		log.Info("Getting acquainted with the hub", "instances", sight.Instances)
	case NothingToLose:
		log.Info("Working for a hub that is not the one of before, because the cluster has no instance to lose", "known", before.Hub)
	case Found:
		log.Info("Finding a strange hub: nothing is created or deleted until a person acknowledges it",
			"finding", now.Finding.ID, "reason", now.Finding.Reason, "message", now.Finding.Message)
	case Back:
		log.Info("Finding the hub back that the agent knows", "finding", before.Finding.ID)
	case Acknowledged:
		user := ""
		if last := k.Last(); last != nil {
			user = last.Annotations[v1alpha1.AcknowledgeHubUserAnnotation]
		}
		log.Info("Working for the hub that was found strange, because a person has acknowledged it",
			"finding", before.Finding.ID, "reason", before.Finding.Reason, "user", user, "instances", sight.Instances)
	}
}

// load reads the memory if it is not known.
func (k *Verifier) load(ctx context.Context) error {
	if k.loaded {
		return nil
	}
	memory, err := k.Store.load(ctx)
	if err != nil {
		return err
	}
	k.loaded, k.stored = true, memory
	k.mu.Lock()
	k.memory, k.storedRenewal = memory, memory.Current().Renewed
	k.mu.Unlock()
	return nil
}

// worthStoring tells whether next differs from what is stored by more than a renewal that is not much later.
func (k *Verifier) worthStoring(next Memory) bool {
	moved, stored := next.Current().Renewed, k.stored.Current().Renewed
	if moved.IsZero() != stored.IsZero() || moved.Sub(stored).Abs() >= storeEvery {
		return true
	}
	return !reflect.DeepEqual(at(next, stored), k.stored)
}

// at is memory with another last renewal.
func at(memory Memory, renewed time.Time) Memory {
	if memory.Finding != nil {
		finding := *memory.Finding
		memory.Finding = &finding
	}
	memory.Current().Renewed = renewed
	return memory
}

func (k *Verifier) save(ctx context.Context, memory Memory) error {
	if err := k.Store.save(ctx, memory); err != nil {
		k.loaded = false // Whatever came of it, it is read anew.
		return err
	}
	k.stored = memory
	k.mu.Lock()
	k.storedRenewal = memory.Current().Renewed
	k.mu.Unlock()
	return nil
}

// Metrics of a Verifier.
type Metrics struct {
	outcomes *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_hub_looks_total",
		Help: "Looks at the hub's identity that changed something, by outcome: Met, NothingToLose, Found, Back, Acknowledged.",
	}, []string{"outcome"})}
	registerer.MustRegister(m.outcomes)
	return m
}

func (m *Metrics) record(outcome Outcome) {
	m.outcomes.WithLabelValues(string(outcome)).Inc()
}
