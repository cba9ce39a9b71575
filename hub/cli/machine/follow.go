package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	// followPeriod is the time between two requests of who follows a log, which each cost the hub three writes. A request that took longer is
	// followed by a pause of pauseShare times as long: an agent answers one a second for all who ask.
	followPeriod = 5 * time.Second
	pauseShare   = 3
	// followTime is how long a log is followed by default, and longestFollow at most.
	followTime, longestFollow = 10 * time.Minute, time.Hour
	// mostKept is how many printed lines are kept to find out which lines of an answer are new.
	mostKept = 2 * mostLines
)

// logFollower prints the lines that are added to a log.
type logFollower struct {
	hub     *cmdutil.Hub
	client  client.WithWatch
	machine *v1alpha1.Machine
	query   Query
	// period is the time between two requests.
	period time.Duration
	// printed are the lines that were printed last, oldest first.
	printed []string
	// failed is why the last request was not answered, and since when none was; nil while they are.
	failed      error
	failedSince time.Time
}

// followLog asks again and again until ctx ends, the time is over, or nothing will be answered any more. The answer is the first one.
func followLog(ctx context.Context, f *logFollower, first *v1alpha1.MachineLogRequestStatus, asked time.Time, longest time.Duration) error {
	f.printed = splitLines(first.Log)
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	pause := f.period
	for waitFor(limited, pause) {
		started := time.Now()
		answer, err := f.requestLog(limited, started.Sub(asked))
		took := time.Since(started)
		pause = max(f.period, pauseShare*took)
		switch {
		case limited.Err() != nil:
		case err == nil:
			f.noteAnswer()
			asked = started
			if err := f.printAnswer(answer); err != nil {
				return err
			}
		case cmdutil.Code(err) != cmdutil.TimedOut && cmdutil.Code(err) != cmdutil.Failed:
			return err
		default:
			f.noteFailure(err, started)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.hub.Note("Stopped after %s (--for).", formatLimit(longest))
	return f.failed
}

// waitFor waits, and reports false when ctx has ended.
func waitFor(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// requestLog asks for what was written since the last request was made, and for as long before it as an answer may take: seconds are
// counted from when the agent reads.
func (f *logFollower) requestLog(ctx context.Context, since time.Duration) (*v1alpha1.MachineLogRequestStatus, error) {
	query := f.query
	query.Lines, query.Since = mostLines, min((since+query.Timeout+time.Second).Truncate(time.Second), longestSince)
	var answer *v1alpha1.MachineLogRequestStatus
	err := withinTime(ctx, longestReading+query.Timeout, func(ctx context.Context) (err error) {
		answer, err = AskForLog(ctx, f.client, f.machine, query)
		return err
	})
	return answer, err
}

// printAnswer prints the lines of an answer that are new.
func (f *logFollower) printAnswer(answer *v1alpha1.MachineLogRequestStatus) error {
	lines := splitLines(answer.Log)
	fresh, continues := newLines(f.printed, lines)
	if !continues && (answer.Truncated || len(lines) >= mostLines) {
		f.hub.Note("Lines are missing here: more were written than one answer has room for.")
	}
	for _, line := range fresh {
		if _, err := fmt.Fprintln(f.hub.Out, line); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	f.printed = append(f.printed, fresh...)
	f.printed = slices.Clone(f.printed[max(len(f.printed)-mostKept, 0):])
	return nil
}

// newLines are the lines of an answer that were not printed. continues: the answer has the end of what was printed, so that nothing is missing
// between the two. An answer may begin before what was printed, or within it. Of several places the first counts: no line is lost.
func newLines(printed, answer []string) (fresh []string, continues bool) {
	if len(printed) == 0 {
		return answer, false
	}
	for at := range max(len(answer)-len(printed)+1, 0) {
		if end := at + len(printed); slices.Equal(printed, answer[at:end]) {
			return answer[end:], true
		}
	}
	for at := range printed {
		rest := printed[at:]
		if len(rest) <= len(answer) && slices.Equal(rest, answer[:len(rest)]) {
			return answer[len(rest):], true
		}
	}
	return answer, false
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// noteFailure says once that nothing is answered, and why.
func (f *logFollower) noteFailure(err error, at time.Time) {
	if f.failed == nil {
		f.failedSince = at
		f.hub.Note("Nothing new is known since %s: %s. The command continues to ask.", at.Format(time.TimeOnly), oneLine(err.Error()))
	}
	f.failed = err
}

// noteAnswer says that requests are answered again that were not.
func (f *logFollower) noteAnswer() {
	if f.failed != nil {
		f.hub.Note("Answered again after %s.", formatLimit(time.Since(f.failedSince).Round(time.Second)))
		f.failed = nil
	}
}
