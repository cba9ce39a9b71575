package localfleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrKept is wrapped when the keeper of a fleet that is to be resumed runs.
var ErrKept = errors.New("its keeper runs")

// Resumable returns the arguments that keep the fleet in dir again, with all of its data: its keeper has ended without ending it. They are
// empty if that cannot be done, or need not: also when the process that the fleet was for has ended.
func (s State) Resumable() []string {
	if !s.CameUp || s.Keeper == nil || s.Keeper.Alive() || s.Owner.PID != s.Keeper.PID && !s.Owner.Alive() {
		return nil
	}
	return s.KeeperArgs
}

// takeOver makes this process the keeper of the fleet, and ends what its keeper has left. Of several that try, one succeeds.
func (f *Fleet) takeOver(ctx context.Context) error {
	owned, err := f.openDirectory()
	if err != nil {
		return err
	}
	defer owned.Close()
	before, err := ReadState(f.options.Dir)
	if err != nil {
		return err
	}
	switch {
	case before.Keeper != nil && before.Keeper.Alive():
		return fmt.Errorf("resuming the fleet in %s: %w, as process %d", f.options.Dir, ErrKept, before.Keeper.PID)
	case !before.CameUp || before.Host != f.state.Host || before.Isolation != f.state.Isolation || !slices.Equal(before.Clusters, f.state.Clusters):
		return fmt.Errorf("resuming the fleet in %s: it is not the one that is to be kept: end it with kubectl hollow local down", f.options.Dir)
	case f.options.Owner != nil && *f.options.Owner != before.Owner:
		return fmt.Errorf("resuming the fleet in %s: the process %d that it was for has ended: end it with kubectl hollow local down", f.options.Dir, before.Owner.PID)
	}
	slices.Reverse(before.Processes)
	for _, identity := range before.Processes {
		if err := identity.End(ctx, endGrace); err != nil {
			return err
		}
	}
	if err := os.Remove(f.socketPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the socket of the keeper that has ended: %w", err)
	}
	f.state.CameUp, f.state.Hosted, f.state.Endpoints = true, before.Hosted, before.Endpoints
	return f.writeState()
}

// joinOnce lets a member join, unless it has: what a user has decided about its Cluster since then stays.
func (f *Fleet) joinOnce(ctx context.Context, member *Member) error {
	if f.options.Resume {
		for _, file := range []string{"tls.crt", "token"} {
			if _, err := os.Stat(filepath.Join(f.CredentialDir(member), file)); err == nil {
				return nil
			}
		}
	}
	return f.Join(ctx, member)
}
