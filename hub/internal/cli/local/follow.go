package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

const followPoll = 100 * time.Millisecond

// follow shows the keeper's progress until the fleet is up or the keeper has ended.
func follow(ctx context.Context, keeper *process.Process, dir string, out io.Writer) error {
	// A keeper that fails removes the fleet's directory with its log: an open file can be read all the same.
	file, err := os.Open(keeper.LogFile())
	if err != nil {
		return fmt.Errorf("following the start of the fleet: %w", err)
	}
	defer file.Close()
	log := &tail{file: file, out: out}
	ticker := time.NewTicker(followPoll)
	defer ticker.Stop()
	for {
		// First the state: what the log says after that is complete.
		state, stateErr := localfleet.ReadState(dir)
		if err := log.show(); err != nil {
			return err
		}
		if stateErr == nil && state.Ready {
			return nil
		}
		select {
		case <-keeper.Done():
			return errors.Join(log.show(), fmt.Errorf("starting the fleet: %s", log.failure()))
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// tail passes the lines of a growing log on, and keeps the error at its end.
type tail struct {
	file io.Reader
	out  io.Writer
	rest string
	bad  []string
}

func (t *tail) show() error {
	content, err := io.ReadAll(t.file)
	if err != nil {
		return fmt.Errorf("following the start of the fleet: %w", err)
	}
	lines := strings.Split(t.rest+string(content), "\n")
	t.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		message, failed := strings.CutPrefix(line, "error: ")
		if failed || len(t.bad) > 0 {
			t.bad = append(t.bad, message)
			continue
		}
		fmt.Fprintf(t.out, "  %s\n", line)
	}
	return nil
}

func (t *tail) failure() string {
	if len(t.bad) == 0 {
		return "its keeper ended without a word"
	}
	return strings.Join(t.bad, "\n")
}
