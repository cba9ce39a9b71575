package machine

import (
	"testing"

	. "github.com/onsi/gomega"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	given  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	givenT = "0af7651916cd43dd8448eb211c80319c"
	givenS = "b7ad6b7169203331"
)

func traced(machine *v1alpha1.Machine) {
	machine.Annotations = map[string]string{v1alpha1.TraceparentAnnotation: given}
}

func (b *env) trace() *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	b.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	b.start()
	return spans
}

func names(spans []sdktrace.ReadOnlySpan) (all []string) {
	for _, span := range spans {
		all = append(all, span.Name())
	}
	return all
}

func TestTheAgentGoesOnWithTheTraceOfTheMachine(t *testing.T) {
	b := newEnv(t)
	spans := b.trace()
	machine := b.create("trace-join", traced)
	node := b.ready(machine)
	b.Expect(b.writes()).To(Equal([]string{"patch", "patch/status"}), "a trace costs no write")
	b.Expect(names(spans.Ended())).To(Equal([]string{
		"Machine.CreateInstance", "Machine.SyncNode", "Node.Register", "Machine.SetProviderID", "Machine.ReportReady",
	}))
	for _, span := range spans.Ended() {
		b.Expect(span.SpanContext().TraceID().String()).To(Equal(givenT), span.Name())
		b.Expect(span.Parent().SpanID().String()).To(Equal(givenS), span.Name())
	}
	b.ExpectReconciled(machine)
	b.Expect(spans.Ended()).To(HaveLen(5), "what changes nothing has no span")

	// The order was carried out. What breaks and is mended now, also by an agent that has started meanwhile, is another story.
	spans = b.trace()
	b.setReady(node, corev1.ConditionFalse)
	b.ExpectReconciled(machine)
	b.Expect(b.driver.Set(machine.Name, driver.Failed, "a test")).To(Succeed())
	b.ExpectReconciled(machine)
	b.setReady(node, corev1.ConditionTrue)
	b.ExpectReconciled(machine)
	b.Expect(names(spans.Ended())).To(ContainElement("Machine.RemoveInstance"))
	for _, span := range spans.Ended() {
		b.Expect(span.Parent().IsValid()).To(BeFalse(), span.Name())
		b.Expect(span.Links()).To(HaveLen(1), span.Name())
		b.Expect(span.Links()[0].SpanContext.TraceID().String()).To(Equal(givenT))
	}
}

func TestAMachineWithoutATraceBeginsOne(t *testing.T) {
	b := newEnv(t)
	spans := b.trace()
	for name, value := range map[string]string{"trace-none": "", "trace-bad": "00-0af7651916cd43dd8448eb211c80319c-zz-01"} {
		b.ExpectReconciled(b.create(name, func(machine *v1alpha1.Machine) {
			machine.Annotations = map[string]string{v1alpha1.TraceparentAnnotation: value}
		}))
	}
	b.Expect(spans.Ended()).To(HaveLen(2))
	for _, span := range spans.Ended() {
		b.Expect(span.Parent().IsValid()).To(BeFalse())
		b.Expect(span.SpanContext().TraceID().String()).NotTo(Equal(givenT))
	}
}
