package agent_test

import (
	"flag"
	"io"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/internal/dev/metricpage"
)

var update = flag.Bool("update", false, "write docs/metrics.md again")

func scrape(g Gomega, address string) *metricpage.Scrape {
	response, err := http.Get("http://" + address + "/metrics") //nolint:noctx // a test's own server on loopback
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	told, err := metricpage.Parse(string(body))
	g.Expect(err).NotTo(HaveOccurred())
	return told
}

// The page has every metric of an agent with its labels and their values, and no other one, and no metric has a strange name. Every
// counter is there before the agent has joined.
func TestThePageHasTheMetricsOfAnAgent(t *testing.T) {
	t.Parallel()
	metrics := freeAddress(NewWithT(t))
	f := start(t, "metrics-1", func(o *agent.Options) { o.MetricsAddress = metrics })
	f.Eventually(func(g Gomega) { scrape(g, metrics) }).WithTimeout(time.Minute).Should(Succeed())
	for name, labels := range map[string][]string{
		"hollowfleet_agent_freezes_total":                  {"reason=TargetUnreachable"},
		"hollowfleet_agent_frozen_seconds_total":           {"reason=HubRestored"},
		"hollowfleet_agent_frozen_refusals_total":          {"method=DriverDelete"},
		"hollowfleet_agent_probes_total":                   {"scope=target", "outcome=Timeout"},
		"hollowfleet_agent_hub_looks_total":                {"outcome=Found"},
		"hollowfleet_agent_credential_renewals_total":      {"result=Denied"},
		"hollowfleet_agent_instance_repairs_total":         {"cause=lost"},
		"hollowfleet_agent_machine_events_dropped_total":   {"type=Warning"},
		"hollowfleet_agent_certificate_requests_total":     {"verdict=OtherToken"},
		"hollowfleet_agent_relist_cache_rebuilds_total":    nil,
		"hollowfleet_agent_relist_duration_seconds":        nil,
		"hollowfleet_agent_relist_outdated_objects_total":  nil,
		"hollowfleet_agent_thaw_limited_machines_total":    nil,
		"hollowfleet_agent_frozen_since_timestamp_seconds": nil,
		"hollowfleet_build_info":                           {"component=agent"},
	} {
		_, found := scrape(f, metrics).Value(name, labels...)
		f.Expect(found).To(BeTrue(), "%s %v is there from the start", name, labels)
	}
	f.accept()
	f.expectThawed()
	f.Eventually(func(g Gomega) {
		told := scrape(g, metrics)
		g.Expect(told.Own()).To(ContainElements("hollowfleet_agent_orphaned_instances", "hollowfleet_agent_undecodable_objects"))
		g.Expect(metricpage.Compare("agent", told.Rows(told.Own()), *update)).To(Succeed())
		g.Expect(told.Lint()).To(BeEmpty())
	}).WithTimeout(time.Minute).Should(Succeed())
}
