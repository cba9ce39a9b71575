package hubidentity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// tick is how often it is asked whether to look. The hub is looked at every restingEvery while all is well. It is looked at every
	// lookEvery while it is strange, when the last renewal is to be stored, and when a Machine is gone, which may have been the last.
	tick         = time.Second
	lookEvery    = 10 * time.Second
	restingEvery = time.Minute
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
	// Last is the Cluster as it was seen last.
	Last clients.ClusterCache
	// Saw, if not nil, is told of the Lease as the hub's API server shows it before something is done for the hub.
	Saw func(*coordinationv1.Lease)
	// Changed is called after Blocked or Finding may have changed.
	Changed func()
	Metrics *Metrics
	poll.Runtime
}

// Verifier knows the hub.
type Verifier struct {
	Deps
	failures poll.Failures
	// looking is held by the goroutine that uses the store.
	looking sync.Mutex
	loaded  bool
	stored  Memory

	mu sync.Mutex
	// count counts the cluster's instances, once that can be done.
	count  func(context.Context) (int, error)
	memory Memory
	// lookedAt is when the hub was last looked at, and lost that a Machine is gone since.
	lookedAt time.Time
	lost     bool
	// hubSeen: the hub has been seen. hub is what it shows or, once that is judged, has confirmed since. sights counts
	// what was seen that has to be judged, renewals what the hub has confirmed.
	hubSeen, judged  bool
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
	if deps.Cluster == "" || deps.Store == nil || deps.Hub == nil || deps.Last == nil ||
		deps.Changed == nil || deps.Clock == nil || deps.Metrics == nil {
		return nil, errors.New("hubidentity.Deps: Cluster, Store, Hub, Last, Changed, Clock and Metrics are required")
	}
	return &Verifier{Deps: deps, failures: poll.Failures{Log: deps.Log}, kick: make(chan struct{}, 1)}, nil
}

// SetInstanceCounter says how the cluster's instances are counted, those that are being removed left out; nil if that cannot
// be done. The agent is frozen until it can.
func (v *Verifier) SetInstanceCounter(count func(context.Context) (int, error)) {
	v.mu.Lock()
	v.count = count
	v.mu.Unlock()
	v.wakeRun()
}

// MachineLost says that a Machine of the cluster is no longer on the hub.
func (v *Verifier) MachineLost() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost = true
}

// ErrBroken says that the hub does not continue from where it was: what was read from it before is not to be used any
// more, and its watches may continue for hours without telling what is missing since.
var ErrBroken = errors.New("the hub does not continue from where it was")

// Continuity returns a runnable that ends with ErrBroken when the hub breaks off after this call.
func (v *Verifier) Continuity() manager.Runnable {
	broken := make(chan struct{})
	v.mu.Lock()
	v.broken = broken
	v.mu.Unlock()
	return manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-broken:
			return ErrBroken
		}
	})
}

// Blocked tells why the agent may not work for this hub. It is a freeze.BlockerFunc.
func (v *Verifier) Blocked() (why freeze.Blocker, blocked bool) {
	last := v.Last.Cluster()
	v.mu.Lock()
	defer v.mu.Unlock()
	remade := last != nil && string(last.UID) != v.hub.ClusterUID
	switch {
	case !v.hubSeen:
		return freeze.Blocker{}, false // Nothing of the hub has been taken for granted yet.
	case v.memory.Finding != nil:
		found := v.memory.Finding
		return freeze.Blocker{Reason: found.Reason, Message: found.Message, Since: found.Since}, true
	case v.judged && !remade:
		return freeze.Blocker{}, false
	case v.judged && v.doubted.IsZero():
		v.doubted = v.Clock.Now()
	}
	message := "comparing the hub with the one that the agent knows"
	if v.problem != "" {
		message += "; so far that fails: " + v.problem
	}
	return freeze.Blocker{Reason: v1alpha1.ReasonHubUnchecked, Message: message, Since: v.doubted}, true
}

// Finding returns what waits for a person, empty if nothing does. It is not known before the hub was judged.
func (v *Verifier) Finding() (id string, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.memory.Finding != nil {
		return v.memory.Finding.ID, true
	}
	return "", v.judged
}

// Start looks at the hub, once it has been met, until ctx ends.
func (v *Verifier) Start(ctx context.Context) error {
	return poll.Loop{
		Do:    func(ctx context.Context) error { v.attemptCheck(ctx); return nil },
		Every: tick, Wake: v.kick, Runtime: v.Runtime,
	}.Run(ctx)
}

func (v *Verifier) wakeRun() {
	select {
	case v.kick <- struct{}{}:
	default:
	}
}

// attemptCheck looks if it is time to, and notes what keeps it from doing so.
func (v *Verifier) attemptCheck(ctx context.Context) {
	if !v.isDue() {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	var err error
	if v.isClusterReplaced() {
		err = v.compareHub(bounded)
	}
	if err == nil {
		err = v.checkHub(bounded)
	}
	if ctx.Err() != nil {
		return
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	v.mu.Lock()
	v.problem = problem
	v.mu.Unlock()
	v.failures.Note("Comparing the hub with the one that the agent knows", err)
}

// isClusterReplaced reports whether the Cluster that was seen last is not the one that was judged, or is to be.
func (v *Verifier) isClusterReplaced() bool {
	last := v.Last.Cluster()
	v.mu.Lock()
	defer v.mu.Unlock()
	return last != nil && string(last.UID) != v.hub.ClusterUID
}

// isDue reports whether there is something to look at.
func (v *Verifier) isDue() bool {
	last := v.Last.Cluster()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.hubSeen || v.count == nil || last == nil {
		return false
	}
	acknowledged := v.memory.Finding != nil && last.Annotations[v1alpha1.AcknowledgeHubAnnotation] == v.memory.Finding.ID
	period := restingEvery
	if v.lost || v.memory.Finding != nil || hasMoved(v.hub.Renewed, v.storedRenewal) {
		period = lookEvery
	}
	return !v.judged || acknowledged || string(last.UID) != v.hub.ClusterUID || v.Clock.Since(v.lookedAt) >= period
}

// checkHub judges what is seen now, and stores what came of it.
func (v *Verifier) checkHub(ctx context.Context) error {
	v.looking.Lock()
	defer v.looking.Unlock()
	if err := v.loadMemory(ctx); err != nil {
		return err
	}
	v.mu.Lock()
	sights, count := v.sights, v.count
	v.lost = false // One that goes from here on may still be counted.
	v.mu.Unlock()
	sight, err := v.observe(ctx, count)
	if err != nil {
		return err
	}
	v.mu.Lock()
	sight.Hub = v.hub
	next, outcome := Evaluate(v.memory, sight)
	v.mu.Unlock()
	if v.worthStoring(next) {
		if err := v.saveMemory(ctx, next); err != nil {
			return err
		}
	}
	v.settleOutcome(next, outcome, sights, sight)
	return nil
}

// observe sees what there is beside the hub's identity.
func (v *Verifier) observe(ctx context.Context, count func(context.Context) (int, error)) (Observation, error) {
	sight := Observation{Cluster: v.Cluster, Nonce: uuid.NewString(), Now: v.Clock.Now()}
	if last := v.Last.Cluster(); last != nil {
		sight.Acknowledged = last.Annotations[v1alpha1.AcknowledgeHubAnnotation]
	}
	var err error
	if sight.Machines, err = v.someMachines(ctx); err != nil {
		return sight, err
	}
	if sight.Instances, err = count(ctx); err != nil {
		return sight, fmt.Errorf("counting the instances: %w", err)
	}
	if sight.Machines == 0 && sight.Instances > 0 {
		// A Machine that was created in between has an instance by now.
		sight.Machines, err = v.someMachines(ctx)
	}
	return sight, err
}

// someMachines asks the hub's API server whether it has any Machine.
func (v *Verifier) someMachines(ctx context.Context) (int, error) {
	machines := &v1alpha1.MachineList{}
	if err := v.Hub.List(ctx, machines, client.InNamespace(v.Cluster), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("listing the hub's Machines: %w", err)
	}
	return len(machines.Items), nil
}

// settleOutcome takes a judgement in, unless something else has been seen meanwhile.
func (v *Verifier) settleOutcome(next Memory, outcome Outcome, sights uint64, sight Observation) {
	v.mu.Lock()
	if v.sights != sights {
		v.mu.Unlock()
		v.wakeRun()
		return
	}
	news := !v.judged || outcome != Unchanged
	before := v.memory
	v.memory, v.judged, v.doubted = next, true, time.Time{}
	v.lookedAt = v.Clock.Now()
	v.mu.Unlock()
	if outcome != Unchanged {
		v.Metrics.recordOutcome(outcome)
	}
	v.logOutcome(before, next, outcome, sight)
	if news {
		v.Changed()
	}
}

// logOutcome says in the log what came of a look.
func (v *Verifier) logOutcome(before, now Memory, outcome Outcome, sight Observation) {
	log := v.Log.WithValues("Cluster", v.Cluster, "clusterUID", sight.Hub.ClusterUID)
	switch outcome {
	case Unchanged:
	case Met:
		log.Info("Recording the identity of the hub", "instances", sight.Instances)
	case NothingToLose:
		log.Info("Working for a hub that is not the previous one, because the cluster has no instance to lose", "known", before.Hub)
	case Found:
		log.Info("Finding a different or restored hub: nothing is created or deleted until a user acknowledges it",
			"finding", now.Finding.ID, "reason", now.Finding.Reason, "message", now.Finding.Message)
	case Back:
		log.Info("Finding the known hub again", "finding", before.Finding.ID)
	case Acknowledged:
		user := ""
		if last := v.Last.Cluster(); last != nil {
			user = last.Annotations[v1alpha1.AcknowledgeHubUserAnnotation]
		}
		log.Info("Working for the hub that a user has acknowledged",
			"finding", before.Finding.ID, "reason", before.Finding.Reason, "user", user, "instances", sight.Instances)
	}
}

// Metrics of a Verifier.
type Metrics struct {
	outcomes *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_agent_hub_looks_total",
		Help: "Checks of the hub's identity that changed something, by outcome: Met, NothingToLose, Found, Back, Acknowledged.",
	}, []string{"outcome"})}
	registerer.MustRegister(m.outcomes)
	for _, outcome := range changes {
		m.outcomes.WithLabelValues(string(outcome))
	}
	return m
}

func (m *Metrics) recordOutcome(outcome Outcome) {
	m.outcomes.WithLabelValues(string(outcome)).Inc()
}
