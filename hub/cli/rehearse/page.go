package rehearse

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/hub/cli/htmlpage"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/report"
)

const (
	// mostRows and mostBars bound the page, which says what it leaves out.
	mostRows, mostBars = 200, 80
	// The size of the chart, and where its axis starts and ends.
	chartWidth, chartLeft, chartRight, barHeight, chartFoot = 960, 250, 940, 18, 26
	longestLabel                                            = 36
)

//go:embed rehearsal.html.tmpl
var pageText string

var pageTemplate = htmlpage.Parse("rehearsal", pageText, template.FuncMap{"took": func(d metav1.Duration) string { return d.Duration.String() }})

// rehearsalPage is what the page shows.
type rehearsalPage struct {
	*report.Report
	// Bars are the steps and drains over time, Ticks the axis below them.
	Bars          []bar
	Ticks         []tick
	BarsOmitted   int
	DrainsOmitted int
	Took          string
}

// bar is a step or a drain in the chart. The part that a budget has held is drawn over it.
type bar struct {
	Label, Title, Class string
	X, Width, Held      string
	Y, TextY            int
}

type tick struct{ X, Text string }

// Height is that of the chart.
func (p *rehearsalPage) Height() int { return len(p.Bars)*barHeight + chartFoot }

// Foot is where the texts of the axis stand.
func (p *rehearsalPage) Foot() int { return p.Height() - 8 }

// Width, Left and LabelX place the chart.
func (p *rehearsalPage) Width() int { return chartWidth }

// LabelX is where the labels of bars end.
func (p *rehearsalPage) LabelX() int { return chartLeft - 8 }

// BarHeight leaves a gap to the next bar.
func (p *rehearsalPage) BarHeight() int { return barHeight - 5 }

// VerdictClass is the colour of the verdict.
func (p *rehearsalPage) VerdictClass() string {
	switch p.Verdict {
	case report.Passed:
		return "good"
	case report.Failed:
		return "bad"
	case report.Incomplete:
	}
	return "warn"
}

func writePage(out io.Writer, r *report.Report) error {
	shown := rehearsalPage{Report: r}
	if r.Start != nil && r.End != nil {
		shown.Took = r.End.Sub(r.Start.Time).Round(time.Second).String()
	}
	shown.draw()
	if shown.DrainsOmitted = max(len(r.Drains)-mostRows, 0); shown.DrainsOmitted > 0 {
		short := *r
		short.Drains = r.Drains[:mostRows]
		shown.Report = &short
	}
	return htmlpage.Execute(pageTemplate, out, pageTemplate.Name(), &shown)
}

// draw makes the bars of steps, and below them those of drains.
func (p *rehearsalPage) draw() {
	if p.Start == nil {
		return
	}
	whole := time.Second
	for _, phase := range p.Phases {
		whole = max(whole, phase.Start.Sub(p.Start.Time)+phase.Duration.Duration)
	}
	for index := range p.Drains {
		whole = max(whole, p.Drains[index].After.Duration+p.Drains[index].Duration.Duration)
	}
	width := func(d time.Duration) float64 {
		return float64(min(max(d, 0), whole)) / float64(whole) * (chartRight - chartLeft)
	}
	add := func(label, title, class string, after, took, held time.Duration) {
		if len(p.Bars) == mostBars {
			p.BarsOmitted++
			return
		}
		if letters := []rune(label); len(letters) > longestLabel {
			label = string(letters[:longestLabel-1]) + "…"
		}
		y := len(p.Bars) * barHeight
		p.Bars = append(p.Bars, bar{
			Label: label, Title: title, Class: class, X: fmt.Sprintf("%.1f", chartLeft+width(after)), Width: fmt.Sprintf("%.1f", max(width(took), 1.5)),
			Held: fmt.Sprintf("%.1f", min(width(held), max(width(took), 1.5))), Y: y + 3, TextY: y + barHeight - 5,
		})
	}
	for _, phase := range p.Phases {
		class := "step"
		if phase.Failure != "" {
			class = "failed"
		}
		add(phase.Name, fmt.Sprintf("%s: %s", phase.Name, phase.Duration.Duration), class, phase.Start.Sub(p.Start.Time), phase.Duration.Duration, 0)
	}
	for index := range p.Drains {
		one := &p.Drains[index]
		class, held := "drain", time.Duration(0)
		if one.Outcome != observe.Drained {
			class = "failed"
		}
		for _, block := range one.Blocks {
			held = max(held, block.Duration.Duration)
		}
		add("drain "+one.Node, fmt.Sprintf("%s: %s in %s, held by %s", one.Node, one.Outcome, one.Duration.Duration, one.HeldBy()), class, one.After.Duration, one.Duration.Duration, held)
	}
	const ticks = 5
	for index := range ticks + 1 {
		at := whole * time.Duration(index) / ticks
		p.Ticks = append(p.Ticks, tick{fmt.Sprintf("%.1f", chartLeft+width(at)), at.Round(time.Second).String()})
	}
}
