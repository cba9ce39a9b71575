package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

// NewVersion returns "version".
func NewVersion(hub *cmdutil.Hub) *cobra.Command {
	var clientOnly bool
	var output cmdutil.DocumentOutput
	command := &cobra.Command{
		Use: "version", Short: "Show the versions of this program, of the hub and of its API server",
		Long: `Show the versions of this program, of the running hub and of its API server. For the versions of agents, see
kubectl hollow cluster list. If the hub's API server does not answer, the exit code is 1, and only the version of this program is shown.`,
		Example: `  kubectl hollow version

  # Without asking the hub
  kubectl hollow version --client`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := output.CheckFormat(); err != nil {
				return err
			}
			versions := newVersionDocument()
			var unknown error
			if !clientOnly {
				unknown = versions.addHubVersions(command.Context(), hub)
			}
			if output.Format != "" {
				return errors.Join(output.Print(hub.Out, versions), unknown)
			}
			fmt.Fprint(hub.Out, versions.formatText())
			return unknown
		},
	}
	command.Flags().BoolVar(&clientOnly, "client", false, "show only the version of this program")
	output.AddFlag(command)
	return command
}

// addHubVersions adds the versions of the hub that works, and of its API server. A user who may not read the Lease of the hub is told so in
// place of its version.
func (d *VersionDocument) addHubVersions(ctx context.Context, hub *cmdutil.Hub) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	if d.APIServer, err = serverVersion(hub); err != nil {
		return err
	}
	state, err := cmdutil.ReadHubState(ctx, c, time.Now())
	switch {
	case apierrors.IsForbidden(err):
		d.Hub = new(documentOfHub(cmdutil.HubState{Version: cmdutil.UnknownVersion}, overview.RootCause(err)))
	case err != nil:
		return err
	default:
		d.Hub = new(documentOfHub(state, ""))
	}
	return nil
}

func (d *VersionDocument) formatText() string {
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
