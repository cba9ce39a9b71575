package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

// delivery hands out what an agent starts with.
type delivery struct {
	hub     *cmdutil.Hub
	server  joining.Server
	options *joinOptions
	// kubeconfig is written once everything else is done.
	kubeconfig []byte
}

// kubeconfigPath is that of the kubeconfig as the instructions name it.
func (d *delivery) kubeconfigPath() string {
	return filepath.Join(d.options.outputDir, d.options.request.Cluster+".bootstrap.kubeconfig")
}

// checkWritable finds out early whether the file can be written.
func (d *delivery) checkWritable() error {
	if d.options.outputDir == "" {
		return nil
	}
	if err := os.MkdirAll(d.options.outputDir, 0o700); err != nil {
		return fmt.Errorf("making --output-dir: %w", err)
	}
	file, err := os.CreateTemp(d.options.outputDir, "."+d.options.request.Cluster+"-*")
	if err != nil {
		return fmt.Errorf("writing to --output-dir: %w", err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// writeKubeconfig writes the kubeconfig; it is the last step of a join that can fail.
func (d *delivery) writeKubeconfig(result *joining.Result) error {
	var err error
	if d.kubeconfig, err = d.server.Kubeconfig(d.options.request.Cluster, result.Token); err != nil || d.options.outputDir == "" {
		return err
	}
	// No other user may read it: it holds a token.
	if err := atomicfile.Write(d.kubeconfigPath(), d.kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// dryRun prints what would be made, and makes nothing but the file.
func (d *delivery) dryRun(ctx context.Context, now time.Time) error {
	token := joining.NewToken(now.Add(d.options.request.TokenTTL))
	cluster, secret := d.options.request.Objects(token)
	if d.options.DryRun.Server() {
		if err := d.checkObjects(ctx, cluster.DeepCopy(), secret.DeepCopy()); err != nil {
			return err
		}
	}
	if cluster.Spec.Credential == v1alpha1.CredentialServiceAccountToken {
		if d.options.outputDir != "" {
			return cmdutil.Usage("--output-dir: with --dry-run there is no ServiceAccount yet whose token could be written")
		}
		return d.options.Output.Print(d.hub.Out, cluster)
	}
	if err := d.checkWritable(); err != nil {
		return err
	}
	if err := d.writeKubeconfig(&joining.Result{Token: token.String()}); err != nil {
		return err
	}
	return d.options.Output.Print(d.hub.Out, cluster, secret)
}

// checkObjects has the hub's API server say whether it would take the objects. A Cluster that exists already is no matter with
// --again.
func (d *delivery) checkObjects(ctx context.Context, cluster, secret client.Object) error {
	c, err := d.options.DryRun.Client(d.hub)
	if err != nil {
		return err
	}
	err = c.Create(ctx, cluster)
	if err != nil && !(d.options.request.Again && apierrors.IsAlreadyExists(err)) {
		return fmt.Errorf("creating Cluster %s: %w", cluster.GetName(), err)
	}
	if err := c.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating Secret %s: %w", secret.GetName(), err)
	}
	return nil
}

// printResult tells what has been made and what to do now.
func (d *delivery) printResult(result *joining.Result) error {
	format, own := d.options.Output.Own()
	if !own {
		return d.options.Output.Print(d.hub.Out, result.Cluster)
	}
	say := d.hub.Say
	if format == formatKubeconfig {
		fmt.Fprintf(d.hub.Out, "%s", d.kubeconfig)
		say = d.hub.Note
	}
	d.printInstructions(say, result, format != formatKubeconfig && d.options.outputDir == "")
	return nil
}

func (d *delivery) printInstructions(say func(string, ...any), result *joining.Result, inline bool) {
	name := result.Cluster.Name
	done := "already there"
	if result.Created {
		done = "created"
	}
	say("cluster.hollowfleet.io/%s %s", name, done)
	file := d.kubeconfigPath()
	if d.options.outputDir != "" {
		say("Kubeconfig for its agent: %s", file)
	}
	say("Its token is for cluster %s only and valid for %s, until %s.", name,
		duration.HumanDuration(d.options.request.TokenTTL), result.Expires.Format(time.RFC3339))
	d.options.Output.PrintFacts(d.hub, joinFacts(result, d.server)...)
	if d.server.Loopback() {
		say("The hub at %s is reachable from this machine only: for an agent elsewhere, give another address with --agent-server.", d.server.URL)
	}
	say("\nWhat is left to do:\n")
	say("1. In the workload cluster, as its administrator, give the agent its namespace and roles:\n")
	say("     kubectl --kubeconfig WORKLOAD-KUBECONFIG apply -f config/rbac/agent-workload\n")
	if inline {
		say("2. Save this as %s:\n\n%s", file, d.kubeconfig)
		say("   and start the agent where it reaches both API servers:\n")
	} else {
		say("2. Start the agent with that kubeconfig where it reaches both API servers:\n")
	}
	say("     agent --cluster-name %s --bootstrap-kubeconfig %s \\\n       --credential-dir /var/lib/hollowfleet/%s --target-kubeconfig WORKLOAD-KUBECONFIG", name, joining.ShellQuote(file), name)
	if !d.server.Loopback() {
		d.explainHelm(say, name, file)
	}
	if !result.Cluster.Accepted() {
		say("\n3. Let it join:\n\n     kubectl hollow cluster accept %s", name)
	}
}

// explainHelm tells the other way to start the agent, for a hub that a pod reaches.
func (d *delivery) explainHelm(say func(string, ...any), name, file string) {
	// helm takes a list of files, with commas between them.
	file = strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(file)
	say("\n   Or, instead of 1 and 2, let helm install it in the workload cluster:\n")
	say("     helm --kubeconfig WORKLOAD-KUBECONFIG install agent bin/charts/agent.tgz --namespace hollowfleet --create-namespace \\\n"+
		"       --set clusterName=%s --set-file %s", name, joining.ShellQuote("hub.bootstrapKubeconfig="+file))
}
