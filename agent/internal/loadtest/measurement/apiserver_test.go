package measurement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// metricsOf is what an API server with these counts below 0.1 s, below 1 s and in all shows.
func metricsOf(verb, resource string, tenth, second, all int) string {
	return metricsIn("", resource, "", "resource", verb, "v1", tenth, second, all)
}

// metricsIn is the same of one group, subresource, scope and version.
func metricsIn(group, resource, subresource, scope, verb, version string, tenth, second, all int) string {
	labels := fmt.Sprintf(`component="apiserver",group=%q,resource=%q,scope=%q,subresource=%q,verb=%q,version=%q`, group, resource, scope, subresource, verb, version)
	return fmt.Sprintf("apiserver_request_sli_duration_seconds_bucket{%[1]s,le=\"0.1\"} %[2]d\n"+
		"apiserver_request_sli_duration_seconds_bucket{%[1]s,le=\"1\"} %[3]d\napiserver_request_sli_duration_seconds_bucket{%[1]s,le=\"+Inf\"} %[4]d\n"+
		"apiserver_request_sli_duration_seconds_sum{%[1]s} 1.5\napiserver_request_sli_duration_seconds_count{%[1]s} %[4]d\n", labels, tenth, second, all)
}

func TestWhatTheAPIServerHasCounted(t *testing.T) {
	g := NewWithT(t)
	const head = "# HELP apiserver_request_sli_duration_seconds [ALPHA] x\n# TYPE apiserver_request_sli_duration_seconds histogram\n"
	const other = "# TYPE other counter\nother{a=\"b\"} 3\nthis is no metric\n"
	before, err := parseServerCounts(strings.NewReader(other + head + metricsOf("POST", "pods", 5, 6, 6) + metricsOf("GET", "nodes", 100, 100, 100)))
	g.Expect(err).NotTo(HaveOccurred())
	after, err := parseServerCounts(strings.NewReader(other + head + metricsOf("POST", "pods", 15, 20, 21) + metricsOf("GET", "nodes", 7, 7, 7) +
		metricsOf("LIST", "pods", 0, 3, 3) + metricsOf("WATCH", "pods", 9, 9, 9)))
	g.Expect(err).NotTo(HaveOccurred())
	measured := after.countedSince(before)
	key := func(verb, resource string) measure.Key {
		return measure.Key{Measurement: v1alpha1.LoadAPIServerRequest, Verb: verb, Resource: resource, Scope: "resource"}
	}
	g.Expect(measured).To(And(HaveLen(3), HaveKey(key("POST", "pods")), HaveKey(key("GET", "nodes")), HaveKey(key("LIST", "pods"))), "watches are no requests")
	posts := measured.Summarize(key("POST", "pods"))
	g.Expect(posts.Count).To(BeEquivalentTo(15), "10 below 0.1 s, 4 below 1 s, 1 above")
	g.Expect(posts.P50.Duration).To(BeNumerically("~", 100*time.Millisecond, time.Millisecond))
	g.Expect(posts.P90.Duration).To(BeNumerically("~", time.Second, 10*time.Millisecond))
	g.Expect(posts.Max.Duration).To(BeNumerically("~", time.Hour, 10*time.Second), "above all buckets")
	g.Expect(measured[key("GET", "nodes")].TotalCount()).To(BeEquivalentTo(7), "an API server that was started again counts again")
	g.Expect(measured[key("LIST", "pods")].TotalCount()).To(BeEquivalentTo(3), "new ones")
	_, err = parseServerCounts(strings.NewReader(head + "apiserver_request_sli_duration_seconds_bucket{ 3\n"))
	g.Expect(err).To(MatchError(ContainSubstring("parsing metrics")))
}

// A binding is not the creation of a pod, a list of the whole cluster is not one of a namespace, and pods of metrics.k8s.io are none.
func TestGroupSubresourceAndScopeAreCountedApart(t *testing.T) {
	g := NewWithT(t)
	counts, err := parseServerCounts(strings.NewReader("# TYPE apiserver_request_sli_duration_seconds histogram\n" +
		metricsIn("", "pods", "", "resource", "POST", "v1", 1, 1, 1) + metricsIn("", "pods", "binding", "resource", "POST", "v1", 2, 2, 2) +
		metricsIn("", "pods", "", "namespace", "LIST", "v1", 3, 3, 3) + metricsIn("", "pods", "", "cluster", "LIST", "v1", 4, 4, 4) +
		metricsIn("metrics.k8s.io", "pods", "", "cluster", "LIST", "v1beta1", 5, 5, 5) +
		metricsIn("apps", "deployments", "scale", "resource", "PUT", "v1", 6, 6, 6) + metricsIn("apps", "deployments", "scale", "resource", "PUT", "v2", 1, 1, 1)))
	g.Expect(err).NotTo(HaveOccurred())
	measured := counts.countedSince(nil)
	got := map[string]int64{}
	for key, histogram := range measured {
		got[key.Verb+" "+key.Resource+" "+key.Scope] = histogram.TotalCount()
	}
	g.Expect(got).To(Equal(map[string]int64{
		"POST pods resource": 1, "POST pods/binding resource": 2, "LIST pods namespace": 3, "LIST pods cluster": 4,
		"LIST pods.metrics.k8s.io cluster": 5, "PUT deployments.apps/scale resource": 7,
	}))
}
