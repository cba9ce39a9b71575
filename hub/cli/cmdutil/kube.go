// Package cmdutil is what the commands share: the hub's client as kubectl's flags describe it, streams, output
// formats, completion, waiting, and the exit codes of errors, which scripts rely on.
package cmdutil

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// Hub is how a command reaches the hub and its user.
type Hub struct {
	genericiooptions.IOStreams
	// Flags are kubectl's own: --kubeconfig, --context, --namespace and so on.
	Flags *genericclioptions.ConfigFlags
	// DescribeKeeper, if not nil, says what is wrong with the keeper of a fleet on this machine whose hub is at server; empty if nothing is,
	// or if the hub is elsewhere. kubeconfigs are the files by which the hub was found.
	DescribeKeeper func(server string, kubeconfigs []string) string
	// FindFleet, if not nil, is what is known of the fleet on this machine whose hub is at server; nil if the hub is elsewhere.
	FindFleet func(server string, kubeconfigs []string) *LocalFleet
	// mark is added to each result: that of a dry run is none.
	mark string
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
	// The API server bounds its clients itself. A client's own limit of 5 requests a second makes commands slow, and turns a --timeout into
	// an error of the limiter.
	config.QPS = -1
	return config, h.checkNamed(config)
}

// checkNamed finds that no API server is named at all: the client would try one on this machine, which is not a hub.
func (h *Hub) checkNamed(config *rest.Config) error {
	loader := h.Flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the hub: %w", err)
	}
	if config.Host != clientcmd.ClusterDefaults.Server || *h.Flags.APIServer != "" || os.Getenv("KUBERNETES_MASTER") != "" {
		return nil
	}
	for _, cluster := range raw.Clusters {
		if cluster.Server == config.Host {
			return nil
		}
	}
	return fmt.Errorf("no kubeconfig names the hub: set KUBECONFIG or --kubeconfig to the hub's, and its current context (looked for %s)",
		strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "))
}

// DescribeLocalHub says why the hub of a fleet on this machine does not work; empty if it does, or is elsewhere.
func (h *Hub) DescribeLocalHub() string {
	if h.DescribeKeeper == nil {
		return ""
	}
	config, err := h.Flags.ToRESTConfig()
	if err != nil {
		return ""
	}
	return h.DescribeKeeper(config.Host, h.Flags.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence())
}

// Client returns a client for the hub.
func (h *Hub) Client() (client.WithWatch, error) {
	config, err := h.Config()
	if err != nil {
		return nil, err
	}
	known := scheme.New()
	if err := placement.AddToScheme(known); err != nil {
		return nil, fmt.Errorf("registering Placements: %w", err)
	}
	mapper, err := newMapper(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the hub: %w", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: known, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client of the hub: %w", err)
	}
	return undecodable.WithWatch(c), nil
}

// longestDiscovery bounds each question for the kinds of the hub's API server, which no context ends.
const longestDiscovery = 30 * time.Second

// newMapper returns what finds the kinds of the hub's API server, and gives up on one that hangs.
func newMapper(config *rest.Config) (meta.RESTMapper, error) {
	bounded := rest.CopyConfig(config)
	if bounded.Timeout == 0 {
		bounded.Timeout = longestDiscovery
	}
	asking, err := rest.HTTPClientFor(bounded)
	if err != nil {
		return nil, err
	}
	return apiutil.NewDynamicRESTMapper(bounded, asking)
}

// Namespace is that of --namespace, else that of the kubeconfig's context.
func (h *Hub) Namespace() (string, error) {
	namespace, _, err := h.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig of the hub: %w", err)
	}
	return namespace, nil
}

// ChosenNamespace is that of --namespace; empty without the flag.
func (h *Hub) ChosenNamespace() string {
	if h.Flags.Namespace == nil {
		return ""
	}
	return *h.Flags.Namespace
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
func (h *Hub) Say(format string, args ...any) {
	fmt.Fprintln(h.Out, fmt.Sprintf(format, args...)+h.mark)
}

// Note writes a line to standard error: something to know that is no result.
func (h *Hub) Note(format string, args ...any) { fmt.Fprintf(h.ErrOut, format+"\n", args...) }

// Terminal returns standard output as it is, without its control characters replaced, if that is a terminal. What comes
// from objects may not be written to it.
func (h *Hub) Terminal() (io.Writer, bool) {
	escaped, ok := h.Out.(*Escaped)
	if !ok || !printers.IsTerminal(escaped.out) {
		return nil, false
	}
	return escaped.out, true
}

// Confirm asks the user at the terminal, and returns the error of a refusal unless they agree. doing is what needs --yes
// where no user can be asked.
func (h *Hub) Confirm(question, doing, refused string) error {
	if !printers.IsTerminal(h.In) {
		return Usage("%s needs --yes, because standard input is not a terminal", doing)
	}
	fmt.Fprintf(h.ErrOut, "%s [y/N] ", question)
	answer, err := bufio.NewReader(h.In).ReadString('\n')
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return Refusal("%s", refused)
	}
	return nil
}

// Group is a command that only has subcommands; anything else is bad usage.
func Group(command *cobra.Command, children ...*cobra.Command) *cobra.Command {
	command.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usage("unknown command %q for %q%s", args[0], command.CommandPath(), DidYouMean(args[0], subcommandNames(command)))
		}
		return nil
	}
	command.RunE = func(*cobra.Command, []string) error {
		return Usage("%q needs a subcommand", command.CommandPath())
	}
	command.AddCommand(children...)
	return command
}

// subcommandNames are those of the commands below command, and their other names.
func subcommandNames(command *cobra.Command) []string {
	var names []string
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() {
			names = append(append(names, child.Name()), child.Aliases...)
		}
	}
	return names
}

// Args turns a violation of check into bad usage.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error { return AsUsage(check(command, args)) }
}

// OneName wants exactly one argument, a name.
func OneName(command *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return Usage("want exactly one name, got %d: %s", len(args), command.UseLine())
	}
	return nil
}

// Quick is a context for completion, which must not keep a shell waiting for a hub that is away.
func Quick(command *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(command.Context(), completionTimeout)
}
