package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/loadtest"
)

const (
	// mostTests is how many load tests a page lists, and mostRuns how many runs it shows.
	mostTests, mostRuns = 100, 100
	// tolerance is by how many percent a latency may be longer in a comparison, as the command has it by default.
	tolerance = 10
	// reportTime is for how long a report is shown before it is read again while its test continues, and longestReport how long that may take.
	reportTime, longestReport = 5 * time.Second, 30 * time.Second
	// mostReports is how many reports are kept.
	mostReports = 8
)

type loadTestRow struct {
	Name, State, Class, Verdict, Age, Message string
	Clusters, Completed, Failed, Invalid      int32
	Progress                                  v1alpha1.LoadProgress
}

type loadTestList struct {
	Unread string
	Tests  []loadTestRow
	Pages  pager
	// Names are those that can be compared.
	Names []string
}

func (s *server) showLoadTests(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	var list loadTestList
	if err := s.store.errorOf(health.LoadTest); err != nil {
		list.Unread = err.Error()
	}
	all := objectsOf[*v1alpha1.LoadTest](s.store, health.LoadTest, nil)
	slices.SortStableFunc(all, func(a, b *v1alpha1.LoadTest) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	list.Pages = newPager(r, len(all), mostTests)
	for _, test := range all[list.Pages.From:list.Pages.To] {
		list.Tests = append(list.Tests, f.newTestRow(test))
		list.Names = append(list.Names, test.Name)
	}
	return &view{Title: "Load tests", Section: "loadtests", Template: "loadtests.tmpl", Data: list}, nil
}

func (f *fleetState) newTestRow(test *v1alpha1.LoadTest) loadTestRow {
	status := &test.Status
	row := loadTestRow{
		Name: test.Name, State: cmp.Or(string(status.Phase), "Pending"), Class: classOf(string(health.Healthy)), Verdict: cmp.Or(string(status.Verdict), "–"),
		Age: ageText(f.Now, test.CreationTimestamp.Time), Message: status.Message, Clusters: status.Clusters, Completed: status.Completed,
		Failed: status.Failed, Invalid: status.Invalid, Progress: status.Progress,
	}
	if finding := f.findings[objectName{health.LoadTest, "", test.Name}]; finding != nil {
		row.Class = classOf(string(finding.State))
	}
	return row
}

// loadTestPage is the report of a test, with what its runs do now.
type loadTestPage struct {
	Name   string
	Report template.HTML
	// Runs are those that continue.
	Runs    []runRow
	Omitted int
	Unread  string
}

type runRow struct {
	Cluster, State, Message string
	Progress                v1alpha1.LoadProgress
}

func (s *server) showLoadTest(r *http.Request) (*view, error) {
	name := r.PathValue("test")
	report, err := s.reports.reportOf(r.Context(), s.store, name, s.clock.Now())
	if err != nil {
		return nil, err
	}
	page := loadTestPage{Name: name, Report: report}
	if err := s.store.errorOf(health.LoadTestRun); err != nil {
		page.Unread = "What its runs do now is not known: " + cmdutil.Printable(err.Error())
	}
	runs := objectsOf(s.store, health.LoadTestRun, func(run *v1alpha1.LoadTestRun) bool {
		return run.Labels[v1alpha1.LoadTestNameLabel] == name && run.Status.Phase != v1alpha1.LoadTestRunPhaseCompleted && run.Status.Phase != v1alpha1.LoadTestRunPhaseFailed
	})
	page.Omitted = max(len(runs)-mostRuns, 0)
	for _, run := range runs[:len(runs)-page.Omitted] {
		page.Runs = append(page.Runs, runRow{run.Namespace, cmp.Or(string(run.Status.Phase), "Pending"), run.Status.Message, run.Status.Progress})
	}
	return &view{Title: "Load test " + name, Section: "loadtests", Template: "loadtest.tmpl", Data: page}, nil
}

// comparisonPage has two tests side by side.
type comparisonPage struct {
	Before, Now             string
	Found                   *loadtest.Comparison
	Verdict                 string
	BeforeReport, NowReport template.HTML
}

func (s *server) compareLoadTests(r *http.Request) (*view, error) {
	before, now := r.URL.Query().Get("before"), r.URL.Query().Get("now")
	if before == "" || now == "" || before == now {
		return nil, cmdutil.Usage("choose two different load tests")
	}
	ctx, cancel := context.WithTimeout(r.Context(), longestReport)
	defer cancel()
	page := comparisonPage{Before: before, Now: now}
	var err error
	if page.Found, err = loadtest.Compare(ctx, s.store.client, before, now, tolerance); err != nil {
		return nil, err
	}
	switch {
	case len(page.Found.Differences) > 0:
		page.Verdict = "They cannot be compared, because they differ"
	case page.Found.Regressions > 0:
		page.Verdict = fmt.Sprintf("%d of the measurements are longer by more than %d%%, or missing", page.Found.Regressions, tolerance)
	default:
		page.Verdict = "No regression"
	}
	if page.BeforeReport, err = s.reports.reportOf(ctx, s.store, before, s.clock.Now()); err != nil {
		return nil, err
	}
	if page.NowReport, err = s.reports.reportOf(ctx, s.store, now, s.clock.Now()); err != nil {
		return nil, err
	}
	return &view{Title: "Compare " + before + " and " + now, Section: "loadtests", Template: "compare.tmpl", Data: page, Still: true}, nil
}

// reports keeps the reports that are looked at.
type reports struct {
	mu  sync.Mutex
	all map[string]*keptReport
}

// keptReport is a report as it was read at some time, for a version of its test.
type keptReport struct {
	at      time.Time
	version string
	text    template.HTML
}

// reportOf is the report of a test, which is read again if the test has changed.
func (k *reports) reportOf(ctx context.Context, s *store, name string, now time.Time) (template.HTML, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	version := ""
	if test := s.object(health.LoadTest, client.ObjectKey{Name: name}); test != nil {
		version = test.GetResourceVersion()
	}
	kept := k.all[name]
	if kept != nil && (version != "" && version == kept.version || now.Sub(kept.at) < reportTime) {
		return kept.text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestReport)
	defer cancel()
	text, err := loadtest.ReportBody(ctx, s.client, name)
	if err != nil {
		return "", err
	}
	if k.all == nil || len(k.all) >= mostReports {
		k.all = map[string]*keptReport{}
	}
	k.all[name] = &keptReport{now, version, text}
	return text, nil
}
