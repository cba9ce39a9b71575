package lifecycle

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
	"github.com/hollowfleet/hollowfleet/test/otlp"
)

// receiver gets the traces and metrics of hub and agents. They send spans soon: the SDK's variable says so.
var receiver *otlp.Receiver

func startReceiver() []string {
	GinkgoHelper()
	var err error
	receiver, err = otlp.Start("127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(receiver.Stop)
	Expect(os.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")).To(Succeed())
	DeferCleanup(os.Unsetenv, "OTEL_BSP_SCHEDULE_DELAY")
	return []string{"--otlp-endpoint", "http://" + receiver.Address, "--trace-sampling-ratio", "1", "--otlp-metrics-interval", "1s", "-v", "2"}
}

// traceOf is the trace that an object says it belongs to.
func traceOf(object metav1.Object) (trace, span string) {
	GinkgoHelper()
	parts := strings.Split(object.GetAnnotations()[v1alpha1.TraceparentAnnotation], "-")
	Expect(parts).To(HaveLen(4), "%s has a traceparent", object.GetName())
	return parts[1], parts[2]
}

// newest is the Machine that is not among known.
func newest(machines []v1alpha1.Machine, known sets.Set[string]) *v1alpha1.Machine {
	GinkgoHelper()
	for i := range machines {
		if !known.Has(machines[i].Name) {
			return &machines[i]
		}
	}
	Fail("there is no new Machine")
	return nil
}

// only is the one span of that name.
func only(g Gomega, spans []otlp.Span, name string) otlp.Span {
	var found []otlp.Span
	for _, span := range spans {
		if span.Name == name {
			found = append(found, span)
		}
	}
	g.Expect(found).To(HaveLen(1), "one %s in %v", name, spans)
	return found[0]
}

var _ = Describe("A trace", func() {
	// Claim: One trace leads from scale-up to the Ready Node. Broken: not broken alone.
	It("should lead from the scale-up of a MachineDeployment to the Ready Node, and be linked to what repeats it", func(ctx SpecContext) {
		member := fleet.Members[0]
		deployment := fleet.NewDeployment(ctx, member, "traced", 1)
		known := sets.New(fleet.ExpectReady(ctx, member, "traced", 1)[0].Name)
		fleet.Scale(ctx, deployment, 2)
		machine := newest(fleet.ExpectReady(ctx, member, "traced", 2), known)
		trace, created := traceOf(machine)
		Eventually(ctx, func(g Gomega) { expectTree(g, receiver.Trace(trace), machine, created) }).Should(Succeed())
		GinkgoWriter.Println(otlp.Tree(receiver.Trace(trace)))
		podTrace, instance := traceOf(fleettest.PodOf(ctx, Default, member, machine.Name))
		Expect(podTrace).To(Equal(trace))
		Expect(only(Default, receiver.Trace(trace), "Machine.CreateInstance").ID).To(Equal(instance), "the hollow node's pod has it")
		for _, file := range []string{fleet.HubProcess.LogFile(), member.Agent.LogFile()} {
			Expect(os.ReadFile(file)).To(ContainSubstring("trace_id="+trace), file)
		}

		known.Insert(machine.Name)
		Expect(fleet.HubClient.Delete(ctx, machine)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			machines := fleet.MachinesOf(ctx, g, member, "traced")
			g.Expect(machines).To(ContainElement(HaveField("Name", Not(BeElementOf(known.UnsortedList())))))
			again, _ := traceOf(newest(machines, known))
			g.Expect(again).NotTo(Equal(trace), "the order was carried out: this is another one")
			root := only(g, receiver.Trace(again), "MachineSet.Act")
			g.Expect(root.Parent).To(BeEmpty())
			g.Expect(root.Links).To(ContainElement(trace))
		}).Should(Succeed())
		for service, metric := range map[string]string{"hollowfleet-hub": "controller_runtime_reconcile_total", "hollowfleet-agent": "hollowfleet_agent_frozen"} {
			Eventually(func() bool { return receiver.HasMetric(service, metric) }).Should(BeTrue(), "%s sends %s", service, metric)
		}
	}, SpecTimeout(2*fleettest.Patience))
})

// expectTree holds that spans are those of machine's making, each below the one that led to it.
func expectTree(g Gomega, spans []otlp.Span, machine *v1alpha1.Machine, created string) {
	deployment, set, create := only(g, spans, "MachineDeployment.Act"), only(g, spans, "MachineSet.Act"), only(g, spans, "Machine.Create")
	g.Expect(deployment.Parent).To(BeEmpty(), "the user's change is the root")
	g.Expect(deployment.Attributes).To(HaveKeyWithValue("hollowfleet.machine_deployment", "traced"))
	g.Expect(set.Parent).To(Equal(deployment.ID))
	g.Expect(create.Parent).To(Equal(set.ID))
	g.Expect(create.ID).To(Equal(created), "the Machine says from where its agent continues")
	before := create
	for _, name := range []string{"Machine.CreateInstance", "Node.Register", "Machine.SetProviderID", "Machine.ReportReady"} {
		span := only(g, spans, name)
		g.Expect(span.Parent).To(Equal(create.ID), name)
		g.Expect([]string{span.Service, span.Cluster}).To(Equal([]string{"hollowfleet-agent", machine.Namespace}), name)
		g.Expect(span.Attributes).To(HaveKeyWithValue("hollowfleet.machine", machine.Name))
		g.Expect(span.Start).To(BeTemporally(">=", before.Start), "%s comes after %s", name, before.Name)
		before = span
	}
	names := sets.New("MachineDeployment.Act", "MachineSet.Act", "Machine.Create", "Machine.CreateInstance", "Node.Register",
		"Machine.SyncNode", "Machine.SetProviderID", "Machine.ReportReady")
	for _, span := range spans {
		g.Expect(names.Has(span.Name)).To(BeTrue(), "%s is a decision or a write", span.Name)
		g.Expect(span.Failed).To(BeFalse(), span.Name)
	}
}
