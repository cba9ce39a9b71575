package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// counter reads how many writes an API server has taken, from the API server's own metrics.
type counter struct{ config *rest.Config }

// counts is a number of successful writes by "resource[/subresource] VERB".
type counts map[string]float64

func (c counter) read(ctx context.Context) (counts, error) {
	clientset, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", c.config.Host, err)
	}
	content, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", c.config.Host, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("parsing the metrics of %s: %w", c.config.Host, err)
	}
	result := counts{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		// Reviews and tokens are asked for with POST and change nothing.
		if !strings.HasPrefix(labels["code"], "2") || strings.HasSuffix(labels["resource"], "reviews") || labels["subresource"] == "token" {
			continue
		}
		name := labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		result[name+" "+labels["verb"]] += metric.GetCounter().GetValue()
	}
	return result, nil
}

func (c counts) minus(before counts) counts {
	result := counts{}
	for name, value := range c {
		if delta := value - before[name]; delta > 0 {
			result[name] = delta
		}
	}
	return result
}

func (c counts) without(resource string) counts {
	result := maps.Clone(c)
	maps.DeleteFunc(result, func(name string, _ float64) bool { return strings.HasPrefix(name, resource+" ") })
	return result
}

func (c counts) dividedBy(divisor float64) counts {
	result := counts{}
	for name, value := range c {
		result[name] = value / divisor
	}
	return result
}
