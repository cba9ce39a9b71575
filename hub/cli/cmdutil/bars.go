package cmdutil

import (
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

const (
	barWidth = 40
	// MostBars is up to how many clusters bars of those that are over stay on the screen.
	MostBars = 15
)

// Bars are bars in a terminal, one under the other. What is shown is made of fixed words, counts and names of objects: nothing
// that comes from elsewhere may be written to a terminal as it is.
type Bars struct{ progress *mpb.Progress }

// NewBars returns bars without any.
func NewBars(terminal io.Writer) *Bars {
	return &Bars{mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(barWidth))}
}

// Bar is one bar with the text behind it.
type Bar struct {
	bar  *mpb.Bar
	text chan string
}

// Add adds a bar; remove takes it from the screen when it has ended. The library reads its text from another goroutine.
func (b *Bars) Add(name string, order int, remove bool) *Bar {
	added := &Bar{text: make(chan string, 1)}
	shown := ""
	// Without a total the library does not take a bar that is full for one that has ended: a cluster goes back when it fails.
	added.bar = b.progress.AddBar(0, mpb.BarPriority(order), mpb.BarOptional(mpb.BarRemoveOnComplete(), remove),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			select {
			case shown = <-added.text:
			default:
			}
			return shown
		})))
	return added
}

// Show sets how far a bar is. Nothing is shown any more after it has ended.
func (b *Bar) Show(current, total int64, ended bool, text string) {
	select {
	case <-b.text:
	default:
	}
	b.text <- text
	b.bar.SetTotal(max(total, 1), false)
	b.bar.SetCurrent(min(current, max(total, 1)))
	if ended {
		b.bar.SetTotal(-1, true) // The total becomes what there is.
	}
}

// Stop leaves a bar as it is.
func (b *Bar) Stop() { b.bar.Abort(false) }

// Wait returns when all bars have ended or were stopped, and are drawn for the last time.
func (b *Bars) Wait() { b.progress.Wait() }
