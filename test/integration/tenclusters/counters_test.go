package tenclusters

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// tooLong is a bound of the histograms of both queues and reconciles. Nothing that the hub does for one cluster takes as
// long, unless it waits for something in vain.
const tooLong = 10

// work is how often the hub has looked at something, and what has been written to its API server. Leases are left out:
// how many of them are renewed is a matter of time alone. stalls is how often something has waited in a queue of the hub,
// or been reconciled, for longer than tooLong seconds.
type work struct{ reconciles, writes, stalls float64 }

func (w work) minus(before work) work {
	return work{w.reconciles - before.reconciles, w.writes - before.writes, w.stalls - before.stalls}
}

func (w work) String() string {
	return fmt.Sprintf("%.0f reconciles, %.0f writes, %.0f stalls", w.reconciles, w.writes, w.stalls)
}

// workSoFar reads the metrics of the hub and of its API server.
func workSoFar(ctx context.Context, g Gomega) work {
	hub := ofHub(ctx, g)
	done := work{
		reconciles: fleettest.Sum(g, hub, "controller_runtime_reconcile_total", func(map[string]string) bool { return true }),
		writes: fleettest.Sum(g, fleettest.ServerMetrics(ctx, g, fleet.HubConfig), "apiserver_request_total", func(labels map[string]string) bool {
			return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, labels["verb"]) && labels["resource"] != "leases"
		}),
		stalls: fleettest.Above(g, hub, "workqueue_queue_duration_seconds", tooLong) +
			fleettest.Above(g, hub, "controller_runtime_reconcile_time_seconds", tooLong),
	}
	g.Expect(done.reconciles).To(BeNumerically(">", 0), "the hub counts its reconciles")
	g.Expect(done.writes).To(BeNumerically(">", 0), "the API server counts its requests")
	return done
}

func ofHub(ctx context.Context, g Gomega) []byte {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddress+"/metrics", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return content
}
