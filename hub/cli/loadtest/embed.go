package loadtest

import (
	"bytes"
	"context"
	"fmt"
	"html/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// ReportBody is what the page of a report has below its head, for another page that has the style of htmlpage. It has no inline style.
func ReportBody(ctx context.Context, c client.Client, name string) (template.HTML, error) {
	r, err := gatherReport(ctx, c, name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := writePage(&text, r, "body"); err != nil {
		return "", fmt.Errorf("writing the report of load test %s: %w", name, err)
	}
	return template.HTML(text.String()), nil //nolint:gosec // A template of html/template has made it.
}

// Comparison is what "loadtest compare" finds in two tests.
type Comparison struct {
	Table *metav1.Table
	// Differences keep the tests from being compared: nothing is judged then.
	Differences []string
	Regressions int
}

// Compare compares a test with an earlier one, which both are on the hub. percent is how much longer a latency may be.
func Compare(ctx context.Context, c client.Client, before, now string, percent float64) (*Comparison, error) {
	earlier, err := gatherReport(ctx, c, before)
	if err != nil {
		return nil, err
	}
	later, err := gatherReport(ctx, c, now)
	if err != nil {
		return nil, err
	}
	if len(earlier.Results) == 0 {
		return nil, cmdutil.Refusal("load test %s has no results to compare with", before)
	}
	found := compareResults(earlier.Results, later.Results, percent)
	found.Differences = findDifferences(earlier, later)
	if len(found.Differences) > 0 {
		found.clearVerdicts()
	}
	result := &Comparison{Table: found.newTable(), Regressions: found.Regressions}
	for _, one := range found.Differences {
		result.Differences = append(result.Differences, fmt.Sprintf("%s: %s in %s, %s in %s", one.Property, one.Before, before, one.Now, now))
	}
	return result, nil
}
