package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	poll = 100 * time.Millisecond
	// patience is how long the demo waits before it says what it waits for, and then how often.
	patience = 5 * time.Second
)

// fact is one line of the table: something that an API server said.
type fact struct {
	what, where, seen string
	holds             bool
	// cut tells that the demo ended before the fact was known.
	cut  bool
	took time.Duration
}

// look reads an API server once: what it saw, and whether that is what was hoped for.
type look func(ctx context.Context) (seen string, holds bool, err error)

// ledger collects facts and shows progress while it waits for them.
type ledger struct {
	// speaking is held while a line is written: the plugin's lines come in between.
	speaking sync.Mutex

	out     io.Writer
	started time.Time
	facts   []fact
	// quiet is how long to wait before saying what is waited for. Default: patience.
	quiet time.Duration
}

func (l *ledger) say(format string, args ...any) {
	l.speaking.Lock()
	defer l.speaking.Unlock()
	fmt.Fprintf(l.out, "%6.1fs  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

// sight is what a look saw.
type sight struct {
	seen  string
	holds bool
}

// expect looks until what it sees holds or timeout is over, and notes the last look as a fact. When ctx has ended there
// is nothing to note any more.
func (l *ledger) expect(ctx context.Context, what, where string, timeout time.Duration, look look) {
	if ctx.Err() != nil {
		return
	}
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sights := make(chan sight)
	go look.until(limited, sights)
	reminder := time.NewTicker(cmp.Or(l.quiet, patience))
	defer reminder.Stop()
	last := sight{seen: "nothing"}
	for looking := true; looking; {
		select {
		case next, more := <-sights:
			if looking = more; more {
				last = next
			}
		case <-reminder.C:
			l.say("waiting for: %s (%s); seen last: %s", what, where, last.seen)
		}
	}
	cut := !last.holds && ctx.Err() != nil
	l.facts = append(l.facts, fact{what: what, where: where, seen: last.seen, holds: last.holds, cut: cut, took: time.Since(begin)})
	mark := "ok"
	switch {
	case cut:
		mark = "cut short"
	case !last.holds:
		mark = "FAILED"
	}
	l.say("%s: %s (%s): %s", mark, what, where, last.seen)
}

// until looks until what it sees holds or ctx is done, and sends all that it sees. A look may take its time.
func (l look) until(ctx context.Context, sights chan<- sight) {
	defer close(sights)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		seen, holds, err := l(ctx)
		if err != nil {
			seen, holds = "error: "+err.Error(), false
		}
		// An error at the end may come from that alone.
		if err == nil || ctx.Err() == nil {
			sights <- sight{seen: seen, holds: holds}
		}
		if holds {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// conclude prints the table of what was seen, and returns what makes the demo fail: what ended it before its time, or a
// line that does not hold.
func (l *ledger) conclude(ended error) error {
	if ended != nil && len(l.facts) == 0 {
		return ended
	}
	if holds := l.table(); ended == nil && !holds {
		return errChecksFailed
	}
	return ended
}

// table prints every fact and reports whether all hold.
func (l *ledger) table() bool {
	all := true
	w := tabwriter.NewWriter(l.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nCHECKED\tREAD FROM\tSEEN\tAFTER\tHOLDS")
	for _, fact := range l.facts {
		holds := "yes"
		switch {
		case fact.cut:
			holds, all = "unknown", false
		case !fact.holds:
			holds, all = "NO", false
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1fs\t%s\n", fact.what, fact.where, fact.seen, fact.took.Seconds(), holds)
	}
	w.Flush() // Nothing is left to do when standard output is gone.
	return all
}
