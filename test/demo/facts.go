package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

const poll = 100 * time.Millisecond

// fact is one line of the table: something that an API server said.
type fact struct {
	what, where, seen string
	holds             bool
	took              time.Duration
}

// look reads an API server once: what it saw, and whether that is what was hoped for.
type look func(ctx context.Context) (seen string, holds bool, err error)

// ledger collects facts and shows progress while it waits for them.
type ledger struct {
	out     io.Writer
	started time.Time
	facts   []fact
}

func (l *ledger) say(format string, args ...any) {
	fmt.Fprintf(l.out, "%6.1fs  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

// expect looks until what it sees holds or timeout is over, and notes the last look as a fact.
func (l *ledger) expect(ctx context.Context, what, where string, timeout time.Duration, look look) {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	noted := fact{what: what, where: where, seen: "nothing"}
	for {
		seen, holds, err := look(limited)
		switch {
		case err == nil:
			noted.seen, noted.holds = seen, holds
		case limited.Err() == nil:
			noted.seen = "error: " + err.Error()
		}
		if noted.holds {
			break
		}
		select {
		case <-limited.Done():
		case <-ticker.C:
			continue
		}
		break
	}
	noted.took = time.Since(begin)
	l.facts = append(l.facts, noted)
	mark := "ok"
	if !noted.holds {
		mark = "FAILED"
	}
	l.say("%s: %s (%s): %s", mark, what, where, noted.seen)
}

// table prints every fact and reports whether all hold.
func (l *ledger) table() bool {
	all := true
	w := tabwriter.NewWriter(l.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nCHECKED\tREAD FROM\tSEEN\tAFTER\tHOLDS")
	for _, fact := range l.facts {
		holds := "yes"
		if !fact.holds {
			holds, all = "NO", false
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1fs\t%s\n", fact.what, fact.where, fact.seen, fact.took.Seconds(), holds)
	}
	w.Flush() // Nothing is left to do when standard output is gone.
	return all
}
