package loadtest

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// The elements of a JUnit report.
type (
	suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		Suites  []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Time     string     `xml:"time,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *problem `xml:"failure,omitempty"`
		Error   *problem `xml:"error,omitempty"`
		Skipped *problem `xml:"skipped,omitempty"`
	}
	problem struct {
		Message string `xml:"message,attr"`
	}
)

// writeJUnit has a suite for all clusters together and one for each, with a test case for each threshold. A cluster that was not
// loaded in full, or whose measurements are invalid, has one more, which is an error. There is a failure or an error exactly if
// following the test ends with another exit code than 0: the first case is the verdict.
func writeJUnit(out io.Writer, r *report) error {
	all := suites{Name: r.Name}
	seconds := 0.0
	if r.StartTime != nil && r.EndTime != nil {
		seconds = r.EndTime.Sub(r.StartTime.Time).Seconds()
	}
	whole := newSuite(r.Name, "all clusters", seconds)
	whole.addVerdict(r)
	whole.addThresholds(r.Threshold, func(*v1alpha1.LoadThresholdResult) bool { return r.Verdict != v1alpha1.LoadPassed })
	all.Suites = append(all.Suites, whole)
	known := map[string]bool{}
	for i := range r.Runs {
		run := &r.Runs[i]
		known[run.Cluster] = true
		one := newSuite(r.Name, run.Cluster, seconds)
		// What the scope of a threshold allows is no failure, and neither is what was measured in an invalid run.
		one.addThresholds(run.Threshold, func(result *v1alpha1.LoadThresholdResult) bool {
			return result.Scope != v1alpha1.LoadScopeFleet && run.Verdict != v1alpha1.LoadInvalid && r.Verdict != v1alpha1.LoadPassed
		})
		if run.Failure != "" {
			one.addError(run.Failure)
		}
		for _, why := range run.Invalid {
			one.addError(why)
		}
		all.Suites = append(all.Suites, one)
	}
	for _, failure := range r.Failures {
		if !known[failure.Cluster] {
			one := newSuite(r.Name, failure.Cluster, 0)
			one.addError(failure.Message)
			all.Suites = append(all.Suites, one)
		}
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(out)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

func newSuite(test, name string, seconds float64) suite {
	return suite{Name: test + "/" + name, Time: fmt.Sprintf("%.3f", seconds)}
}

// addVerdict adds the case that fails with the error that following the test ends with.
func (s *suite) addVerdict(r *report) {
	one := testCase{Class: s.Name, Name: "verdict"}
	if err := r.exitError(); err != nil {
		one.Failure = &problem{err.Error()}
		s.Failures++
	}
	s.Cases = append(s.Cases, one)
	s.Tests++
}

// addThresholds adds a case for each threshold. One that is not met is skipped, with what was measured, if that fails nothing.
func (s *suite) addThresholds(results []v1alpha1.LoadThresholdResult, fails func(*v1alpha1.LoadThresholdResult) bool) {
	for i := range results {
		result := &results[i]
		one := testCase{Class: s.Name, Name: limitOf(result)}
		switch {
		case result.Met:
		case fails(result):
			one.Failure = &problem{loadtest.Describe(result)}
			s.Failures++
		default:
			one.Skipped = &problem{loadtest.Describe(result)}
			s.Skipped++
		}
		s.Cases = append(s.Cases, one)
		s.Tests++
	}
}

func (s *suite) addError(message string) {
	s.Cases = append(s.Cases, testCase{Class: s.Name, Name: "carried out in full", Error: &problem{message}})
	s.Errors++
	s.Tests++
}

// limitOf is what a threshold asks for, the same for every run.
func limitOf(result *v1alpha1.LoadThresholdResult) string {
	name := loadtest.Key{Measurement: result.Measurement, Verb: result.Verb, Resource: result.Resource, Scope: result.RequestScope}.String()
	switch {
	case result.MaxPercent != nil:
		return fmt.Sprintf("%s at most %d%%", name, *result.MaxPercent)
	case result.Max != nil:
		return fmt.Sprintf("%s %s at most %s", name, cmp.Or(result.Quantile, v1alpha1.LoadP99), result.Max.Duration)
	}
	return name
}
