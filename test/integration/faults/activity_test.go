package faults

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	few, many = 2, 4
	// One Machine may be missing while they are replaced, and one be there too many.
	unavailable, surge = 1, 1
	// The workload may miss one pod.
	webs, leastWebs = 4, 3
	herdPool        = "herd"
)

// activity is what a cluster is in the middle of when something breaks.
type activity struct {
	name string
	// from is how many Machines there are at first, to how many in the end; made and gone is what it takes.
	from, to, made, gone int
	// least and most are how many Machines may be available, and be there, at every instant.
	least, most int
	// slowness orders them by how long they take to start and to end.
	slowness int
	begin    func(ctx context.Context, h *herd)
}

// activities in an order in which each finds what the one before it leaves.
var activities = []activity{
	{name: "scale-up", slowness: 2, from: few, to: many, made: many - few, least: few, most: many, begin: func(ctx context.Context, h *herd) {
		fleet.Scale(ctx, h.deployment, many)
	}},
	{name: "rolling update", slowness: 3, from: many, to: many, made: many, gone: many, least: many - unavailable, most: many + surge, begin: func(ctx context.Context, h *herd) {
		h.versions++
		h.patch(ctx, fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.36.%d"}}}}}`, h.versions))
	}},
	{name: "drain", slowness: 5, from: many, to: many, made: 1, gone: 1, least: many - 1, most: many + surge, begin: func(ctx context.Context, h *herd) {
		Expect(fleet.HubClient.Delete(ctx, h.busiest(ctx))).To(Succeed())
	}},
	{name: "scale-down", slowness: 4, from: many, to: few, gone: many - few, least: few, most: many, begin: func(ctx context.Context, h *herd) {
		fleet.Scale(ctx, h.deployment, few)
	}},
	{name: "deletion", from: few, gone: few, most: few, begin: func(ctx context.Context, h *herd) {
		Expect(fleet.HubClient.Delete(ctx, h.deployment, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}},
}

// herd is the pool of one cluster with a workload under a disruption budget.
type herd struct {
	member     *localfleet.Member
	deployment *v1alpha1.MachineDeployment
	web        *fleettest.Workload
	versions   int

	// What it is doing, and who watches that.
	doing activity
	seen  *fleettest.Witness
	// evicted are the pods of the workload that went before.
	evicted int
}

func newHerd(ctx context.Context, member *localfleet.Member) *herd {
	GinkgoHelper()
	h := &herd{member: member}
	h.deployment = fleet.NewDeployment(ctx, member, herdPool, few, func(d *v1alpha1.MachineDeployment) {
		d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{
			Type: v1alpha1.RollingUpdate,
			RollingUpdate: &v1alpha1.RollingUpdateBounds{
				MaxSurge: ptr.To(intstr.FromInt32(surge)), MaxUnavailable: ptr.To(intstr.FromInt32(unavailable)),
			},
		}
	})
	return h
}

func (h *herd) patch(ctx context.Context, patch string) {
	GinkgoHelper()
	Expect(fleet.HubClient.Patch(ctx, h.deployment, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// busiest is the Machine with the most pods of the workload on its Node.
func (h *herd) busiest(ctx context.Context) *v1alpha1.Machine {
	GinkgoHelper()
	var busiest *v1alpha1.Machine
	most := 0
	for _, machine := range fleet.MachinesOf(ctx, NewWithT(GinkgoT()), h.member, herdPool) {
		if pods := h.web.On(ctx, NewWithT(GinkgoT()), machine.Name); pods > most {
			busiest, most = &machine, pods
		}
	}
	Expect(busiest).NotTo(BeNil(), "the workload runs on a Node")
	return busiest
}

// prepare brings the pool to where an activity starts, and watches it from then on. What is deleted must not be held
// up forever by a workload that has nowhere else to go.
func (h *herd) prepare(ctx context.Context, next activity) {
	GinkgoHelper()
	if h.doing.name != "" && h.doing.to == 0 {
		h.again(ctx)
	}
	h.doing = next
	if int(*h.deployment.Spec.Replicas) != next.from {
		fleet.Scale(ctx, h.deployment, next.from)
	}
	fleet.ExpectReady(ctx, h.member, herdPool, next.from)
	if next.to == 0 {
		h.web.Scale(ctx, 0, 0)
	} else {
		h.web.Scale(ctx, webs, leastWebs)
	}
	h.evicted = len(h.web.Ending())
	h.seen = fleet.Watch(ctx, h.member, herdPool)
	h.seen.Machines.Hold(fleettest.Bound{Least: next.least, Most: next.most})
}

// again makes the MachineDeployment again that was deleted.
func (h *herd) again(ctx context.Context) {
	GinkgoHelper()
	again := h.deployment.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Namespace: again.Namespace, Name: again.Name}
	again.Spec.Replicas, again.Status = ptr.To[int32](few), v1alpha1.MachineDeploymentStatus{}
	Eventually(ctx, func(ctx context.Context) error {
		return fleet.HubClient.Create(ctx, again.DeepCopy())
	}).Should(Succeed(), "the MachineDeployment can be recreated")
	Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(again), again)).To(Succeed())
	h.deployment = again
}

// started tells that the first Machine has been made, or has to go.
func (h *herd) begun() bool {
	if h.doing.name == "drain" {
		return len(h.web.Ending()) > h.evicted
	}
	return len(h.seen.Machines.Made()) > h.doing.from || h.seen.Doomed() > 0
}

// done tells that all has been made and all has gone, as far as one can see.
func (h *herd) done() bool {
	machines := h.seen.Machines
	return len(machines.Made()) == h.doing.from+h.doing.made && len(machines.Live()) == h.doing.to && machines.Available() == h.doing.to
}

func (h *herd) String() string {
	machines := h.seen.Machines
	return fmt.Sprintf("%s: %s, %d Machines made, %d ordered to go, %d available", h.member.Name, h.doing.name,
		len(machines.Made())-h.doing.from, len(machines.Ending()), machines.Available())
}

// settled asks that the pool has come to what was asked for.
func (h *herd) settled(ctx context.Context, g Gomega) {
	key := client.ObjectKeyFromObject(h.deployment)
	if h.doing.to == 0 {
		err := fleet.HubClient.Get(ctx, key, h.deployment.DeepCopy())
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the MachineDeployment goes: %v", err)
		g.Expect(fleet.MachinesOf(ctx, g, h.member, herdPool)).To(BeEmpty())
		g.Expect(fleettest.NodesOf(ctx, g, h.member, herdPool)).To(BeEmpty())
		return
	}
	g.Expect(fleet.HubClient.Get(ctx, key, h.deployment)).To(Succeed())
	status := h.deployment.Status
	g.Expect(status.ObservedGeneration).To(Equal(h.deployment.Generation))
	g.Expect([]int32{status.Replicas, status.UpdatedReplicas, status.AvailableReplicas}).To(HaveEach(int32(h.doing.to)), "replicas, updated, available")
}

// verdict asks that nothing was lost, made twice or taken without an order, and that no budget was broken.
func (h *herd) verdict(ctx context.Context) {
	GinkgoHelper()
	if h.doing.to > 0 {
		fleet.ExpectReady(ctx, h.member, herdPool, h.doing.to)
		Eventually(ctx, h.web.Available).Should(Equal(webs), "the workload runs on what is left")
	}
	By("judging " + h.String())
	h.seen.Expect(ctx, h.doing.from+h.doing.made, h.doing.gone)
	Expect(h.seen.Pods.Live()).To(Equal(h.seen.Machines.Live()), "a pod for every Machine, and no other")
	Expect(h.seen.Nodes.Live()).To(Equal(h.seen.Machines.Live()), "a Node for every Machine, and no other")
	Expect(h.web.Verdict()).To(BeEmpty(), "the disruption budget holds at every instant")
}
