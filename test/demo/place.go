package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
)

// keptDir is where a fleet that stays is found again by demo down. Each user has one.
func keptDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("hollowfleet-demo-%d", os.Getuid()))
}

// chooseDir returns the directory for a new fleet. A fleet that is to stay takes the place of one that stayed
// earlier; any other gets a directory of its own, so that two demos can run side by side.
func chooseDir(ctx context.Context, opts options) (string, error) {
	if !opts.keep {
		dir, err := os.MkdirTemp("", filepath.Base(keptDir())+"-")
		if err != nil {
			return "", fmt.Errorf("making a directory for the fleet: %w", err)
		}
		return dir, os.Chmod(dir, 0o755)
	}
	if _, err := os.Stat(keptDir()); err == nil {
		fmt.Fprintln(opts.out, "Ending the fleet that an earlier demo kept")
		if err := opts.end(ctx, keptDir()); err != nil {
			return "", err
		}
	}
	return keptDir(), nil
}

// runDown ends the kept fleet and every fleet whose demo is gone.
func runDown(ctx context.Context, opts options) error {
	dirs, err := filepath.Glob(keptDir() + "-*")
	if err != nil {
		return fmt.Errorf("looking for fleets: %w", err)
	}
	if _, err := os.Stat(keptDir()); err == nil {
		dirs = append(dirs, keptDir())
	}
	ended := 0
	for _, dir := range dirs {
		if state, err := localfleet.ReadState(dir); err == nil && dir != keptDir() && state.Owner.Alive() {
			continue // A demo that runs right now ends its own fleet.
		}
		if err := opts.end(ctx, dir); err != nil {
			return err
		}
		ended++
		fmt.Fprintln(opts.out, "Ended the fleet in", dir)
	}
	if ended == 0 {
		fmt.Fprintln(opts.out, "No fleet to end")
	}
	return nil
}

// end ends the fleet in a directory of the demo's own. One without a fleet was left by a demo that had not begun.
func (o options) end(ctx context.Context, dir string) error {
	if _, err := localfleet.ReadState(dir); errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(dir)
	}
	return o.plugin(func(format string, args ...any) { fmt.Fprintf(o.out, format+"\n", args...) }).down(ctx, dir)
}
