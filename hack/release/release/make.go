package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// makeRelease makes all in a new directory beside the output, and gives that the output's name when it is complete. It removes nothing else.
func (o options) makeRelease(ctx context.Context, out io.Writer) error {
	started := time.Now()
	if err := refusePresent(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(o.out), ".unfinished-"+filepath.Base(o.out)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	made := filepath.Join(work, "made")
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	programs, err := o.buildParts(ctx, filepath.Join(work, "build"), made, out)
	if err != nil {
		return err
	}
	if err := o.assembleRelease(programs, made); err != nil {
		return err
	}
	// Unlike os.Rename, it takes the place of an empty directory, and of nothing else.
	if err := syscall.Rename(made, o.out); err != nil {
		return fmt.Errorf("giving the release its name %s: %w", o.out, err)
	}
	if err := printFiles(out, o.out); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s of commit %s is in %s, made in %s\n", o.version, o.source.commit, o.out, time.Since(started).Round(time.Second))
	return nil
}

// refusePresent returns an error if a directory has files, also those of an earlier release, which may have been published since.
func refusePresent(directory string) error {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	} else if err != nil {
		return fmt.Errorf("RELEASE_DIR: %w", err)
	}
	return fmt.Errorf("%s has files, and a release replaces none: name another directory with RELEASE_DIR=, or remove this one yourself", directory)
}
