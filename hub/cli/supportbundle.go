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
	"sigs.k8s.io/controller-runtime/pkg/client"

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
within ten seconds, is left out and listed in problems.txt. If the hub's API server does not answer, the exit code is 1; of a fleet on
this machine the archive then has logs and metrics.`,
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
func writeBundle(ctx context.Context, hub *cmdutil.Hub, path string) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	versions := newVersionDocument()
	unasked := versions.addHubVersions(ctx, hub)
	silent := unasked != nil && !apierrors.IsForbidden(unasked)
	if silent && hub.LocalFleet() == nil {
		return unasked
	}
	if err := createBundle(ctx, hub, c, path, versions, unasked, silent); err != nil {
		return err
	}
	if silent { // The archive has what is on this machine.
		return unasked
	}
	return nil
}

// createBundle writes the archive, or removes it. unasked is why the versions are not known. Of a hub that is silent it has what is on this machine.
func createBundle(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, path string, versions VersionDocument, unasked error, silent bool) (err error) {
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
	go func() { collected <- collectEvidence(ctx, hub, c, silent) }()
	err = archive.addFile("versions.txt", []byte(versions.formatText()))
	if silent {
		archive.problems = append(archive.problems, "objects, events, Leases and logs of Machines: the hub's API server does not answer")
	} else {
		err = errors.Join(err, archive.collectFiles(ctx, c))
	}
	if err = errors.Join(err, archive.addEvidence(<-collected), archive.addProblems()); err != nil {
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
