package lifecycle

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// left is what there is of a pool. Owners were read before what they own.
type left struct {
	deployment                  bool
	sets, machines, nodes, pods int
}

// surge and unavailable are how many Machines the rollout of the pool may have at a time above and below its replicas.
const surge, unavailable = 1, 1

func (p *pool) left(ctx context.Context, g Gomega) left {
	var found left
	err := fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(p.MachineDeployment), &v1alpha1.MachineDeployment{})
	g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	found.deployment = !apierrors.IsNotFound(err)
	sets := &v1alpha1.MachineSetList{}
	g.Expect(fleet.HubClient.List(ctx, sets, client.InNamespace(p.Namespace), client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: p.Name})).To(Succeed())
	found.sets = len(sets.Items)
	found.machines = len(fleet.MachinesOf(ctx, g, p.member, p.Name))
	found.nodes = len(fleettest.NodesOf(ctx, g, p.member, p.Name))
	pods := &corev1.PodList{}
	g.Expect(p.member.Client.List(ctx, pods, client.HasLabels{v1alpha1.MachineNameLabel})).To(Succeed())
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, p.Name+"-") {
			found.pods++
		}
	}
	return found
}

var _ = Describe("A MachineDeployment that is deleted in the foreground", func() {
	// Edge case: Foreground deletion left Machines.
	It("should go after its MachineSets, Machines, Nodes and pods, amid a rollout, and leave nothing", func(ctx SpecContext) {
		p := newPool(ctx, "foreground", 3, rolling(surge, unavailable))
		p.upgrade(ctx)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(p.MachineDeployment), p.MachineDeployment)).To(Succeed())
			g.Expect(p.left(ctx, g).sets).To(Equal(2))
			g.Expect(p.Status.UpdatedReplicas).To(BeNumerically(">", 0), "both sets have Machines")
		}).Should(Succeed())

		Expect(fleet.HubClient.Delete(ctx, p.MachineDeployment, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		known := sets.New[string]()
		for _, machine := range fleet.MachinesOf(ctx, NewWithT(GinkgoT()), p.member, p.Name) {
			known.Insert(machine.Name)
		}
		atMost := known.Len() + surge + unavailable
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			now := p.left(ctx, g)
			Expect(now.deployment || now.sets == 0).To(BeTrue(), "the MachineDeployment was gone before its MachineSets: %+v", now)
			Expect(now.sets > 0 || now.machines == 0).To(BeTrue(), "the MachineSets were gone before their Machines: %+v", now)
			Expect(now.machines > 0 || now.nodes+now.pods == 0).To(BeTrue(), "the Machines were gone before their Nodes and pods: %+v", now)
			for _, machine := range fleet.MachinesOf(ctx, g, p.member, p.Name) {
				known.Insert(machine.Name)
			}
			// A step of the rollout may have been under way when the deletion arrived. There is no other one.
			Expect(known.Len()).To(BeNumerically("<=", atMost), "Machines are made for what is being deleted: %v", known)
			g.Expect(now).To(Equal(left{}))
		}).Should(Succeed())
	}, SpecTimeout(4*fleettest.Patience))
})
