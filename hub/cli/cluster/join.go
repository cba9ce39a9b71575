package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

const (
	joinLong = `Let a workload cluster join the fleet: create its Cluster object on the hub and print the kubeconfig that its agent starts with.

The kubeconfig has a join token. The token is valid for one hour and for this cluster only, and its only use is to request
the agent's own credential, which the hub issues once the cluster is accepted. The name of the cluster is also the name
of its namespace on the hub.

With --credential=serviceaccount, for a hub whose API server signs no client certificates, the kubeconfig has a
token of the ServiceAccount that the hub creates for the cluster instead. The cluster must already be accepted.

Either everything is created or nothing.`

	joinExample = `  # Let a user accept the cluster later; write the kubeconfig for its agent to a file
  kubectl hollow cluster join c1 --output-dir .

  # Accept the cluster now, and wait until its agent works
  kubectl hollow cluster join c1 --accept=now --wait --output-dir .

  # An agent that reaches the hub under another address than this kubeconfig names
  kubectl hollow cluster join c1 --agent-server https://hub.example.com:6443 -o kubeconfig > c1.kubeconfig

  # Print the objects for a repository; nothing is created on the hub
  kubectl hollow cluster join c1 --accept=auto --token-ttl 24h --dry-run -o yaml --output-dir .

  # The agent's certificate has expired: create another token for the same cluster
  kubectl hollow cluster join c1 --again --output-dir .`

	// shortestTTL is that of a ServiceAccount's token.
	shortestTTL = 10 * time.Minute

	formatKubeconfig = "kubeconfig"
)

// credential is a kind of credential as it is written on the command line.
type credential string

const (
	certificate    credential = "certificate"
	serviceAccount credential = "serviceaccount"
)

type joinOptions struct {
	cmdutil.Change
	request    joining.Request
	credential credential
	server     serverFlags
	outputDir  string
}

func newJoin(hub *cmdutil.Hub) *cobra.Command {
	o := &joinOptions{}
	command := &cobra.Command{
		Use: "join NAME", Short: "Let a cluster join: create its Cluster object and a token for its agent",
		Long: joinLong, Example: joinExample, Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error {
			o.request.Cluster = args[0]
			return o.run(command.Context(), hub)
		},
	}
	flags := command.Flags()
	cmdutil.Choice(command, &o.request.Accept, "accept", "who accepts the cluster: a user later (manual, the default), the hub for any agent with the token (auto), or you (now)",
		joining.AcceptManual, joining.AcceptAuto, joining.AcceptNow)
	cmdutil.Choice(command, &o.credential, "credential", "credential of the agent on the hub (default certificate)", certificate, serviceAccount)
	flags.DurationVar(&o.request.TokenTTL, "token-ttl", joining.DefaultTokenTTL, "lifetime of the token, at least 10m")
	flags.StringToStringVarP(&o.request.Labels, "labels", "l", nil, "labels for the Cluster, such as stage=test,region=eu")
	flags.BoolVar(&o.request.Again, "again", false, "create another token for a cluster that has already joined")
	flags.StringVar(&o.server.url, "agent-server", "", "URL of the hub's API server as the agent reaches it (default: that of your kubeconfig)")
	flags.StringVar(&o.server.caFile, "agent-certificate-authority", "", "file with the certificate authority of the hub's API server (default: that of your kubeconfig)")
	flags.StringVar(&o.outputDir, "output-dir", "", "write the kubeconfig to NAME.bootstrap.kubeconfig in this directory")
	o.Change = cmdutil.NewChange(command, formatKubeconfig)
	cmdutil.AddWait(command, &o.Wait, false, "the agent has joined and the cluster is ready", 10*time.Minute, "")
	return command
}

func (o *joinOptions) run(ctx context.Context, hub *cmdutil.Hub) error {
	if err := o.validateFlags(); err != nil {
		return err
	}
	config, err := hub.Config()
	if err != nil {
		return err
	}
	server, err := o.server.serverOf(config)
	if err != nil {
		return err
	}
	delivery := &delivery{hub: hub, server: server, options: o}
	if o.DryRun.Active() {
		return delivery.dryRun(ctx, time.Now())
	}
	if err := delivery.checkWritable(); err != nil {
		return err
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	o.request.Deliver = delivery.writeKubeconfig
	result, err := o.request.Do(ctx, c, time.Now())
	if err != nil {
		return explainRefusal(err)
	}
	if err := delivery.printResult(result); err != nil || !o.Wait.Enabled {
		return err
	}
	if !result.Cluster.Accepted() {
		hub.Note("Waiting for the agent; let it join with: kubectl hollow cluster accept %s", o.request.Cluster)
	}
	return awaitReady(ctx, hub, c, o.request.Cluster, o.Wait.Timeout)
}

func (o *joinOptions) validateFlags() error {
	if err := joining.CheckName(o.request.Cluster); err != nil {
		return cmdutil.AsUsage(err)
	}
	if o.request.TokenTTL < shortestTTL {
		return cmdutil.Usage("--token-ttl: want at least %s, got %s", shortestTTL, o.request.TokenTTL)
	}
	_, own := o.Output.Own()
	switch {
	case o.DryRun.Active() && own:
		return cmdutil.Usage("--dry-run prints the objects: give -o yaml or -o json, too")
	case o.DryRun.Active() && o.Wait.Enabled:
		return cmdutil.Usage("--dry-run and --wait: a dry run creates nothing to wait for")
	case !o.DryRun.Active() && !own && o.outputDir == "":
		return cmdutil.Usage("-o: this format does not show the kubeconfig, which cannot be read again; add --output-dir")
	}
	switch o.credential {
	case certificate:
		o.request.Credential = v1alpha1.CredentialCertificate
	case serviceAccount:
		o.request.Credential = v1alpha1.CredentialServiceAccountToken
	}
	return o.Output.Check()
}

// explainRefusal adds to a refusal what the user can do.
func explainRefusal(err error) error {
	refused := (*joining.RefusedError)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	remedy := map[joining.Refusal]string{
		joining.AlreadyJoined: "there is nothing to do; if its agent has lost its credential, add --again",
		joining.IsDenied:      "kubectl hollow cluster accept " + refused.Cluster + " lets it in again",
		joining.IsDeleting:    "wait until it is gone",
		joining.NotAccepted:   "add --accept=now or --accept=auto, or accept it first",
	}[refused.Reason]
	return cmdutil.Refusal("%w: %s", err, remedy)
}

// serverFlags say how the agent reaches the hub.
type serverFlags struct{ url, caFile string }

// serverOf is the hub of config, where the flags say nothing else.
func (f serverFlags) serverOf(config *rest.Config) (joining.Server, error) {
	if f.caFile != "" {
		ca, err := os.ReadFile(f.caFile)
		if err != nil {
			return joining.Server{}, fmt.Errorf("reading --agent-certificate-authority: %w", err)
		}
		config = rest.CopyConfig(config)
		config.Insecure, config.CAData, config.CAFile = false, ca, ""
	}
	server, err := joining.ServerOf(config)
	if err != nil || f.url == "" {
		return server, err
	}
	server.URL = f.url
	return server, cmdutil.AsUsage(joining.CheckURL(f.url))
}
