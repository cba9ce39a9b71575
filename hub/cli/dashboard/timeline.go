package dashboard

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// mostLanes is how many clusters the timeline shows at once, and mostDisruptions how many disruptions are listed.
const mostLanes, mostDisruptions = 100, 100

// spans are the lengths of the timeline that can be chosen.
var spans = []struct {
	name   string
	length time.Duration
}{{"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// timelinePage is what happened to clusters.
type timelinePage struct {
	Axis        axis
	Spans       []spanLink
	Lanes       []lane
	Pages       pager
	Missing     []string
	Disruptions []disruptionRow
	// Omitted is how many more disruptions there are.
	Omitted int
}

type spanLink struct {
	Name    string
	Query   template.URL
	Current bool
}

// lane is a cluster on the timeline.
type lane struct {
	Cluster string
	Bars    []bar
	// Texts say the same in words.
	Texts []string
	last  time.Time
}

type disruptionRow struct {
	Name, State, Class, Verdict, Next, Message        string
	Clusters, Selected, Injected, Observed, Recovered int32
}

func (s *server) showTimeline(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	chosen := slices.IndexFunc(spans, func(one struct {
		name   string
		length time.Duration
	}) bool {
		return one.name == r.URL.Query().Get("span")
	})
	if chosen < 0 {
		chosen = 1
	}
	page := timelinePage{Axis: axis{From: f.Now.Add(-spans[chosen].length), To: f.Now, Now: axisWidth}}
	for i, one := range spans {
		page.Spans = append(page.Spans, spanLink{one.name, encodeQuery(url.Values{"span": {one.name}}), i == chosen})
	}
	for _, kind := range []string{health.Cluster, health.NodeDisruption, health.NodeDisruptionRun, health.LoadTestRun} {
		if err := s.store.errorOf(kind); err != nil {
			page.Missing = append(page.Missing, fmt.Sprintf("%s: not shown, because they are not known: %s", plural.Of(kind), cmdutil.Printable(err.Error())))
		}
	}
	lanes := s.newLanes(&page.Axis)
	page.Pages = newPager(r, len(lanes), mostLanes)
	page.Lanes = lanes[page.Pages.From:page.Pages.To]
	disruptions := objectsOf[*v1alpha1.NodeDisruption](s.store, health.NodeDisruption, nil)
	slices.SortStableFunc(disruptions, func(a, b *v1alpha1.NodeDisruption) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	page.Omitted = max(len(disruptions)-mostDisruptions, 0)
	for _, one := range disruptions[:len(disruptions)-page.Omitted] {
		page.Disruptions = append(page.Disruptions, f.newDisruptionRow(one))
	}
	return &view{Title: "Timeline", Section: "timeline", Template: "timeline.tmpl", Data: page}, nil
}

func (f *fleetState) newDisruptionRow(one *v1alpha1.NodeDisruption) disruptionRow {
	status := &one.Status
	row := disruptionRow{
		Name: one.Name, State: cmp.Or(string(status.Phase), "Pending"), Class: classOf(string(health.Healthy)), Verdict: cmp.Or(string(status.Verdict), "–"), Message: status.Message,
		Next: "–", Clusters: status.Clusters, Selected: status.Selected, Injected: status.Injected, Observed: status.Observed, Recovered: status.Recovered,
	}
	if finding := f.findings[objectName{health.NodeDisruption, "", one.Name}]; finding != nil {
		row.Class = classOf(string(finding.State))
		row.Message = finding.Reason + ": " + finding.Message
	}
	if next := status.NextScheduleTime; next != nil {
		row.Next = next.UTC().Format(time.RFC3339)
	}
	return row
}

// newLanes are the clusters to which something happened, the latest first.
func (s *server) newLanes(a *axis) []lane {
	byCluster := map[string]*lane{}
	add := func(cluster, class, what string, since, until time.Time, continues bool) {
		if since.IsZero() || until.Before(a.From) || since.After(a.To) {
			return
		}
		one := byCluster[cluster]
		if one == nil {
			one = &lane{Cluster: cluster}
			byCluster[cluster] = one
		}
		drawn := a.newBar(class, what, since, until)
		text := fmt.Sprintf("%s, since %s", drawn.Title, since.UTC().Format("Jan 2 15:04:05"))
		if continues {
			text += ", and it continues"
			one.last = a.To
		}
		if until.After(one.last) {
			one.last = until
		}
		one.Bars, one.Texts = append(one.Bars, drawn), append(one.Texts, text)
	}
	for _, cluster := range objectsOf[*v1alpha1.Cluster](s.store, health.Cluster, nil) {
		for _, freeze := range cluster.Status.Freezes {
			add(cluster.Name, "bar-cold", "frozen", freeze.Since.Time, freeze.Until.Time, false)
		}
		if frozen := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.FrozenCondition); frozen != nil && frozen.Status == metav1.ConditionTrue {
			add(cluster.Name, "bar-cold", "frozen ("+frozen.Reason+")", frozen.LastTransitionTime.Time, a.To, true)
		}
	}
	for _, run := range objectsOf[*v1alpha1.NodeDisruptionRun](s.store, health.NodeDisruptionRun, nil) {
		over := run.Status.Phase == v1alpha1.NodeDisruptionCompleted || run.Status.Phase == v1alpha1.NodeDisruptionFailed
		since, until := timesOf(run.Status.StartTime, run.Status.EndTime, a.To, !over)
		add(run.Namespace, "bar-bad", "disruption "+run.Labels[v1alpha1.NodeDisruptionNameLabel], since, until, !over)
	}
	for _, run := range objectsOf[*v1alpha1.LoadTestRun](s.store, health.LoadTestRun, nil) {
		over := run.Status.EndTime != nil
		since, until := timesOf(run.Status.StartTime, run.Status.EndTime, a.To, !over)
		add(run.Namespace, "bar-load", "load test "+run.Labels[v1alpha1.LoadTestNameLabel], since, until, !over)
	}
	var lanes []lane
	for _, one := range byCluster {
		lanes = append(lanes, *one)
	}
	slices.SortFunc(lanes, func(a, b lane) int { return cmp.Or(b.last.Compare(a.last), cmp.Compare(a.Cluster, b.Cluster)) })
	return lanes
}

// timesOf are the times of a run that may continue. The end of a disruption is set in advance.
func timesOf(start, end *metav1.Time, now time.Time, continues bool) (since, until time.Time) {
	if start.IsZero() {
		return since, until
	}
	since, until = start.Time, now
	if !continues && end != nil {
		until = end.Time
	}
	return since, until
}
