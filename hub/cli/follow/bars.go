package follow

import (
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

const (
	barWidth = 40
	// mostBars is up to how many clusters bars of those that are over stay on the screen.
	mostBars = 15
)

// bars is a display for a terminal: a bar for each cluster, and one for all of them.
type bars struct {
	progress *mpb.Progress
	all      *bar
	clusters map[string]*bar
	count    func() int32
}

func newBars(terminal io.Writer, count func() int32) *bars {
	b := &bars{progress: mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(barWidth)), clusters: map[string]*bar{}, count: count}
	b.all = b.addBar("all clusters", 1<<20, false)
	return b
}

func (b *bars) showState(cluster string, state State) {
	shown, known := b.clusters[cluster]
	switch {
	case cluster == "":
		shown = b.all
	case !known && state.WasEnded:
		return
	case !known:
		shown = b.addBar(cluster, len(b.clusters), b.count() > mostBars)
		b.clusters[cluster] = shown
	}
	shown.setState(state)
}

func (b *bars) closeDisplay() {
	for _, one := range b.clusters {
		one.bar.Abort(false)
	}
	b.all.bar.Abort(false)
	b.progress.Wait()
}

// bar is one bar with the text behind it.
type bar struct {
	bar  *mpb.Bar
	text chan string
}

// addBar adds a bar; remove takes it from the screen when it has ended. The library reads its text from another goroutine.
func (b *bars) addBar(name string, order int, remove bool) *bar {
	added := &bar{text: make(chan string, 1)}
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

// setState sets how far a bar is. Nothing is shown any more after it has ended.
func (b *bar) setState(state State) {
	select {
	case <-b.text:
	default:
	}
	b.text <- state.Text
	total := max(state.Total, 1)
	b.bar.SetTotal(total, false)
	b.bar.SetCurrent(min(state.Current, total))
	if state.Ended {
		b.bar.SetTotal(-1, true) // The total becomes what there is.
	}
}
