package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// NewVersion returns "version".
func NewVersion(hub *cmdutil.Hub) *cobra.Command {
	var clientOnly bool
	command := &cobra.Command{
		Use: "version", Short: "Show the versions of this program, of the hub and of its API server",
		Long: `Show the version of this program, that of the hub that works, and that of its API server. The versions of agents are in
kubectl hollow cluster list.`,
		Example: `  kubectl hollow version

  # Without asking the hub
  kubectl hollow version --client`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if clientOnly {
				hub.Say("Client: %s", version.Here())
				return nil
			}
			versions, err := Versions(command.Context(), hub)
			if err != nil {
				return err
			}
			fmt.Fprint(hub.Out, versions)
			return nil
		},
	}
	command.Flags().BoolVar(&clientOnly, "client", false, "only the version of this program")
	return command
}

// Versions are those of this program, of the hub that works, and of its API server.
func Versions(ctx context.Context, hub *cmdutil.Hub) (string, error) {
	c, err := hub.Client()
	if err != nil {
		return "", err
	}
	server, err := serverVersion(hub)
	if err != nil {
		return "", err
	}
	state, err := hubOf(ctx, c, time.Now())
	if err != nil {
		return "", err
	}
	working := state.version
	if state.problem != "" {
		working += " (" + state.problem + ")"
	}
	return fmt.Sprintf("Client: %s\nHub: %s\nAPI server: %s\n", version.Here(), working, server), nil
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
