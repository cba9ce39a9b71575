// Package local has the commands of "kubectl hollow local": a whole fleet on this machine.
package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

const localLong = `Run a whole fleet on this machine: a hub, workload clusters with their agents, and machines, all of them local
processes on loopback. It needs no container runtime and no root.

The fleet stays until "kubectl hollow local down" ends it. A process of it that ends is started again.`

// NewCommand returns "local".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	dir := defaultDir()
	commands := []*cobra.Command{newUp(hub, &dir), newStatus(hub, &dir), newDown(hub, &dir), newKeep(hub, &dir)}
	for _, command := range commands {
		// A flag of each: the help of a command leaves out those of its parents.
		command.Flags().StringVar(&dir, "dir", dir, "directory of the fleet; for \"up\" one that is empty or does not exist yet")
	}
	return cmdutil.Group(&cobra.Command{Use: "local", Short: "Run a whole fleet on this machine", Long: localLong}, commands...)
}

// defaultDir is where a user's fleet is. Paths below it are those of sockets too, and must be short.
func defaultDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("hollowfleet-local-%d", os.Getuid()))
}

// readReport reports on the fleet in dir.
func readReport(dir string) (localfleet.Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return localfleet.Report{}, fmt.Errorf("finding --dir: %w", err)
	}
	report, err := localfleet.ReadReport(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return report, cmdutil.NotFound("there is no fleet in %s: start one with kubectl hollow local up", dir)
	}
	return report, err
}

// written is how the user writes a command for the fleet in dir.
func written(words, dir string) string {
	if dir != defaultDir() {
		words += " --dir " + joining.ShellQuote(dir)
	}
	return "kubectl hollow local " + words
}
