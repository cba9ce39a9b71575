// Package kube is what the commands share: the hub's client as kubectl's flags describe it, streams, output
// formats, completion, and waiting.
package kube

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/exit"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// Hub is how a command reaches the hub and its user.
type Hub struct {
	genericiooptions.IOStreams
	// Flags are kubectl's own: --kubeconfig, --context, --namespace and so on.
	Flags *genericclioptions.ConfigFlags
}

// NewHub returns a Hub with kubectl's flags, which are not parsed yet.
func NewHub(streams genericiooptions.IOStreams) *Hub {
	return &Hub{IOStreams: streams, Flags: genericclioptions.NewConfigFlags(true)}
}

// Config is the client configuration that the flags describe.
func (h *Hub) Config() (*rest.Config, error) {
	config, err := h.Flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the hub: %w", err)
	}
	return config, nil
}

// Client returns a client for the hub.
func (h *Hub) Client() (client.WithWatch, error) {
	config, err := h.Config()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("making a client of the hub: %w", err)
	}
	return c, nil
}

// Namespace is that of --namespace, else that of the kubeconfig's context.
func (h *Hub) Namespace() (string, error) {
	namespace, _, err := h.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig of the hub: %w", err)
	}
	return namespace, nil
}

// User is who the user is, as the hub's API server knows them.
func (h *Hub) User(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the hub who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// Say writes a line to standard output.
func (h *Hub) Say(format string, args ...any) { fmt.Fprintf(h.Out, format+"\n", args...) }

// Note writes a line to standard error: something to know that is no result.
func (h *Hub) Note(format string, args ...any) { fmt.Fprintf(h.ErrOut, format+"\n", args...) }

// Explain makes an error of the hub's API server something that a user can act on.
func Explain(err error) error {
	if discovery := (*meta.NoKindMatchError)(nil); errors.As(err, &discovery) {
		return fmt.Errorf("this API server does not know Hollowfleet's kinds: is it the hub, and has \"hub install\" been run there? (%w)", err)
	}
	return err
}

// Group is a command that only has subcommands; anything else is bad usage.
func Group(command *cobra.Command, children ...*cobra.Command) *cobra.Command {
	command.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.Usage("unknown command %q for %q", args[0], command.CommandPath())
		}
		return nil
	}
	command.RunE = func(*cobra.Command, []string) error {
		return exit.Usage("%q needs a subcommand", command.CommandPath())
	}
	command.AddCommand(children...)
	return command
}

// Args turns a violation of check into bad usage.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error { return exit.AsUsage(check(command, args)) }
}

// OneName wants exactly one argument, a name.
func OneName(command *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return exit.Usage("want exactly one name, got %d: %s", len(args), command.UseLine())
	}
	return nil
}

// Quick is a context for completion, which must not keep a shell waiting for a hub that is away.
func Quick(command *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(command.Context(), completionTimeout)
}
