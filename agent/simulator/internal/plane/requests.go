package plane

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// requestCounts count the requests to one API server. The metrics of its code count those to all API servers of the process, so they
// are not served: /metrics has these alone, with the same names, labels and buckets.
type requestCounts struct {
	registry *prometheus.Registry
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	sli      *prometheus.HistogramVec

	mutex sync.Mutex
	// known are resources that have answered other than with NotFound: a client can ask for any name.
	known map[resource]bool
}

type resource struct{ group, version, name, subresource string }

var (
	resourceLabels  = []string{"group", "version", "resource", "subresource", "scope", "component"}
	durationBuckets = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
	sliBuckets      = durationBuckets[2:]
	// verbs are those that are told apart.
	verbs = []string{
		metrics.MethodGet, metrics.MethodList, metrics.MethodWatch, metrics.MethodPost, metrics.MethodPut, metrics.MethodPatch, metrics.MethodApply,
		http.MethodDelete, metrics.MethodConnect,
	}
)

func newRequestCounts() *requestCounts {
	labels := func(first ...string) []string { return append(first, resourceLabels...) }
	c := &requestCounts{
		registry: prometheus.NewRegistry(), known: map[resource]bool{},
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests to this API server.",
		}, append(labels("verb", "dry_run"), "code")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "How long requests to this API server took.", Buckets: durationBuckets,
		}, labels("verb", "dry_run")),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_sli_duration_seconds", Help: "How long requests to this API server took, without webhooks and queues.", Buckets: sliBuckets,
		}, labels("verb")),
	}
	c.registry.MustRegister(c.total, c.duration, c.sli)
	return c
}

// handler serves the metrics.
func (c *requestCounts) handler() http.Handler {
	return promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{})
}

// countRequests counts what the handler answers, as metrics.MonitorRequest does: the time begins where the request came in.
func (c *requestCounts) countRequests(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, asked *http.Request) {
		info, ok := request.RequestInfoFrom(asked.Context())
		if !ok || !info.IsResourceRequest {
			handler.ServeHTTP(writer, asked)
			return
		}
		began, ok := request.ReceivedTimestampFrom(asked.Context())
		if !ok {
			began = time.Now()
		}
		delegate := &metrics.ResponseWriterDelegator{ResponseWriter: writer}
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(delegate), asked)
		c.record(asked, info, delegate.Status(), time.Since(began))
	})
}

func (c *requestCounts) record(asked *http.Request, info *request.RequestInfo, status int, took time.Duration) {
	wanted := resource{info.APIGroup, info.APIVersion, info.Resource, info.Subresource}
	if !c.isKnown(wanted, status) {
		return
	}
	scope := metrics.CleanScope(info)
	verb := metrics.CleanVerb(metrics.CanonicalVerb(strings.ToUpper(asked.Method), scope), asked, info)
	if info.Verb == "watch" || info.Verb == "watchlist" {
		verb = metrics.MethodWatch
	}
	if !slices.Contains(verbs, verb) {
		verb = metrics.OtherRequestMethod
	}
	dryRun := ""
	if asked.URL.Query().Has("dryRun") {
		dryRun = "All"
	}
	labels := []string{wanted.group, wanted.version, wanted.name, wanted.subresource, scope, metrics.APIServerComponent}
	c.total.WithLabelValues(append(append([]string{verb, dryRun}, labels...), strconv.Itoa(status))...).Inc()
	c.duration.WithLabelValues(append([]string{verb, dryRun}, labels...)...).Observe(took.Seconds())
	trackers, ok := request.LatencyTrackersFrom(asked.Context())
	if !ok || dryRun != "" {
		return
	}
	took -= trackers.MutatingWebhookTracker.GetLatency() + trackers.ValidatingWebhookTracker.GetLatency() + trackers.APFQueueWaitTracker.GetLatency()
	c.sli.WithLabelValues(append([]string{verb}, labels...)...).Observe(took.Seconds())
}

// isKnown reports whether there is such a resource.
func (c *requestCounts) isKnown(wanted resource, status int) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if status != http.StatusNotFound {
		c.known[wanted] = true
	}
	return c.known[wanted]
}
