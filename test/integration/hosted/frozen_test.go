package hosted

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// held is for how long nothing may start or go.
const held = 15 * time.Second

// holder keeps the host from working, until what it returns is called.
type holder func(ctx context.Context) (release func())

// suspend stops a process, which keeps its connections.
func suspend(pid int) (release func()) {
	GinkgoHelper()
	Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
	resume := func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	DeferCleanup(resume)
	return resume
}

func suspendServer(context.Context) func() {
	GinkgoHelper()
	ready, err := process.ReadReady(filepath.Join(fleet.dir, "hub"))
	Expect(err).NotTo(HaveOccurred())
	return suspend(ready.Components["kube-apiserver"].PID)
}

func suspendAgent(ctx context.Context) func() {
	GinkgoHelper()
	release := suspend(fleet.pidOf(hostProcess))
	awaitHost(ctx, v1alpha1.FrozenCondition)
	return release
}

func freezeHost(ctx context.Context) func() {
	GinkgoHelper()
	host := &v1alpha1.Cluster{}
	host.Name = localfleet.HostName
	annotate := func(ctx context.Context, value string) {
		fleet.patch(ctx, host, `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":`+value+`}}}`)
	}
	annotate(ctx, `"test"`)
	DeferCleanup(func(ctx SpecContext) { annotate(ctx, "null") }, NodeTimeout(fleettest.Patience))
	awaitHost(ctx, v1alpha1.ClusterAgentFrozenCondition) // Until then the agent may not know.
	return func() { annotate(ctx, "null") }
}

// freezeUnsigned freezes the host when nothing but the certificates of its clusters' agents is missing. They are signed while it is frozen.
func freezeUnsigned(ctx context.Context) func() {
	GinkgoHelper()
	ready, err := process.ReadReady(filepath.Join(fleet.dir, "hub"))
	Expect(err).NotTo(HaveOccurred())
	signs := suspend(ready.Components["kube-controller-manager"].PID)
	list := &v1alpha1.SimulatedClusterList{}
	Expect(fleet.hub.List(ctx, list)).To(Succeed())
	for i := range list.Items {
		if !isDeleting(&list.Items[i]) {
			fleet.awaitRequest(ctx, list.Items[i].Name)
		}
	}
	release := freezeHost(ctx)
	signs()
	return release
}

// awaitHost waits until the host has a condition.
func awaitHost(ctx context.Context, condition string) {
	GinkgoHelper()
	Eventually(ctx, func() (bool, error) {
		host := &v1alpha1.Cluster{}
		err := fleet.hub.Get(ctx, client.ObjectKey{Name: localfleet.HostName}, host)
		return meta.IsStatusConditionTrue(host.Status.Conditions, condition), err
	}).Should(BeTrue())
}

// expectHeld holds that the keeper is asked for nothing, that no cluster is made, and that none goes but what was on its way. It reports how
// many the keeper had: all, if the host has worked until it knew.
func (o *observer) expectHeld(ctx context.Context, when string) {
	GinkgoHelper()
	made, looks := o.clusters.Made(), 0
	Eventually(ctx, func() bool { // What was made before may be on its way to the observer.
		known := len(made)
		made, looks = o.clusters.Made(), looks+1
		return looks > 1 && len(made) == known
	}).WithPolling(time.Second).Should(BeTrue())
	before := o.recorded()
	AddReportEntry(when, fmt.Sprint(before))
	Consistently(ctx, func(g Gomega) {
		now := o.recorded()
		for _, record := range now {
			g.Expect(before).To(ContainElement(record))
		}
		for _, record := range before {
			g.Expect(record.Removing || slices.Contains(now, record)).To(BeTrue(), record.Name)
		}
		g.Expect(o.clusters.Made()).To(Equal(made))
	}).WithTimeout(held).Should(Succeed())
}

var _ = DescribeTable("A host that is held in mid-creation and mid-removal", fleettest.Long, func(ctx SpecContext, name string, hold holder) {
	o := fleet.observe(ctx, name)
	const replicas, machines = 3, 1
	names := namesOf(name, upTo(replicas)...)
	set := fleet.createSet(ctx, name, replicas, machines)
	fleet.await(ctx, name, creation[0])
	release := hold(ctx)
	o.expectHeld(ctx, "in mid-creation")
	release()
	fleet.expectReady(ctx, set, replicas)
	o.expectWhole(ctx, names, machines, older)
	o.expectMade(ctx, names, machines)

	fleet.scale(ctx, set, 0)
	fleet.await(ctx, name, removal[0])
	release = hold(ctx)
	o.expectHeld(ctx, "in mid-removal")
	release()
	fleet.expectReady(ctx, set, 0)
	o.expectNothing(ctx, names)
	o.expectMade(ctx, names, machines)
},
	// Claim: While a host is frozen or away, nothing starts there or goes, and then all is done. Broken: not broken alone: without the freeze of the agent and its driver, or without the one of the hub, the entry of a user passes.
	Entry("should start and remove nothing while the API server of hub and host does not answer, and then the rest", "dumb", holder(suspendServer), SpecTimeout(2*fleettest.Patience)),
	Entry("should start and remove nothing while its agent does not run, and then the rest", "away", holder(suspendAgent), SpecTimeout(2*fleettest.Patience)),
	Entry("should start and remove nothing while a user has frozen it after all but the certificates was there, and then the rest", "unsigned", holder(freezeUnsigned), SpecTimeout(2*fleettest.Patience)),
	Entry("should start and remove nothing while a user has frozen it, and then the rest", "frozen", holder(freezeHost), SpecTimeout(2*fleettest.Patience)),
)
