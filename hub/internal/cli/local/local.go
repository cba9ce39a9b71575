// Package local has the commands of "kubectl hollow local": a whole fleet on this machine.
package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/exit"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/kube"
	"github.com/hollowfleet/hollowfleet/internal/localfleet"
)

const localLong = `Run a whole fleet on this machine: a hub, workload clusters with their agents, and machines, all of them local
processes on loopback. It needs no container runtime and no root.

The fleet stays until "kubectl hollow local down" ends it. A process of it that ends is started again.`

// NewCommand returns "local".
func NewCommand(hub *kube.Hub) *cobra.Command {
	dir := defaultDir()
	command := kube.Group(&cobra.Command{Use: "local", Short: "Run a whole fleet on this machine", Long: localLong},
		newUp(hub, &dir), newStatus(hub, &dir), newDown(hub, &dir), newKeep(hub, &dir))
	command.PersistentFlags().StringVar(&dir, "dir", dir, "directory of the fleet")
	return command
}

// defaultDir is where a user's fleet is. Paths below it are those of sockets too, and must be short.
func defaultDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("hollowfleet-local-%d", os.Getuid()))
}

// look reports on the fleet in dir.
func look(dir string) (localfleet.Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return localfleet.Report{}, fmt.Errorf("finding --dir: %w", err)
	}
	report, err := localfleet.Look(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return report, exit.NotFound("there is no fleet in %s: start one with kubectl hollow local up", dir)
	}
	return report, err
}

// written is how the user writes a command for the fleet in dir.
func written(words, dir string) string {
	if dir != defaultDir() {
		words += " --dir " + dir
	}
	return "kubectl hollow local " + words
}
