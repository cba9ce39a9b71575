package telemetry_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
	"github.com/hollowfleet/hollowfleet/test/otlp"
)

// BenchmarkTracesOfAMachine is what hub and agent do for the traces of one Machine on its way to a Ready Node, and for its part in the
// order of a whole deployment: eight spans. The spans that are sampled are sent to a receiver in this process, whose work counts too.
// What make bench says of the CPU time per Machine is what to compare it with.
func BenchmarkTracesOfAMachine(b *testing.B) {
	for name, ratio := range map[string]float64{"off": 0, "10%": 0.1, "all": 1} {
		b.Run(name, func(b *testing.B) {
			receiver, err := otlp.Start("127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer receiver.Stop()
			exporter, err := telemetry.New(b.Context(), telemetry.Options{Endpoint: "http://" + receiver.Address, SamplingRatio: ratio},
				telemetry.Here("bench", ""), prometheus.NewRegistry(), logr.Discard())
			if err != nil {
				b.Fatal(err)
			}
			tracer := telemetry.NewTracer(exporter.Tracers)
			b.ReportAllocs()
			for b.Loop() {
				wayOfAMachine(b.Context(), tracer)
			}
			b.StopTimer()
			exporter.Close(context.Background(), logr.Discard())
		})
	}
}

func wayOfAMachine(ctx context.Context, tracer *telemetry.Tracer) {
	deployment, set, machine := &v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "m1"}}
	order, endOrder := tracer.Continue(ctx, "MachineDeployment.Act", telemetry.From{}, telemetry.Object("machine_deployment", deployment)...)
	telemetry.Stamp(order, set)
	endOrder(nil)
	scale, endScale := tracer.Continue(ctx, "MachineSet.Act", telemetry.From{Traceparent: telemetry.Of(set)}, telemetry.Object("machine_set", set)...)
	create, endCreate := tracer.Start(scale, "Machine.Create", telemetry.Object("machine", machine)...)
	telemetry.Stamp(create, machine)
	endCreate(nil)
	endScale(nil)
	from := telemetry.From{Traceparent: telemetry.Of(machine)}
	for _, name := range []string{"Machine.CreateInstance", "Machine.SyncNode", "Machine.SetProviderID", "Machine.ReportReady"} {
		_, end := tracer.Continue(ctx, name, from, telemetry.Object("machine", machine)...)
		end(nil)
	}
	tracer.Record(ctx, "Node.Register", from, time.Now(), time.Now(), telemetry.Object("machine", machine)...)
}
