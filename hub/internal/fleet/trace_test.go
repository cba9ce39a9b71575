package fleet

import (
	"testing"

	. "github.com/onsi/gomega"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

func TestEachClusterTakesOnTheTraceOfTheFleet(t *testing.T) {
	plain := newEnv(t, 2, nil)
	plain.ExpectReconciled(plain.fleet)
	want := plain.Writes.Counts()
	f := newEnv(t, 2, nil)
	spans := tracetest.NewSpanRecorder()
	f.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f.restart()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.Writes.Counts()).To(Equal(want), "a trace costs no write")
	f.settle()
	ended := spans.Ended()
	f.Expect(ended).NotTo(BeEmpty())
	f.Expect(ended[0].Parent().IsValid()).To(BeFalse())
	f.Expect(ended[0].Links()).To(BeEmpty())
	traces := map[string]bool{}
	for i, span := range ended {
		if i > 0 {
			f.Expect(span.Links()).To(HaveLen(1), "a later wave is linked to what was done before")
		}
		traces["00-"+span.SpanContext().TraceID().String()+"-"+span.SpanContext().SpanID().String()+"-01"] = true
	}
	before := []string{telemetry.Of(f.deployment(0)), telemetry.Of(f.deployment(1))}
	f.Expect(traces).To(And(HaveKey(before[0]), HaveKey(before[1])))

	f.settle()
	f.Expect(spans.Ended()).To(HaveLen(len(ended)), "what changes nothing has no span")
	f.upgrade("v1.37.0")
	f.settle()
	upgrade := spans.Ended()[len(ended)]
	f.Expect(upgrade.Links()).To(BeEmpty(), "a user's change is the start")
	f.Expect(telemetry.Of(f.deployment(0))).To(ContainSubstring(upgrade.SpanContext().TraceID().String()))
	f.Expect(before).NotTo(ContainElement(telemetry.Of(f.deployment(0))))
}
