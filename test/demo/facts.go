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
	// patience is how long the demo is silent before it says what it waits for, and then how often.
	patience = 5 * time.Second
)

// fact is one check: something that an API server said.
type fact struct {
	what, where, seen string
	holds             bool
	// cut tells that the demo ended before the fact was known.
	cut  bool
	took time.Duration
}

func (f fact) verdict() string {
	switch {
	case f.cut:
		return "unknown"
	case !f.holds:
		return "NO"
	}
	return "yes"
}

// chapter is what was seen of an act.
type chapter struct {
	act
	started time.Time
	took    time.Duration
	// complete tells that every step of the act was taken.
	complete bool
	facts    []fact
}

// verdict is "yes" only if each check of a complete act holds, and there is one.
func (c *chapter) verdict() string {
	verdict := "yes"
	if !c.complete || len(c.facts) == 0 {
		verdict = "unknown"
	}
	for _, fact := range c.facts {
		switch fact.verdict() {
		case "NO":
			return "NO"
		case "unknown":
			verdict = "unknown"
		}
	}
	return verdict
}

func (c *chapter) holding() int {
	count := 0
	for _, fact := range c.facts {
		if fact.verdict() == "yes" {
			count++
		}
	}
	return count
}

// look reads an API server once: what it saw, and whether that is what was hoped for.
type look func(ctx context.Context) (seen string, holds bool, err error)

// ledger collects the facts of each act and shows progress while it waits for them.
type ledger struct {
	// speaking is held while a line is written: the plugin's lines come in between.
	speaking sync.Mutex

	out     io.Writer
	started time.Time
	// verbose shows every check. Otherwise only what does not hold is shown, and what the demo is at if it is silent for long.
	verbose  bool
	chapters []*chapter
	spoke    time.Time
	// quiet is how long to be silent before saying what is waited for. Default: patience.
	quiet time.Duration
}

// say prints a line with the time since the start.
func (l *ledger) say(format string, args ...any) {
	l.speaking.Lock()
	defer l.speaking.Unlock()
	l.write(format, args...)
}

func (l *ledger) write(format string, args ...any) {
	l.spoke = time.Now()
	fmt.Fprintf(l.out, "%6.1fs  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

// detail prints a line as say does if the ledger is verbose, or if nothing was said for a while.
func (l *ledger) detail(format string, args ...any) {
	l.speaking.Lock()
	defer l.speaking.Unlock()
	if l.verbose || time.Since(l.spoke) >= cmp.Or(l.quiet, patience) {
		l.write(format, args...)
	}
}

// open begins an act.
func (l *ledger) open(act act, number, of int) {
	l.chapters = append(l.chapters, &chapter{act: act, started: time.Now()})
	l.speaking.Lock()
	defer l.speaking.Unlock()
	fmt.Fprintf(l.out, "\n%d of %d: %s\n  Promise: %s\n\n", number, of, act.title, act.promise)
}

// close ends an act of which every step was taken.
func (l *ledger) close() {
	c := l.chapters[len(l.chapters)-1]
	c.complete, c.took = true, time.Since(c.started)
	l.say("%s: %d of %d checks hold, in %.1fs",
		map[string]string{"yes": "kept", "NO": "NOT KEPT", "unknown": "not known"}[c.verdict()], c.holding(), len(c.facts), c.took.Seconds())
}

// sight is what a look saw.
type sight struct {
	seen  string
	holds bool
}

// expect looks until what it sees holds or timeout is over, and notes the last look as a fact of the act. When ctx has ended
// there is nothing to note.
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
	last := sight{seen: "nothing yet"}
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
	l.note(fact{what: what, where: where, seen: last.seen, holds: last.holds, cut: !last.holds && ctx.Err() != nil, took: time.Since(begin)})
}

// note adds a fact to the act. One that does not hold is shown at once.
func (l *ledger) note(f fact) {
	c := l.chapters[len(l.chapters)-1]
	c.facts, c.took = append(c.facts, f), time.Since(c.started)
	switch f.verdict() {
	case "yes":
		l.detail("ok: %s (%s): %s", f.what, f.where, f.seen)
	case "NO":
		l.say("FAILED: %s (%s): %s", f.what, f.where, f.seen)
	default:
		l.say("cut short: %s (%s): %s", f.what, f.where, f.seen)
	}
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

// conclude prints what was seen, and returns what makes the demo fail: what ended it before its time, or a promise that was
// not kept.
func (l *ledger) conclude(ended error) error {
	kept := l.printTables()
	if ended == nil && !kept {
		return errPromiseBroken
	}
	return ended
}

// printTables prints a row for each act, and before them each check: all of them if the ledger is verbose, else those that do
// not hold. It reports whether every promise was kept.
func (l *ledger) printTables() bool {
	kept, seen := true, 0
	w := tabwriter.NewWriter(l.out, 0, 4, 2, ' ', 0)
	for _, c := range l.chapters {
		kept = kept && c.verdict() == "yes"
		for _, f := range c.facts {
			if !l.verbose && f.verdict() == "yes" {
				continue
			}
			if seen++; seen == 1 {
				fmt.Fprintln(w, "\nCHECK\tREAD FROM\tSEEN\tAFTER\tHOLDS")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1fs\t%s\n", f.what, f.where, f.seen, f.took.Seconds(), f.verdict())
		}
	}
	w.Flush() // Nothing is left to do when standard output is gone.
	fmt.Fprintln(w, "\nPROMISE\tCHECKS\tTOOK\tKEPT")
	for _, c := range l.chapters {
		fmt.Fprintf(w, "%s\t%d of %d\t%.1fs\t%s\n", c.promise, c.holding(), len(c.facts), c.took.Seconds(), c.verdict())
	}
	w.Flush()
	return kept
}
