package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// NewSupportBundle returns "support-bundle".
func NewSupportBundle(hub *cmdutil.Hub) *cobra.Command {
	var path string
	command := &cobra.Command{
		Use: "support-bundle", Short: "Write objects, events, logs and metrics of the fleet to an archive for a bug report",
		Long: `Write an archive for a bug report: versions, the objects of all of Hollowfleet's kinds, their events, and the Leases of hub and
agents; the end of the hub's log, and its metrics; and, with ClusterRole hollowfleet-log-reader, the end of the logs of up to five
unhealthy Machines, which their agents hand on. Of a fleet on this machine it also has the logs and metrics of all agents; elsewhere
they are in their own clusters.

It has no Secrets, and what looks like a token, a password or a private key is replaced by [redacted]. It has the configuration of
MachineClasses and Machines otherwise unchanged: review it before you share the archive. What you may not read, or what does not answer
within ten seconds, is left out and listed in problems.txt.`,
		Example: `  kubectl hollow support-bundle
  kubectl hollow support-bundle --output-file /tmp/bundle.tar.gz`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if path == "" {
				path = "hollowfleet-support-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			return writeBundle(command.Context(), hub, path)
		},
	}
	command.Flags().StringVar(&path, "output-file", "", "archive to write; it must not exist yet (default: hollowfleet-support-TIME.tar.gz)")
	return command
}

// writeBundle writes the archive to path, which must not exist.
func writeBundle(ctx context.Context, hub *cmdutil.Hub, path string) (err error) {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	versions := newVersionDocument()
	unasked := versions.addHubVersions(ctx, hub)
	if unasked != nil && !apierrors.IsForbidden(unasked) {
		return unasked
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cmdutil.Refusal("--output-file: %s already exists: name another file", path)
	}
	if err != nil {
		return fmt.Errorf("creating --output-file: %w", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(path)) // It is not whole.
		}
	}()
	archive := newBundle(file, time.Now())
	switch {
	case unasked != nil:
		archive.problems = append(archive.problems, "versions.txt: "+unasked.Error())
	case versions.Hub != nil && strings.HasPrefix(versions.Hub.Problem, notLooked):
		archive.problems = append(archive.problems, "versions.txt: the hub: "+versions.Hub.Problem)
	}
	collected := make(chan []evidence, 1)
	go func() { collected <- collectEvidence(ctx, hub, c) }()
	err = errors.Join(archive.collectFiles(ctx, c, versions.formatText()), archive.addEvidence(<-collected))
	if err = errors.Join(err, archive.addProblems()); err != nil {
		return err
	}
	if err := archive.closeArchive(); err != nil {
		return err
	}
	hub.Say("Wrote %s", path)
	for _, problem := range archive.problems {
		hub.Note("Left out: %s", problem)
	}
	return nil
}
