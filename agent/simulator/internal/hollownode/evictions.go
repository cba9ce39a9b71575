package hollownode

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/eviction"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

// pressure is what the kubelet's eviction manager has found out about the machine: what is there is reported, and pods are admitted by it.
// Without thresholds the manager finds nothing, and what a disruption puts there stays. With thresholds it would take it away again at its
// next look, were it not seen as observed in the far future.
type pressure struct {
	lock       *sync.RWMutex
	conditions *[]corev1.NodeConditionType
	// observed is when each condition was last observed, a map of a type that is private.
	observed reflect.Value
	// put are the conditions of disruptions.
	put []corev1.NodeConditionType
}

// farFuture is how long from now a condition of a disruption was last observed; more than ages means that one was.
const (
	farFuture = 100 * 365 * 24 * time.Hour
	ages      = farFuture / 2
)

func pressureOf(k *kubelet.Kubelet) (*pressure, error) {
	lock, lockErr := pointerTo[sync.RWMutex](k, evictionLock)
	conditions, conditionsErr := pointerTo[[]corev1.NodeConditionType](k, evictionConditions)
	observed, err := evictionObserved.fieldOf(k)
	return &pressure{lock: lock, conditions: conditions, observed: observed}, errors.Join(lockErr, conditionsErr, err)
}

// setConditions puts conditions there, and takes away those of disruptions that are over. Those that the manager has found by itself stay. The
// manager may write back what it has read before, so this is called again and again.
func (p *pressure) setConditions(conditions []corev1.NodeConditionType) {
	now := time.Now()
	p.lock.Lock()
	defer p.lock.Unlock()
	observed := reflect.MakeMap(p.observed.Type()) // The manager may be reading the one that is there.
	for _, key := range p.observed.MapKeys() {
		if at, is := p.observed.MapIndex(key).Interface().(time.Time); is && at.Sub(now) < ages {
			observed.SetMapIndex(key, p.observed.MapIndex(key))
		}
	}
	found := slices.DeleteFunc(slices.Clone(*p.conditions), func(name corev1.NodeConditionType) bool { return slices.Contains(p.put, name) })
	for _, name := range conditions {
		observed.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(now.Add(farFuture)))
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	p.observed.Set(observed)
	*p.conditions, p.put = found, slices.Clone(conditions)
}

// guardEvictions lets the loop of the eviction manager end with its node. Where nothing is to be evicted, and the loop would not end by itself,
// it does not start.
func guardEvictions(k *kubelet.Kubelet, l *life, evicts bool) error {
	if !evicts && minor.EndsEvictions {
		return nil
	}
	manager, err := getField[eviction.Manager](k, evictionManager)
	if err != nil {
		return err
	}
	if !evicts {
		return setField(k, evictionManager, eviction.Manager(restingEvictions{manager}))
	}
	return setField(k, evictionManager, eviction.Manager(guardedEvictions{manager, l}))
}

// restingEvictions is an eviction manager that looks at nothing.
type restingEvictions struct{ eviction.Manager }

// Start does not start the loop.
func (restingEvictions) Start(context.Context, eviction.DiskInfoProvider, eviction.ActivePodsFunc, eviction.PodCleanedUpFunc, time.Duration) {
}

// guardedEvictions is an eviction manager whose loop ends with its node: it asks for the pods in each round.
type guardedEvictions struct {
	eviction.Manager
	life *life
}

// Start starts the loop.
func (g guardedEvictions) Start(ctx context.Context, disk eviction.DiskInfoProvider, pods eviction.ActivePodsFunc, cleaned eviction.PodCleanedUpFunc, interval time.Duration) {
	guarded := func() []*corev1.Pod {
		_ = g.life.endGoroutine() // The loop holds no lock then.
		return pods()
	}
	g.Manager.Start(ctx, disk, guarded, cleaned, interval)
}
