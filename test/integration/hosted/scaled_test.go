package hosted

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A set that is scaled", fleettest.Long, func() {
	// Claim: A set scaled from 5 to 20 to 3 while it starts ends at ordinals 0 to 2; one that a user keeps stays. Broken: the lowest goes first; the annotation is not read; the Machines of those that never joined stay.
	It("should end at ordinals 0 to 2 from 5, 20 and 3 clusters, and keep the ordinal that a user keeps", func(ctx SpecContext) {
		const name, machines = "scaled", 1
		o := fleet.observe(ctx, name)
		begin := time.Now()
		set := fleet.createSet(ctx, name, 5, machines)
		Eventually(ctx, o.recordedNames).ShouldNot(BeEmpty())
		fleet.scale(ctx, set, 20)
		Eventually(ctx, func() []string { return o.simulated.Made() }).Should(HaveLen(20))
		Eventually(ctx, func() int { return len(o.recordedNames()) }).Should(BeNumerically(">", 5))
		fleet.scale(ctx, set, 3)
		AddReportEntry("ordered to scale from 5 to 20 and to 3 within", time.Since(begin).String())
		fleet.expectReady(ctx, set, 3)
		o.expectWhole(ctx, namesOf(name, 0, 1, 2), machines, older)
		o.expectNothing(ctx, namesOf(name, upTo(20)[3:]...))
		Expect(o.simulated.Made()).To(ConsistOf(namesOf(name, upTo(20)...)), "each once")
		Expect(o.recorded()).To(HaveEach(HaveField("Group", "h1")), "the other groups end")
		AddReportEntry("at 3 after", time.Since(begin).String())

		fleet.scale(ctx, set, 5)
		fleet.expectReady(ctx, set, 5)
		kept := &v1alpha1.SimulatedCluster{}
		Expect(fleet.hub.Get(ctx, client.ObjectKey{Namespace: localfleet.HostName, Name: name + "-4"}, kept)).To(Succeed())
		fleet.patch(ctx, kept, `{"metadata":{"annotations":{"`+v1alpha1.ScaleDownDisabledAnnotation+`":"true"}}}`)
		fleet.scale(ctx, set, 2)
		fleet.expectReady(ctx, set, 2)
		o.expectWhole(ctx, namesOf(name, 0, 4), machines, older)
		fleet.scale(ctx, set, 0)
		Eventually(ctx, func() []string { return o.simulated.Live() }).Should(ConsistOf(kept.Name))
		o.expectNothing(ctx, namesOf(name, 0, 1, 2, 3))
		o.expectWhole(ctx, namesOf(name, 4), machines, older)
		fleet.patch(ctx, kept, `{"metadata":{"annotations":{"`+v1alpha1.ScaleDownDisabledAnnotation+`":null}}}`)
		fleet.expectReady(ctx, set, 0)
		o.expectNothing(ctx, namesOf(name, 4))
	}, SpecTimeout(2*fleettest.Patience))
})
