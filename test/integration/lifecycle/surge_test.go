package lifecycle

import (
	"context"
	"maps"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("MachineDeployments of one surge group", func() {
	It("should never have more surge than one of them may, and all end (MCM #798)", fleettest.Long, func(ctx SpecContext) {
		strategy := rolling(1, 0)
		strategy.RollingUpdate.SurgeGroup = "zones"
		a, b := newPool(ctx, "zone-a", 2, strategy), newPool(ctx, "zone-b", 2, strategy)
		surplus := watchSurplus(ctx, a, b)
		a.upgrade(ctx)
		b.upgrade(ctx)
		a.rolledOut(ctx, newer)
		b.rolledOut(ctx, newer)
		Expect(surplus.most()).To(Equal(1), "of both together")
	}, SpecTimeout(6*fleettest.Patience))

	It("should wait for one that is stuck, say so, and continue when it goes back (MCM #798)", fleettest.Long, func(ctx SpecContext) {
		strategy := rolling(1, 0)
		strategy.RollingUpdate.SurgeGroup = "racks"
		a, b := newPool(ctx, "rack-a", 1, strategy), newPool(ctx, "rack-b", 1, strategy)
		surplus := watchSurplus(ctx, a, b)
		a.edit(ctx, `{"spec":{"template":{"spec":{"providerConfig":{"valueRef":{"name":"nowhere"}}}}}}`) // There is no such class.
		Eventually(ctx, func(ctx context.Context) []v1alpha1.Machine { return a.machines(ctx) }).Should(HaveLen(2))
		b.upgrade(ctx)
		b.progresses(ctx, v1alpha1.ReasonAwaitingSurge)
		Expect(b.Status.Conditions).To(ContainElement(And(
			HaveField("Type", v1alpha1.ProgressingCondition), HaveField("Message", ContainSubstring("used up by MachineDeployment rack-a")))))
		Expect(b.machines(ctx)).To(HaveLen(1))

		Expect(a.rollout(ctx, "undo")).To(ContainSubstring("rolled back"))
		a.rolledOut(ctx, older)
		b.rolledOut(ctx, newer)
		Expect(surplus.most()).To(Equal(1), "of both together")
	}, SpecTimeout(6*fleettest.Patience))
})

// surplus follows how many Machines some pools have beyond what each wants.
type surplus struct {
	mu     sync.Mutex
	pools  []*pool
	live   map[types.UID]string
	record int
}

// watchSurplus follows pools until the spec ends.
func watchSurplus(ctx context.Context, pools ...*pool) *surplus {
	GinkgoHelper()
	s := &surplus{pools: pools, live: map[types.UID]string{}}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watcher, err := fleet.HubClient.Watch(watching, &v1alpha1.MachineList{}, client.InNamespace(pools[0].Namespace))
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if machine, ok := event.Object.(*v1alpha1.Machine); ok {
				s.note(machine, event.Type == watch.Deleted)
			}
		}
	}()
	DeferCleanup(func() {
		cancel()
		watcher.Stop()
		<-done
	})
	return s
}

func (s *surplus) note(machine *v1alpha1.Machine, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[machine.UID] = machine.Labels[fleettest.PoolLabel]
	if gone {
		delete(s.live, machine.UID)
	}
	counts := map[string]int{}
	for name := range maps.Values(s.live) {
		counts[name]++
	}
	now := 0
	for _, p := range s.pools {
		now += max(counts[p.Name]-p.want, 0)
	}
	s.record = max(s.record, now)
}

// most is how many there were at once.
func (s *surplus) most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}
