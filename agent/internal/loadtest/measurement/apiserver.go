package measurement

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

const (
	// serverMetric is the API server's own histogram of requests, without what webhooks and queues have taken.
	serverMetric = "apiserver_request_sli_duration_seconds"
	// scrapeTimeout bounds the reading of the API server's metrics, which are many.
	scrapeTimeout = 20 * time.Second
	// mostResource and mostScope are how long names of requests may be.
	mostResource, mostScope = 320, 16
)

// ServerCounts are how many requests the API server has counted: those of each bucket, by its upper bound in seconds.
type ServerCounts map[measure.Key]map[float64]uint64

// parseServerCounts reads the metrics of an API server. All but one is skipped before it is parsed.
func parseServerCounts(metrics io.Reader) (ServerCounts, error) {
	var wanted bytes.Buffer
	lines := bufio.NewReader(metrics)
	for {
		line, err := lines.ReadString('\n')
		if strings.HasPrefix(line, serverMetric+"_") || strings.HasPrefix(line, "# TYPE "+serverMetric+" ") {
			wanted.WriteString(line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading metrics: %w", err)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&wanted)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	counts := ServerCounts{}
	for _, metric := range families[serverMetric].GetMetric() {
		counts.addRequests(metric)
	}
	return counts, nil
}

// addRequests adds the requests of one verb, resource, group, subresource and scope, in all versions.
func (c ServerCounts) addRequests(metric *dto.Metric) {
	key := measure.Key{Measurement: v1alpha1.LoadAPIServerRequest}
	var group, subresource string
	for _, label := range metric.GetLabel() {
		switch label.GetName() {
		case "verb":
			key.Verb = label.GetValue()
		case "resource":
			key.Resource = label.GetValue()
		case "group":
			group = label.GetValue()
		case "subresource":
			subresource = label.GetValue()
		case "scope":
			key.Scope = conditions.Shorten(label.GetValue(), mostScope)
		}
	}
	if key.Resource != "" && group != "" {
		key.Resource += "." + group
	}
	if subresource != "" {
		key.Resource += "/" + subresource
	}
	key.Resource, key.Verb = conditions.Shorten(key.Resource, mostResource), conditions.Shorten(key.Verb, mostScope)
	if key.Verb == "" || key.Verb == "WATCH" || key.Verb == "CONNECT" {
		return
	}
	if c[key] == nil {
		c[key] = map[float64]uint64{}
	}
	var below uint64
	for _, bucket := range metric.GetHistogram().GetBucket() {
		c[key][bucket.GetUpperBound()] += bucket.GetCumulativeCount() - min(below, bucket.GetCumulativeCount())
		below = bucket.GetCumulativeCount()
	}
}

// countedSince is what was counted after before. An API server that was started in between has started to count again.
func (c ServerCounts) countedSince(before ServerCounts) measure.Measurements {
	measured := measure.Measurements{}
	for key, buckets := range c {
		restarted := false
		for bound, count := range buckets {
			restarted = restarted || count < before[key][bound]
		}
		for bound, count := range buckets {
			if !restarted {
				count -= before[key][bound]
			}
			took := time.Duration(math.MaxInt64) // Longer than the longest that is told apart.
			if !math.IsInf(bound, 1) {
				took = time.Duration(bound * float64(time.Second))
			}
			measured.Record(key, took, int64(count))
		}
	}
	return measured
}

// ScrapeServer reads what the API server has counted.
func (m *Meter) ScrapeServer(ctx context.Context) (ServerCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	stream, err := m.load.Requests.Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting /metrics: %w", err)
	}
	defer func() { _ = stream.Close() }()
	return parseServerCounts(stream)
}

// RecordServer takes in what the API server has counted between two scrapes.
func (m *Meter) RecordServer(before, after ServerCounts) {
	m.Recorder.mergeMeasurements(after.countedSince(before))
}
