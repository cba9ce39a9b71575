package machinedeployment

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// trace restarts both controllers with a recorder of their spans.
func (f *env) trace() *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	f.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f.control(f.Writes.Count(f.Client))
	return spans
}

// spansOf are the spans of that name that have ended since the first ones.
func spansOf(spans *tracetest.SpanRecorder, name string, first int) (found []sdktrace.ReadOnlySpan) {
	for _, span := range spans.Ended()[first:] {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

func traceparent(span sdktrace.ReadOnlySpan) string {
	return "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
}

// Claim: A trace costs no write; no-ops have no span. Broken: not broken alone. Also: hub/internal/fleet TestEachClusterTakesOnTheTraceOfTheFleet.
func TestOneTraceLeadsFromTheChangeToEachMachine(t *testing.T) {
	plain := newEnv(t, 2, nil)
	plain.ExpectReconciled(plain.deployment)
	want := plain.Writes.Counts()
	f := newEnv(t, 2, nil)
	spans := f.trace()
	f.ExpectReconciled(f.deployment)
	f.Expect(f.Writes.Counts()).To(Equal(want), "a trace costs no write")
	f.reconcileSets()
	f.Expect(spans.Ended()).To(HaveLen(4))
	root, act, made := spansOf(spans, "MachineDeployment.Act", 0)[0], spansOf(spans, "MachineSet.Act", 0)[0], spansOf(spans, "Machine.Create", 0)
	f.Expect(root.Parent().IsValid()).To(BeFalse())
	f.Expect(root.Links()).To(BeEmpty())
	f.Expect(telemetry.Of(&f.list()[0])).To(Equal(traceparent(root)))
	f.Expect(act.Parent().SpanID()).To(Equal(root.SpanContext().SpanID()))
	wanted := map[string]bool{}
	for _, span := range made {
		f.Expect(span.Parent().SpanID()).To(Equal(act.SpanContext().SpanID()))
		wanted[traceparent(span)] = true
	}
	found := map[string]bool{}
	for _, machine := range f.Machines(f.cluster.Name) {
		found[telemetry.Of(&machine)] = true
	}
	f.Expect(found).To(Equal(wanted), "each Machine's agent continues from its creation")

	f.rest()
	rest := len(spans.Ended())
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Annotations["a"] = "b" })
	f.rest()
	f.Expect(spans.Ended()).To(HaveLen(rest), "what changes nothing has no span")

	machine := f.Machines(f.cluster.Name)[0]
	f.ExpectDeleted(&machine)
	f.rest()
	again := spansOf(spans, "MachineSet.Act", rest)
	f.Expect(again).NotTo(BeEmpty())
	f.Expect(again[0].Parent().IsValid()).To(BeFalse(), "no change of a user has ordered this: it starts another trace")
	f.Expect(again[0].Links()[0].SpanContext.TraceID()).To(Equal(root.SpanContext().TraceID()))
}

func TestALaterStepBeginsATraceWithALink(t *testing.T) {
	f := newEnv(t, 3, nil)
	spans := f.trace()
	f.rest()
	rest := len(spans.Ended())
	f.upgrade("v1.36.0")
	f.rest()
	steps := spansOf(spans, "MachineDeployment.Act", rest)
	f.Expect(len(steps)).To(BeNumerically(">", 2))
	f.Expect(steps[0].Links()).To(BeEmpty(), "a user's change is the start")
	traces := map[string]bool{}
	for i, step := range steps {
		f.Expect(step.Parent().IsValid()).To(BeFalse())
		if i > 0 {
			f.Expect(step.Links()).To(HaveLen(1))
			f.Expect(traces).To(HaveKey(step.Links()[0].SpanContext.TraceID().String()), "the step before")
		}
		traces[step.SpanContext().TraceID().String()] = true
	}
}

// A user, or a fleet, may have a trace already. What is changed later without another one does not belong to it, also for a
// hub that has started meanwhile.
func TestTheTraceOfWhoeverChangedTheDeploymentGoesOn(t *testing.T) {
	f := newEnv(t, 1, nil)
	spans := f.trace()
	f.rest()
	const given, id = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"
	scale := func(replicas int32, change map[string]string) sdktrace.ReadOnlySpan {
		rest := len(spans.Ended())
		f.update(func(deployment *v1alpha1.MachineDeployment) {
			deployment.Spec.Replicas = &replicas
			maps.Copy(deployment.Annotations, change)
		})
		f.rest()
		return spansOf(spans, "MachineDeployment.Act", rest)[0]
	}
	first := scale(2, map[string]string{v1alpha1.TraceparentAnnotation: given})
	f.Expect(traceparent(first)).To(HavePrefix("00-" + id))
	f.Expect(first.Parent().SpanID().String()).To(Equal("b7ad6b7169203331"))
	second := scale(3, nil)
	f.Expect(second.SpanContext().TraceID().String()).NotTo(Equal(id))
	f.Expect(second.Links()[0].SpanContext.TraceID().String()).To(Equal(id))
	spans = f.trace()
	f.ExpectReconciled(f.deployment) // The new hub sees that all is done.
	third := scale(4, nil)
	f.Expect(third.SpanContext().TraceID().String()).NotTo(Equal(id))
	f.Expect(third.Links()[0].SpanContext.TraceID().String()).To(Equal(id))
	malformed := scale(5, map[string]string{v1alpha1.TraceparentAnnotation: "00-zz"})
	f.Expect(malformed.Parent().IsValid()).To(BeFalse())
	f.Expect(malformed.Links()).To(BeEmpty())
}

func TestAMachineThatIsMovedTakesTheTraceOfItsUpdate(t *testing.T) {
	f := inPlace(t, 1, nil)
	spans := f.trace()
	f.upgrade("v1.36.0")
	f.roll(fine, func() {})
	moved := f.Machines(f.cluster.Name)[0]
	f.Expect(moved.Annotations).To(HaveKey(v1alpha1.InPlaceUpdateAnnotation))
	f.Expect(telemetry.Of(&moved)).To(BeElementOf(traceparents(spansOf(spans, "MachineDeployment.Act", 0))))
}

func traceparents(spans []sdktrace.ReadOnlySpan) (all []string) {
	for _, span := range spans {
		all = append(all, traceparent(span))
	}
	return all
}

// A trace that was kept from an earlier time is not what a Machine belongs to that is made without one.
func TestWithoutTracingNoTraceIsPassedOn(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.trace()
	f.rest()
	f.tracers = nil
	f.control(f.Writes.Count(f.Client))
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(2)) })
	f.rest()
	var without int
	for _, machine := range f.Machines(f.cluster.Name) {
		if telemetry.Of(&machine) == "" {
			without++
		}
	}
	f.Expect(without).To(Equal(1))
	f.Expect(telemetry.Of(&f.list()[0])).To(BeEmpty())
}
