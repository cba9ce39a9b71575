package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	pool     = "herd"
	mostHeld = 5
	surge    = 1
	// webs run on the first cluster's herd, under a budget of leastWebs.
	webs, leastWebs = 3, 2
	// longest is how long a fault may last: longer than the agents' patience.
	longest = 14 * time.Second
	// unfinished is how long a disruption budget counts an eviction that was cut off after it had been entered there and
	// before the pod was deleted: DeletionTimeout in k8s.io/kubernetes/pkg/controller/disruption.
	unfinished = 2 * time.Minute
	// rounds of faults lie between two times at which everything has to converge.
	rounds = 3
)

// herd is the pool of one cluster: what was asked for, and what has happened to it.
type herd struct {
	member     *localfleet.Member
	deployment *v1alpha1.MachineDeployment
	witness    *fleettest.Witness
	// web runs on the herd; nil if nothing does. One Machine always stays for it: no other comes before an ordered
	// deletion is over, and until then the budget rightly keeps pods that have no place to go.
	web      *fleettest.Workload
	replicas int
	versions int
	asked
}

// asked is what has been asked for since all was well.
type asked struct {
	// fewest and most are the extremes of the replicas, deleted is the number of Machines that a user deleted.
	fewest, most, deleted int
	// reboots is that nodes were killed.
	reboots bool
}

// hold makes the witness report what leaves the bounds, at every change from now on.
func (h *herd) hold(what asked) {
	h.asked = what
	least, most := max(what.fewest-what.deleted, 0), what.most+what.deleted+surge
	if what.reboots {
		least = 0
	}
	h.witness.Machines.Hold(fleettest.Bound{Least: least, Most: most, Reboots: what.reboots})
	h.witness.Pods.Hold(fleettest.Bound{Most: most, Reboots: what.reboots})
	h.witness.Nodes.Hold(fleettest.Bound{Most: most, Reboots: what.reboots})
}

// Claim: Random faults lose and double nothing. Broken: not broken as a whole.
var _ = It("A fleet should lose nothing, whatever breaks", func(ctx SpecContext) {
	random := rand.New(rand.NewPCG(*seed, 0))
	fmt.Fprintf(GinkgoWriter, "seed %d\n", *seed)
	AddReportEntry("seed", *seed)
	herds := newHerds(ctx)
	end := time.Now().Add(*duration)
	for episode := 1; time.Now().Before(end); episode++ {
		for range rounds {
			for _, one := range herds {
				one.order(ctx, random)
			}
			breakSomething(ctx, random, herds)
			for _, one := range herds {
				one.check()
			}
		}
		for _, one := range herds {
			one.converge(ctx)
		}
		say("episode %d converged", episode)
	}
})

func newHerds(ctx context.Context) []*herd {
	var all []*herd
	for _, member := range fleet.Members {
		one := &herd{member: member, replicas: 2}
		one.deployment = fleet.NewDeployment(ctx, member, pool, int32(one.replicas), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{
				Type: v1alpha1.RollingUpdate,
				RollingUpdate: &v1alpha1.RollingUpdateBounds{
					MaxSurge: ptr.To(intstr.FromInt32(surge)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
				},
			}
		})
		all = append(all, one)
	}
	for _, one := range all {
		fleet.ExpectReady(ctx, one.member, pool, one.replicas)
		one.witness = fleet.Watch(ctx, one.member, pool)
		one.hold(asked{fewest: one.replicas, most: one.replicas})
	}
	if isShared() {
		return all // A node that reboots restarts what runs there, which no budget prevents.
	}
	all[0].web = fleet.NewWorkload(ctx, all[0].member, pool, webs, leastWebs)
	return all
}

// order asks for something new, or for nothing. The hub's API server may be away: then it was not asked.
func (h *herd) order(ctx context.Context, random *rand.Rand) {
	what := h.asked
	switch random.IntN(4) {
	case 0:
		replicas := random.IntN(mostHeld + 1)
		if h.web != nil {
			replicas = max(replicas, what.deleted+1)
		}
		what.fewest, what.most = min(what.fewest, replicas), max(what.most, replicas)
		h.patch(ctx, what, fmt.Sprintf("scale to %d", replicas), fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	case 1:
		h.versions++
		version := fmt.Sprintf("v1.36.%d", h.versions)
		h.patch(ctx, what, "roll to "+version, fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, version))
	case 2:
		live := h.witness.Machines.Live()
		if len(live) == 0 || h.web != nil && what.fewest-what.deleted <= 1 {
			return
		}
		what.deleted++
		machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: h.member.Name, Name: live[random.IntN(len(live))]}}
		h.send(ctx, what, "delete Machine "+machine.Name, func(ctx context.Context) error { return fleet.HubClient.Delete(ctx, machine) })
	}
}

func (h *herd) patch(ctx context.Context, then asked, what, patch string) {
	h.send(ctx, then, what, func(ctx context.Context) error {
		return fleet.HubClient.Patch(ctx, h.deployment, client.RawPatch("application/merge-patch+json", []byte(patch)))
	})
}

// send sends an order, after which the bounds are others: whether or not it arrives, it may.
func (h *herd) send(ctx context.Context, then asked, what string, order func(context.Context) error) {
	h.hold(then)
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	say("%s: %s: %v", h.member.Name, what, order(limited))
}

// breakSomething breaks one thing, or two at once, for a while.
func breakSomething(ctx context.Context, random *rand.Rand, herds []*herd) {
	var ends []func(context.Context)
	for range 1 + random.IntN(2) {
		drawn := draw(random)
		for _, one := range herds {
			if drawn.rebootsNodes() && drawn.member == one.member {
				what := one.asked
				what.reboots = true
				one.hold(what)
			}
		}
		ends = append(ends, drawn.begin(ctx))
	}
	lasts := time.Duration(random.Int64N(int64(longest)))
	timer := time.NewTimer(lasts)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			waiting = false
		case <-timer.C:
			waiting = false
		case <-time.After(time.Second):
			supervise(ctx)
		}
	}
	for _, end := range slices.Backward(ends) {
		end(context.WithoutCancel(ctx))
	}
	say("mended after %s", lasts.Round(time.Second))
	supervise(ctx)
}

// check looks at what must hold at every time.
func (h *herd) check() {
	GinkgoHelper()
	h.witness.Each(func(journal *fleettest.Journal) {
		Expect(journal.Verdict()).To(BeEmpty(), h.member.Name)
		made := journal.Made()
		Expect(slices.Compact(slices.Clone(made))).To(Equal(made), "nothing is made twice")
	})
	if h.web != nil {
		Expect(h.web.Verdict()).To(BeEmpty(), "the budget of what runs on %s", h.member.Name)
	}
	ordered := h.witness.Machines.Ending()
	for _, journal := range []*fleettest.Journal{h.witness.Pods, h.witness.Nodes} {
		for _, name := range journal.Ending() {
			// The order may have reached the agent before it reached us.
			Eventually(h.witness.Machines.Ending).Should(ContainElement(name), "nothing goes without an order: %v", ordered)
		}
	}
}

// converge waits until the fleet has come to what is asked for now, without help but that of a supervisor.
func (h *herd) converge(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		supervise(ctx)
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(h.deployment), h.deployment)).To(Succeed())
		status := h.deployment.Status
		h.replicas = int(*h.deployment.Spec.Replicas)
		g.Expect(status.ObservedGeneration).To(Equal(h.deployment.Generation))
		g.Expect([]int32{status.Replicas, status.UpdatedReplicas, status.AvailableReplicas}).To(HaveEach(int32(h.replicas)))
	}).WithTimeout(unfinished+fleettest.Patience).Should(Succeed(), "%s comes to rest as asked", h.member.Name)
	h.witness.Each(func(journal *fleettest.Journal) { journal.CatchUp(ctx) })
	// The counts may be from before the last deletion.
	Eventually(ctx, func() []int { return []int{h.witness.Machines.Available(), len(h.witness.Machines.Live())} }).
		Should(HaveEach(h.replicas), "%s has what is asked for, and nothing that goes", h.member.Name)
	machines := fleet.ExpectReady(ctx, h.member, pool, h.replicas)
	for _, machine := range machines {
		want := h.deployment.Spec.Template.Spec.Versions.Kubelet
		if want != "" {
			Expect(machine.Status.Versions.Kubelet).To(Equal(want))
		}
	}
	h.witness.Each(func(journal *fleettest.Journal) { journal.CatchUp(ctx) })
	if h.web != nil {
		Eventually(ctx, func() []int { return []int{h.web.Available(), len(h.web.Live())} }).Should(HaveEach(webs), "the workload runs")
	}
	h.check()
	h.hold(asked{fewest: h.replicas, most: h.replicas})
	Expect(h.witness.Pods.Live()).To(Equal(h.witness.Machines.Live()), "a pod for every Machine, and no other")
	Expect(h.witness.Nodes.Live()).To(Equal(h.witness.Machines.Live()), "a Node for every Machine, and no other")
}

func say(format string, args ...any) {
	fmt.Fprintf(GinkgoWriter, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
