package localfleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

// ConfigFile is in a fleet's directory: what it was started with, as "kubectl hollow local up -f" takes it.
const ConfigFile = "local-fleet.yaml"

// startFile is in a fleet's directory until all that the fleet starts with is there.
const startFile = "start.json"

// ErrStarting is wrapped when another process is starting the fleet.
var ErrStarting = errors.New("another command is starting the fleet")

// Start is what a fleet starts with beside its keeper. Who makes that can be killed at any time: another process continues.
type Start struct {
	// Command is the process that makes it.
	Command process.Identity `json:"command"`
	// Clusters is the size of the set, Machines what each of its clusters gets, and KubeletVersions theirs.
	Clusters        int      `json:"clusters"`
	Machines        int      `json:"machines"`
	KubeletVersions []string `json:"kubeletVersions,omitempty"`
	// Heartbeats are those of the Machines.
	Heartbeats Heartbeats `json:"heartbeats,omitempty"`
	// Config is for ConfigFile, and written once.
	Config []byte `json:"-"`

	dir, dirID string
}

// TakeForStart is Take for a fleet that this process starts, which is recorded before others can take the directory.
func TakeForStart(dir string, temporary bool, start Start) (*Start, error) {
	owned, err := takeDirectory(dir, temporary)
	if err != nil {
		return nil, err
	}
	defer owned.Close()
	if err := start.claimDirectory(owned); err != nil || start.Config == nil {
		return &start, err
	}
	if err := atomicfile.Write(filepath.Join(dir, ConfigFile), start.Config, 0o644); err != nil {
		return &start, fmt.Errorf("recording the configuration of the fleet: %w", err)
	}
	return &start, nil
}

// ContinueStart makes this process the one that continues the start of the fleet in dir. It returns nil if no start is unfinished there. The
// error wraps ErrStarting if the process that began it still runs. Of several that try, one succeeds.
func ContinueStart(dir string) (*Start, error) {
	owned, err := openDirectory(dir)
	if errors.Is(err, ErrNoFleet) || errors.Is(err, ErrUnusable) && !errors.Is(err, owneddir.ErrBusy) {
		return nil, nil //nolint:nilnil // Take says what is there instead.
	}
	if err != nil {
		return nil, err
	}
	defer owned.Close()
	start, err := readStart(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // There is none, and that is no error.
	}
	if err != nil {
		return nil, err
	}
	if start.Command.Alive() {
		return nil, fmt.Errorf("%w in %s, as process %d", ErrStarting, dir, start.Command.PID)
	}
	return &start, start.claimDirectory(owned)
}

// claimDirectory records that this process makes it. The directory is open, so that no other process does.
func (s *Start) claimDirectory(owned *owneddir.Directory) error {
	var err error
	if s.Command, err = process.Self(); err != nil {
		return err
	}
	s.dir, s.dirID = owned.Path(), owned.ID()
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("recording the start of the fleet: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(s.dir, startFile), content, 0o644); err != nil {
		return fmt.Errorf("recording the start of the fleet: %w", err)
	}
	return nil
}

// DirID is the ID of the fleet's directory, for Options.DirID.
func (s *Start) DirID() string { return s.dirID }

// Finish records that everything is there.
func (s *Start) Finish() error {
	there, err := readStart(s.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && there.Command != s.Command {
		return nil // The fleet has been ended meanwhile, and its files with it.
	}
	if err == nil {
		err = os.Remove(filepath.Join(s.dir, startFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("recording that the fleet has started: %w", err)
	}
	return nil
}

func readStart(dir string) (Start, error) {
	var start Start
	content, err := os.ReadFile(filepath.Join(dir, startFile))
	if err == nil {
		err = json.Unmarshal(content, &start)
	}
	if err != nil {
		return start, fmt.Errorf("reading how the fleet in %s is started: %w: end it with kubectl hollow local down", dir, err)
	}
	return start, nil
}

// isInterrupted reports whether a start is unfinished and its command has ended.
func isInterrupted(dir string) bool {
	start, err := readStart(dir)
	return !errors.Is(err, fs.ErrNotExist) && !start.Command.Alive()
}
