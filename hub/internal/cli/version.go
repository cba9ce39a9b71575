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
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
)

// NewVersion returns "version".
func NewVersion(hub *cmdutil.Hub) *cobra.Command {
	var clientOnly bool
	var output documentOutput
	command := &cobra.Command{
		Use: "version", Short: "Show the versions of this program, of the hub and of its API server",
		Long: `Show the version of this program, that of the hub that works, and that of its API server. The versions of agents are in
kubectl hollow cluster list.`,
		Example: `  kubectl hollow version

  # Without asking the hub
  kubectl hollow version --client`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			versions := newVersionDocument()
			if !clientOnly {
				if err := versions.ask(command.Context(), hub); err != nil {
					return err
				}
			}
			if output.format != "" {
				return output.print(hub.Out, versions)
			}
			fmt.Fprint(hub.Out, versions.text())
			return nil
		},
	}
	command.Flags().BoolVar(&clientOnly, "client", false, "only the version of this program")
	output.addFlag(command)
	return command
}

// ask adds the versions of the hub that works, and of its API server. A user who may not read the Lease of the hub is told so in
// place of its version.
func (d *versionDocument) ask(ctx context.Context, hub *cmdutil.Hub) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	if d.APIServer, err = serverVersion(hub); err != nil {
		return err
	}
	state, err := hubOf(ctx, c, time.Now())
	switch {
	case apierrors.IsForbidden(err):
		d.Hub = new(documentOfHub(hubState{version: unknown}, cause(err)))
	case err != nil:
		return err
	default:
		d.Hub = new(documentOfHub(state, ""))
	}
	return nil
}

func (d *versionDocument) text() string {
	text := "Client: " + d.Client + "\n"
	if d.Hub == nil {
		return text
	}
	working := d.Hub.Version
	if d.Hub.Problem != "" {
		working += " (" + d.Hub.Problem + ")"
	}
	return text + fmt.Sprintf("Hub: %s\nAPI server: %s\n", working, d.APIServer)
}

func serverVersion(hub *cmdutil.Hub) (string, error) {
	config, err := hub.Config()
	if err != nil {
		return "", err
	}
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making a client of the hub: %w", err)
	}
	info, err := asking.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return info.GitVersion, nil
}

const unknown = "unknown"

// hubState is what the Lease of the hub says of it.
type hubState struct {
	version, holder string
	// renewed is how long ago the Lease was renewed.
	renewed time.Duration
	// problem says why the hub does not work; empty if it does.
	problem string
}

// hubOf reads the Lease that the working hub renews.
func hubOf(ctx context.Context, c client.Client, now time.Time) (hubState, error) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.HubNamespace, Name: v1alpha1.HubLeaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return hubState{}, fmt.Errorf("reading the Lease of the hub: %w", err)
	}
	if apierrors.IsNotFound(err) {
		return hubState{version: unknown, problem: "no hub has ever held a Lease here: start one"}, nil
	}
	return stateOf(lease, now), nil
}

// stateOf allows for twice the duration of the Lease: the clocks of hub and user may differ.
func stateOf(lease *coordinationv1.Lease, now time.Time) hubState {
	state := hubState{holder: ptr.Deref(lease.Spec.HolderIdentity, ""), version: unknown}
	if version := lease.Labels[v1alpha1.VersionLabel]; version != "" {
		state.version = strings.ReplaceAll(version, "_", "+")
	}
	if state.holder == "" || lease.Spec.RenewTime == nil {
		state.problem = "no hub holds the Lease: the last one has stopped"
		return state
	}
	state.renewed = max(now.Sub(lease.Spec.RenewTime.Time), 0)
	if grace := 2 * time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second; state.renewed > grace {
		state.problem = fmt.Sprintf("the hub %s has not renewed its Lease for %s", state.holder, state.renewed.Round(time.Second))
	}
	return state
}

// NewSupportBundle returns "support-bundle".
func NewSupportBundle(hub *cmdutil.Hub) *cobra.Command {
	var path string
	command := &cobra.Command{
		Use: "support-bundle", Short: "Write all objects and events of the fleet into one archive, for a bug report",
		Long: `Write an archive with what a bug report needs: versions, the objects of all of Hollowfleet's kinds, the events about them, and
the Leases of hub and agents. There is no Secret in it. The configuration of MachineClasses and Machines is in it as it is: read it before you
pass the archive on. What you may not read is left out and listed in problems.txt.`,
		Example: `  kubectl hollow support-bundle
  kubectl hollow support-bundle --output-file /tmp/bundle.tar.gz`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if path == "" {
				path = "hollowfleet-support-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			return write(command.Context(), hub, path)
		},
	}
	command.Flags().StringVar(&path, "output-file", "", "the archive to write (default: hollowfleet-support-TIME.tar.gz); it must not exist yet")
	return command
}

func write(ctx context.Context, hub *cmdutil.Hub, path string) (err error) {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	versions := newVersionDocument()
	unasked := versions.ask(ctx, hub)
	if unasked != nil && !apierrors.IsForbidden(unasked) {
		return unasked
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cmdutil.Refusal("--output-file: %s exists already: name another file", path)
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
	if err := archive.collect(ctx, c, versions.text()); err != nil {
		return err
	}
	if err := archive.close(); err != nil {
		return err
	}
	hub.Say("Wrote %s", path)
	for _, problem := range archive.problems {
		hub.Note("Left out: %s", problem)
	}
	return nil
}
