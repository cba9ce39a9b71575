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

// work is how often the hub has looked at something, and what has been written to its API server. Leases are left out:
// how many of them are renewed is a matter of time alone.
type work struct{ reconciles, writes float64 }

func (w work) minus(before work) work {
	return work{w.reconciles - before.reconciles, w.writes - before.writes}
}

func (w work) String() string {
	return fmt.Sprintf("%.0f reconciles, %.0f writes", w.reconciles, w.writes)
}

// workSoFar reads the metrics of the hub and of its API server.
func workSoFar(ctx context.Context, g Gomega) work {
	done := work{
		reconciles: fleettest.Sum(g, ofHub(ctx, g), "controller_runtime_reconcile_total", func(map[string]string) bool { return true }),
		writes: fleettest.Sum(g, fleettest.ServerMetrics(ctx, g, fleet.HubConfig), "apiserver_request_total", func(labels map[string]string) bool {
			return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, labels["verb"]) && labels["resource"] != "leases"
		}),
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
