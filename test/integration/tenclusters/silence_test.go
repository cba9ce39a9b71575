package tenclusters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	pool      = "herd"
	few, many = 1, 3
	// dearest is how many times as much the hub may have to do for nine clusters when a tenth one is silent. It should
	// be once; but a busy machine gives more time in between, and so more steps are seen one by one.
	dearest = 2
	// stall is less than what a single call to a silent cluster, waited for in vain, would cost the others. What a busy
	// machine adds is another time each time: the best of tries counts.
	stall = 5 * time.Second
	tries = 3
)

// herd is the pool of one cluster.
type herd struct {
	member     *localfleet.Member
	deployment *v1alpha1.MachineDeployment
}

// growth is what it takes to add Machines to nine clusters.
type growth struct {
	work
	// made and ready are the times until each cluster had all of them, and had all of them Ready, from the order to all
	// nine. The first is the hub's alone.
	made, ready map[string]time.Duration
}

func (g growth) String() string {
	return fmt.Sprintf("%s; made after %s, Ready after %s in the slowest cluster", g.work,
		slowest(g.made).Round(10*time.Millisecond), slowest(g.ready).Round(10*time.Millisecond))
}

func slowest(of map[string]time.Duration) time.Duration {
	return slices.Max(slices.Collect(maps.Values(of)))
}

var _ = Describe("Ten clusters", fleettest.Long, func() {
	It("should not notice that one of them is silent", func(ctx SpecContext) {
		var herds []herd
		for _, member := range fleet.Members {
			herds = append(herds, herd{member, fleet.NewDeployment(ctx, member, pool, few)})
		}
		for _, h := range herds {
			fleet.ExpectReady(ctx, h.member, pool, few)
		}
		nine, silent := herds[:clusters-1], herds[clusters-1]
		// The first time is for the programs and the machine to become warm.
		grow(ctx, nine)
		sound := grow(ctx, nine)

		agent := silent.member.Agent
		Expect(agent.Signal(syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(func() error { return agent.Signal(syscall.SIGCONT) })
		expectFrozen(ctx, silent.member)
		fleet.Scale(ctx, silent.deployment, many)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			waiting := silent.deployment.DeepCopy()
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(waiting), waiting)).To(Succeed())
			g.Expect(waiting.Status.ObservedGeneration).To(Equal(waiting.Generation))
		}).Should(Succeed(), "the hub observes also what is frozen")
		AddReportEntry("nine clusters with a sound tenth", sound.String())
		var made, ready []time.Duration
		bound := func(of map[string]time.Duration) time.Duration { return dearest*slowest(of) + stall }
		for try := 1; try <= tries; try++ {
			beside := grow(ctx, nine)
			AddReportEntry("nine clusters beside a silent tenth", beside.String())
			Expect(beside.reconciles).To(BeNumerically("<=", dearest*sound.reconciles), "reconciles beside a silent cluster")
			Expect(beside.writes).To(BeNumerically("<=", dearest*sound.writes), "writes beside a silent cluster")
			made, ready = append(made, slowest(beside.made)), append(ready, slowest(beside.ready))
			if beside.stalls <= sound.stalls && slices.Min(made) <= bound(sound.made) && slices.Min(ready) <= bound(sound.ready) {
				break
			}
			Expect(try).To(BeNumerically("<", tries), "%s, and that is slow each time: made after %s, Ready after %s, and with a sound tenth %s", beside, made, ready, sound)
		}
		Expect(fleet.MachinesOf(ctx, NewWithT(GinkgoT()), silent.member, pool)).To(HaveLen(few), "frozen means frozen")

		Expect(agent.Signal(syscall.SIGCONT)).To(Succeed())
		fleet.ExpectReady(ctx, silent.member, pool, many)
	}, SpecTimeout(8*fleettest.Patience))
})

// grow adds Machines to all clusters at once, measures that, and takes them away again.
func grow(ctx context.Context, herds []herd) growth {
	GinkgoHelper()
	before, began := workSoFar(ctx, NewWithT(GinkgoT())), time.Now()
	for _, h := range herds {
		fleet.Scale(ctx, h.deployment, many)
	}
	grown := growth{made: map[string]time.Duration{}, ready: map[string]time.Duration{}}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		for _, h := range herds {
			name := h.member.Name
			if _, seen := grown.ready[name]; seen {
				continue
			}
			if _, seen := grown.made[name]; !seen {
				if len(fleet.MachinesOf(ctx, g, h.member, pool)) < many {
					continue
				}
				grown.made[name] = time.Since(began)
			}
			if status := statusOf(ctx, g, h); status.Replicas == many && status.AvailableReplicas == many {
				grown.ready[name] = time.Since(began)
			}
		}
		g.Expect(grown.ready).To(HaveLen(len(herds)))
	}).Should(Succeed(), "all clusters grow")
	grown.work = workSoFar(ctx, NewWithT(GinkgoT())).minus(before)
	for _, h := range herds {
		fleet.Scale(ctx, h.deployment, few)
	}
	for _, h := range herds {
		fleet.ExpectReady(ctx, h.member, pool, few)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			status := statusOf(ctx, g, h)
			g.Expect([]int32{status.Replicas, status.AvailableReplicas}).To(HaveEach(int32(few)))
		}).Should(Succeed(), "%s shrinks", h.member.Name)
	}
	return grown
}

// statusOf is what the hub knows of a pool; nothing as long as it has not seen the last order.
func statusOf(ctx context.Context, g Gomega, h herd) v1alpha1.MachineDeploymentStatus {
	seen := h.deployment.DeepCopy()
	g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(seen), seen)).To(Succeed())
	if seen.Status.ObservedGeneration != seen.Generation {
		return v1alpha1.MachineDeploymentStatus{}
	}
	return seen.Status
}

func expectFrozen(ctx context.Context, member *localfleet.Member) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		cluster := &v1alpha1.Cluster{}
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Name: member.Name}, cluster)).To(Succeed())
		frozen := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.FrozenCondition)
		g.Expect(frozen).To(HaveValue(HaveField("Reason", v1alpha1.ReasonAgentSilent)))
	}).Should(Succeed(), "%s freezes", member.Name)
}
