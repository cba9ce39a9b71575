package loadtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

const (
	// mostLines is how many clusters a chart has, those with the longest p99. mostMarks is how many faults it shows.
	mostLines, mostMarks = 8, 100
	// The size of a chart, and where its axes start and end.
	chartWidth, chartHeight               = 900, 260
	chartLeft, chartRight, chartTop, foot = 62, 868, 12, 232
)

// chart is a measurement over time. All coordinates are of an SVG.
type chart struct {
	Name           string
	Width, Height  int
	Left, Right    int
	Top, Foot      int
	Lines          []line
	Omitted        int
	Marks          []mark
	MarksOmitted   int
	Across, Up     []tick
	Limit          *tick
	Seconds        int32
	longest, limit time.Duration
}

type line struct {
	Cluster string
	Number  int
	// P50 and P99 are the points of each part of the line. Where nothing was measured for a while, there is no line.
	P50, P99 []string
	Dots     []dot
}

// LabelX is where the texts of the upright axis end, LabelY where those of the other are, and Span how high the chart is.
func (c *chart) LabelX() int { return c.Left - 6 }

// LabelY is below the axis.
func (c *chart) LabelY() int { return c.Foot + 18 }

// Span is how high the chart is.
func (c *chart) Span() int { return c.Foot - c.Top }

// dot is a point with the text that is shown for it.
type dot struct{ X, Y, Title string }

type mark struct{ X, Width, Title string }

type tick struct{ At, Text string }

// chartsOf has one for each measurement of which there are series.
func chartsOf(r *report) []*chart {
	var kinds []v1alpha1.LoadMeasurement
	for i := range r.Runs {
		for _, series := range r.Runs[i].Series {
			if !slices.Contains(kinds, series.Measurement) && len(series.Points) > 0 {
				kinds = append(kinds, series.Measurement)
			}
		}
	}
	slices.SortFunc(kinds, func(a, b v1alpha1.LoadMeasurement) int {
		return cmp.Compare(slices.Index(measurements, a), slices.Index(measurements, b))
	})
	var charts []*chart
	for _, kind := range kinds {
		charts = append(charts, chartOf(r, kind))
	}
	return charts
}

// chartOf draws the clusters with the longest times, each with a line for p50 and one for p99.
func chartOf(r *report, kind v1alpha1.LoadMeasurement) *chart {
	c := &chart{Name: string(kind), Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartRight, Top: chartTop, Foot: foot}
	type drawn struct {
		run    *clusterReport
		points []v1alpha1.LoadPoint
		worst  time.Duration
	}
	var all []drawn
	for i := range r.Runs {
		for _, series := range r.Runs[i].Series {
			if series.Measurement != kind || len(series.Points) == 0 {
				continue
			}
			one := drawn{run: &r.Runs[i], points: series.Points}
			for _, point := range series.Points {
				one.worst = max(one.worst, point.P99.Duration)
				c.Seconds = max(c.Seconds, startOffset(r, one.run)+point.Seconds)
			}
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b drawn) int { return cmp.Compare(b.worst, a.worst) })
	c.Omitted = max(len(all)-mostLines, 0)
	all = all[:len(all)-c.Omitted]
	slices.SortFunc(all, func(a, b drawn) int { return cmp.Compare(a.run.Cluster, b.run.Cluster) })
	for _, one := range all {
		c.longest = max(c.longest, one.worst)
	}
	c.scaleAxes(r, kind)
	for i, one := range all {
		c.Lines = append(c.Lines, c.newLine(i+1, one.run.Cluster, one.points, startOffset(r, one.run)))
	}
	c.markFailures(r)
	return c
}

// startOffset is how many seconds after the test's beginning a run started.
func startOffset(r *report, run *clusterReport) int32 {
	if r.StartTime == nil || run.StartTime == nil {
		return 0
	}
	return int32(max(run.StartTime.Sub(r.StartTime.Time).Seconds(), 0))
}

// scaleAxes makes the axes, and the line of a threshold for p99 of the measurement.
func (c *chart) scaleAxes(r *report, kind v1alpha1.LoadMeasurement) {
	c.Seconds = max(c.Seconds, 1)
	for _, threshold := range r.Threshold {
		if threshold.Measurement == kind && threshold.Verb == "" && threshold.Resource == "" && threshold.Max != nil && cmp.Or(threshold.Quantile, v1alpha1.LoadP99) == v1alpha1.LoadP99 {
			c.limit = threshold.Max.Duration
		}
	}
	// A threshold far above all that was measured would press the lines flat.
	shown := c.limit > 0 && c.limit <= 3*c.longest
	if shown {
		c.longest = max(c.longest, c.limit)
	}
	c.longest = max(c.longest*21/20, time.Microsecond)
	if shown {
		c.Limit = &tick{c.yOf(c.limit), "at most " + c.limit.String()}
	}
	const ticks = 4
	for i := range ticks + 1 {
		c.Up = append(c.Up, tick{c.yOf(c.longest * time.Duration(i) / ticks), loadtest.Round(c.longest * time.Duration(i) / ticks).String()})
		at := c.Seconds * int32(i) / ticks
		c.Across = append(c.Across, tick{c.xOf(at), (time.Duration(at) * time.Second).String()})
	}
}

func (c *chart) xOf(seconds int32) string {
	return fmt.Sprintf("%.1f", chartLeft+float64(min(max(seconds, 0), c.Seconds))/float64(c.Seconds)*(chartRight-chartLeft))
}

func (c *chart) yOf(value time.Duration) string {
	return fmt.Sprintf("%.1f", foot-float64(value)/float64(c.longest)*(foot-chartTop))
}

func (c *chart) newLine(number int, cluster string, points []v1alpha1.LoadPoint, offset int32) line {
	l := line{Cluster: cluster, Number: number}
	var p50, p99 []string
	part := func() {
		if len(p50) > 0 {
			l.P50, l.P99 = append(l.P50, strings.Join(p50, " ")), append(l.P99, strings.Join(p99, " "))
		}
		p50, p99 = nil, nil
	}
	longest := longestGap(points)
	for i, point := range points {
		if i > 0 && point.Seconds-points[i-1].Seconds > longest {
			part()
		}
		x := c.xOf(offset + point.Seconds)
		p50 = append(p50, x+","+c.yOf(point.P50.Duration))
		p99 = append(p99, x+","+c.yOf(point.P99.Duration))
		l.Dots = append(l.Dots, dot{x, c.yOf(point.P99.Duration), fmt.Sprintf("%s at %ds: p50 %s, p99 %s of %d", cluster, offset+point.Seconds, formatDuration(point.P50), formatDuration(point.P99), point.Count)})
	}
	part()
	return l
}

// longestGap is over how many seconds a line continues: one point may be missing.
func longestGap(points []v1alpha1.LoadPoint) int32 {
	shortest := int32(math.MaxInt32 / 2)
	for i := 1; i < len(points); i++ {
		shortest = min(shortest, points[i].Seconds-points[i-1].Seconds)
	}
	return 2 * shortest
}

// markFailures shows when Nodes failed, as long as they did.
func (c *chart) markFailures(r *report) {
	if r.StartTime == nil {
		return
	}
	at := func(t metav1.Time) int32 { return int32(t.Sub(r.StartTime.Time).Seconds()) }
	for i := range r.Faults {
		one := &r.Faults[i]
		if at(one.Injected) > c.Seconds {
			continue
		}
		if len(c.Marks) == mostMarks {
			c.MarksOmitted++
			continue
		}
		until, text := c.Seconds, "has not recovered"
		if one.Recovered != nil {
			until, text = at(*one.Recovered), "recovered at "+(time.Duration(at(*one.Recovered))*time.Second).String()
		}
		from := max(at(one.Injected), 0)
		width := float64(max(min(until, c.Seconds)-from, 0)) / float64(c.Seconds) * (chartRight - chartLeft)
		c.Marks = append(c.Marks, mark{c.xOf(from), fmt.Sprintf("%.1f", max(width, 1.5)), fmt.Sprintf("%s in %s failed at %s, %s", one.Node, one.Cluster, time.Duration(from)*time.Second, text)})
	}
}

func timeText(t *metav1.Time) string {
	if t == nil {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
