package tenclusters

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	pool      = "herd"
	few, many = 1, 3
	// dearest is how many times as much the hub may have to do for nine clusters when a tenth one is silent. It should
	// be once; but a busy machine gives more time in between, and so more steps are seen one by one.
	dearest = 2
	// stall is less than what a single call to a silent cluster, waited for in vain, would cost the others.
	stall = 20 * time.Second
)

// herd is the pool of one cluster.
type herd struct {
	member     *localfleet.Member
	deployment *v1alpha1.MachineDeployment
}

// growth is what it takes to add Machines to nine clusters.
type growth struct {
	work
	// each is the time until a cluster had all of them Ready, from the order to all nine.
	each []time.Duration
}

func (g growth) String() string {
	return fmt.Sprintf("%s; Ready after %s on average, %s at most", g.work,
		g.average().Round(10*time.Millisecond), slices.Max(g.each).Round(10*time.Millisecond))
}

func (g growth) average() time.Duration {
	sum := time.Duration(0)
	for _, one := range g.each {
		sum += one
	}
	return sum / time.Duration(len(g.each))
}

var _ = Describe("Ten clusters", func() {
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
		beside := grow(ctx, nine)

		AddReportEntry("nine clusters with a sound tenth", sound.String())
		AddReportEntry("nine clusters beside a silent tenth", beside.String())
		Expect(beside.reconciles).To(BeNumerically("<=", dearest*sound.reconciles), "reconciles beside a silent cluster")
		Expect(beside.writes).To(BeNumerically("<=", dearest*sound.writes), "writes beside a silent cluster")
		Expect(beside.average()).To(BeNumerically("<=", dearest*sound.average()+stall), "time beside a silent cluster")
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
	took := map[string]time.Duration{}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		for _, h := range herds {
			if _, seen := took[h.member.Name]; !seen && atRest(ctx, g, h, many) {
				took[h.member.Name] = time.Since(began)
			}
		}
		g.Expect(took).To(HaveLen(len(herds)))
	}).Should(Succeed(), "all clusters grow")
	grown := growth{work: workSoFar(ctx, NewWithT(GinkgoT())).minus(before)}
	for _, one := range took {
		grown.each = append(grown.each, one)
	}
	for _, h := range herds {
		fleet.Scale(ctx, h.deployment, few)
	}
	for _, h := range herds {
		fleet.ExpectReady(ctx, h.member, pool, few)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(atRest(ctx, g, h, few)).To(BeTrue())
		}).Should(Succeed(), "%s shrinks", h.member.Name)
	}
	return grown
}

// atRest tells whether the hub knows of that many Machines, all of them Ready.
func atRest(ctx context.Context, g Gomega, h herd, replicas int32) bool {
	seen := h.deployment.DeepCopy()
	g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(seen), seen)).To(Succeed())
	status := seen.Status
	return status.ObservedGeneration == seen.Generation && status.Replicas == replicas && status.AvailableReplicas == replicas
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
