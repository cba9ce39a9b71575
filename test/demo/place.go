package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// errForeign says that a directory is not one that a demo made.
var errForeign = errors.New("it was not made by a demo, or holds other files: see what is in it, and move it away")

// errTaken says that another program starts or ends a fleet in a directory.
var errTaken = errors.New("another demo is at work there")

// place is the directory of a fleet. It is locked from its first moment on, for as long as a demo starts, shows or ends
// the fleet there, and free again when that program is gone, however it ended.
type place struct {
	path string
	lock *os.File
}

// keptDir is where a fleet that stays is found again by demo down. Each user has one.
func keptDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("hollowfleet-demo-%d", os.Getuid()))
}

// take locks a directory. The error is errTaken also if the directory went away meanwhile.
func take(path string) (*place, error) {
	// In a directory for temporary files another user may have put a link there.
	lock, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errTaken
	}
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s: %w", path, errForeign)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the directory of a fleet: %w", err)
	}
	taken := &place{path: path, lock: lock}
	if err := taken.hold(); err != nil {
		taken.release()
		return nil, err
	}
	return taken, nil
}

// hold locks a directory that has been opened, if it is still there: the demo that held it may have removed it meanwhile.
func (p *place) hold() error {
	if err := syscall.Flock(int(p.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return errTaken
	} else if err != nil {
		return fmt.Errorf("locking %s: %w", p.path, err)
	}
	locked, lockedErr := p.lock.Stat()
	there, thereErr := os.Lstat(p.path)
	if lockedErr != nil || thereErr != nil || !os.SameFile(locked, there) {
		return errTaken
	}
	if status, ok := locked.Sys().(*syscall.Stat_t); !ok || int(status.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: %w", p.path, errForeign)
	}
	return nil
}

func (p *place) release() { _ = p.lock.Close() } // The lock is gone in any case.

// claim returns the directory for a new fleet, locked. One that is to stay has a fixed place; any other gets a directory
// of its own, so that demos can run side by side.
func (o options) claim(ctx context.Context) (*place, error) {
	if o.keep {
		return o.claimKept(ctx)
	}
	for {
		path, err := os.MkdirTemp("", filepath.Base(keptDir())+"-")
		if err != nil {
			return nil, fmt.Errorf("making a directory for the fleet: %w", err)
		}
		dir, err := open(path)
		if !errors.Is(err, errTaken) {
			return dir, err
		}
		// A demo down took it for a directory that was left behind, and removes it.
	}
}

// claimKept refuses to touch a fleet that was kept: its user may work with it.
func (o options) claimKept(ctx context.Context) (*place, error) {
	if err := os.Mkdir(keptDir(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making a directory for the fleet: %w", err)
	}
	dir, err := open(keptDir())
	if err != nil {
		return nil, fmt.Errorf("keeping a fleet in %s: %w", keptDir(), err)
	}
	state, err := localfleet.ReadState(dir.path)
	if err == nil && state.Keeper != nil && state.Keeper.Alive() {
		dir.release()
		return nil, fmt.Errorf("an earlier demo keeps a fleet in %s: end it first, with make demo-down", keptDir())
	}
	if entries, err := os.ReadDir(dir.path); err == nil && len(entries) == 0 {
		return dir, nil
	}
	defer dir.release()
	fmt.Fprintln(o.out, "Removing what is left of a fleet in", dir.path)
	if err := o.end(ctx, dir.path); err != nil {
		return nil, err
	}
	return o.claimKept(ctx)
}

// open takes a directory that the processes of any user can reach.
func open(path string) (*place, error) {
	dir, err := take(path)
	if err != nil {
		return nil, err
	}
	if err := dir.lock.Chmod(0o755); err != nil {
		dir.release()
		return nil, fmt.Errorf("opening the directory of the fleet: %w", err)
	}
	return dir, nil
}

// runDown ends the kept fleet and every fleet whose demo is gone.
func runDown(ctx context.Context, opts options) error {
	paths, err := filepath.Glob(keptDir() + "-*")
	if err != nil {
		return fmt.Errorf("looking for fleets: %w", err)
	}
	if _, err := os.Lstat(keptDir()); err == nil {
		paths = append(paths, keptDir())
	}
	ended := 0
	for _, path := range paths {
		dir, err := take(path)
		if err == nil {
			err = opts.end(ctx, path)
			dir.release()
		}
		switch {
		case errors.Is(err, errTaken):
			fmt.Fprintln(opts.out, "Left alone, because another demo is at work there:", path)
			continue
		case errors.Is(err, errForeign):
			fmt.Fprintln(opts.out, "Left alone:", err)
			continue
		case err != nil:
			return err
		}
		ended++
		fmt.Fprintln(opts.out, "Ended the fleet in", path)
	}
	if ended == 0 {
		fmt.Fprintln(opts.out, "No fleet to end")
	}
	return nil
}

// end ends the fleet in a directory of the demo's own, and removes the directory if nothing is left in it. One without a
// fleet was left by a demo that had not started.
func (o options) end(ctx context.Context, path string) error {
	err := localfleet.Check(path)
	if err == nil {
		err = o.plugin(func(format string, args ...any) { fmt.Fprintf(o.out, format+"\n", args...) }).down(ctx, path)
	}
	if err != nil && !errors.Is(err, localfleet.ErrNoFleet) {
		return err
	}
	err = syscall.Rmdir(path)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("%s: %w", path, errForeign)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the directory of a fleet: %w", err)
	}
	return nil
}
