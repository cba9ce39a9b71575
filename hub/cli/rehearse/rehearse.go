// Package rehearse has "kubectl hollow rehearse": the upgrade of a real cluster, rehearsed with a simulated one of the same shape.
package rehearse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

const long = `Rehearse the upgrade of a cluster before a maintenance night. The command takes the inventory of a real cluster, which it only
reads, lets a host of the hub make a simulated cluster of the same shape, waits until it has the same pods, upgrades its control plane
by one minor and then its kubelets, one group of equal Nodes after the other, and reports how long each drain took, which
PodDisruptionBudget held it, which pods had no Node, and which steps Kubernetes' version skew policy forbids.

From the real cluster come Nodes, PodDisruptionBudgets, PriorityClasses, and of Deployments, StatefulSets and DaemonSets what pods are
placed and evicted by. Secrets, ConfigMaps, environment variables, commands, images and annotations are not kept. Nothing runs in
the pods of the rehearsal.

The simulated cluster is removed at the end, also when you interrupt the command, unless --keep is given.

The exit code is 0 if the rehearsal passed, 5 if it did not (a drain timed out, pods were not scheduled, the skew policy forbids a step,
or --timeout has passed), and 4 if it was refused before anything was made.`

// command is one "rehearse".
type command struct {
	hub    *cmdutil.Hub
	dryRun *cmdutil.DryRun

	sourceFlags
	targetFlags
	upgradeFlags
	form       format
	outputFile string
	timeout    time.Duration
	keep       bool
}

// sourceFlags say what is rehearsed.
type sourceFlags struct {
	kubeconfig, context string
	inventory, save     string
	hash                bool
}

// targetFlags say where it is rehearsed.
type targetFlags struct {
	name, host          string
	simulatedKubeconfig string
	localDir            string
	ignored             []string
}

// upgradeFlags say how the cluster is upgraded.
type upgradeFlags struct {
	controlPlane, kubelet    string
	strategy                 v1alpha1.MachineDeploymentStrategyType
	maxSurge, maxUnavailable string
	drainTimeout, readyAfter time.Duration
	terminationPercent       int32
	order                    shape.Order
}

// format is what is written to standard output, or to --output-file.
type format string

const (
	asText format = "text"
	asJSON format = "json"
	asYAML format = "yaml"
	asHTML format = "html"
)

const (
	defaultDrainTimeout = 15 * time.Minute
	defaultTermination  = 20
)

// NewCommand returns "rehearse".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	r := &command{hub: hub}
	c := &cobra.Command{
		Use: "rehearse --from-kubeconfig FILE | --from-inventory FILE", Short: "Rehearse the upgrade of a real cluster with a simulated one",
		Long: long, Args: cmdutil.Args(cobra.NoArgs),
		Example: `  # Rehearse the next minor of a cluster, with the bounds of its node pools
  kubectl hollow rehearse --from-kubeconfig prod.kubeconfig --max-surge 1 --max-unavailable 0 --node-drain-timeout 30m

  # Only take the inventory, with names replaced by hashes; rehearse it elsewhere, and keep a page
  kubectl hollow rehearse --from-kubeconfig prod.kubeconfig --save-inventory prod.yaml --hash-names --dry-run
  kubectl hollow rehearse --from-inventory prod.yaml -o html --output-file rehearsal.html`,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	r.addSourceFlags(c)
	r.addTargetFlags(c)
	r.addUpgradeFlags(c)
	r.form = asText
	cmdutil.ChoiceP(c, &r.form, "output", "o", "format of the report, or of the objects with --dry-run", asText, asJSON, asYAML, asHTML)
	c.Flags().StringVar(&r.outputFile, "output-file", "", "file for the report, replaced if it exists; the text goes to standard output then")
	c.Flags().DurationVar(&r.timeout, "timeout", 0, "longest time for the rehearsal (default: no limit)")
	c.Flags().BoolVar(&r.keep, "keep", false, "keep the simulated cluster when the rehearsal is over")
	r.dryRun = cmdutil.NewDryRun(c)
	return c
}

func (r *command) addSourceFlags(c *cobra.Command) {
	c.Flags().StringVar(&r.sourceFlags.kubeconfig, "from-kubeconfig", "", "kubeconfig of the real cluster, which is only read")
	c.Flags().StringVar(&r.sourceFlags.context, "from-context", "", "context in that kubeconfig (default: its current one)")
	c.Flags().StringVar(&r.inventory, "from-inventory", "", "inventory that --save-inventory wrote, instead of a cluster; - is standard input")
	c.Flags().StringVar(&r.save, "save-inventory", "", "write the inventory here, replaced if it exists")
	c.Flags().BoolVar(&r.hash, "hash-names", false, "replace names, and values of pod labels, by hashes with a key that is thrown away")
}

func (r *command) addTargetFlags(c *cobra.Command) {
	c.Flags().StringVar(&r.name, "name", "", "name of the SimulatedCluster (default: rehearsal- and five random characters)")
	c.Flags().StringVar(&r.host, "host", "", "Cluster that hosts it (default: the only one that can)")
	c.Flags().StringVar(&r.simulatedKubeconfig, "simulated-kubeconfig", "", "kubeconfig with which the simulated cluster can be administrated (default: that of the local fleet)")
	c.Flags().StringVar(&r.localDir, "local-dir", defaultLocalDir(), "directory of the local fleet that the hub belongs to, if it does")
	c.Flags().StringSliceVar(&r.ignored, "ignore-preflight-errors", nil, "start although the machine of a local fleet has too little of these: memory, cpu, disk and so on, or all")
}

func (r *command) addUpgradeFlags(c *cobra.Command) {
	c.Flags().StringVar(&r.controlPlane, "control-plane-version", "", "minor to which the control plane is upgraded, at most the next one (default: the next one)")
	c.Flags().StringVar(&r.upgradeFlags.kubelet, "kubelet-version", "", "version of all kubelets after the upgrade (default: the first of the control plane's minor)")
	r.strategy = v1alpha1.RollingUpdate
	cmdutil.Choice(c, &r.strategy, "strategy", "how a Node is upgraded: RollingUpdate replaces it, InPlace keeps it", v1alpha1.RollingUpdate, v1alpha1.InPlace)
	c.Flags().StringVar(&r.maxSurge, "max-surge", "1", "how many Nodes of a group more than now there may be: a number or a percentage; not with InPlace")
	c.Flags().StringVar(&r.maxUnavailable, "max-unavailable", "", "how many Nodes of a group may be missing: a number or a percentage (default 0, with InPlace 1)")
	c.Flags().DurationVar(&r.drainTimeout, "node-drain-timeout", defaultDrainTimeout, "how long a drain may take; then the upgrade continues without, and the rehearsal has failed")
	c.Flags().DurationVar(&r.readyAfter, "pod-ready-after", 0, "how long each pod takes until it is Ready, as yours do (default: at once)")
	c.Flags().Int32Var(&r.terminationPercent, "termination-percent", defaultTermination, "how much of its grace period each pod takes to end, 0 to 100")
	r.order = shape.ControlPlaneFirst
	cmdutil.Choice(c, &r.order, "order", "order that you have in mind; steps of it that the skew policy forbids are reported, and rehearsed with the control plane first", shape.ControlPlaneFirst, shape.KubeletsFirst)
}

// check finds what is wrong with the flags.
func (r *command) check() error {
	switch {
	case r.sourceFlags.kubeconfig == "" && r.inventory == "":
		return cmdutil.Usage("give --from-kubeconfig or --from-inventory: what is to be rehearsed")
	case r.sourceFlags.kubeconfig != "" && r.inventory != "":
		return cmdutil.Usage("--from-kubeconfig and --from-inventory both say what is to be rehearsed: use only one of them")
	case r.sourceFlags.context != "" && r.sourceFlags.kubeconfig == "":
		return cmdutil.Usage("--from-context is one of --from-kubeconfig: give that too")
	case r.drainTimeout < 0, r.readyAfter < 0, r.timeout < 0:
		return cmdutil.Usage("--node-drain-timeout, --pod-ready-after and --timeout: not negative")
	case r.terminationPercent < 0 || r.terminationPercent > 100:
		return cmdutil.Usage("--termination-percent: want 0 to 100, got %d", r.terminationPercent)
	case r.form == asHTML && r.dryRun.Active():
		return cmdutil.Usage("-o html is a page about a rehearsal, and --dry-run makes none: use text, yaml or json")
	}
	_, err := r.newStrategy()
	return err
}

// newStrategy is that of the MachineDeployments.
func (r *command) newStrategy() (v1alpha1.MachineDeploymentStrategy, error) {
	surge, unavailable := r.maxSurge, r.maxUnavailable
	for flag, value := range map[string]string{"max-surge": surge, "max-unavailable": unavailable} {
		if err := checkBound(flag, value); err != nil {
			return v1alpha1.MachineDeploymentStrategy{}, err
		}
	}
	isZero := func(value string) bool { return value == "" || value == "0" || value == "0%" }
	if r.strategy == v1alpha1.InPlace {
		if unavailable == "" {
			unavailable = "1"
		}
		if isZero(unavailable) {
			return v1alpha1.MachineDeploymentStrategy{}, cmdutil.Usage("--max-unavailable: 1 or more with --strategy InPlace, because a Node is not available while it is updated")
		}
		return v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{MaxUnavailable: bound(unavailable)}}, nil
	}
	if isZero(surge) && isZero(unavailable) {
		return v1alpha1.MachineDeploymentStrategy{}, cmdutil.Usage("--max-surge and --max-unavailable are both 0, so nothing could ever be replaced: raise one of them")
	}
	if unavailable == "" {
		unavailable = "0"
	}
	return v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: bound(surge), MaxUnavailable: bound(unavailable)}}, nil
}

func bound(text string) *intstr.IntOrString {
	value := intstr.Parse(text)
	return &value
}

func checkBound(flag, text string) error {
	if text == "" {
		return nil
	}
	if scaled, err := intstr.GetScaledValueFromIntOrPercent(bound(text), 100, true); err != nil || scaled < 0 {
		return cmdutil.Usage("--%s: want a number of 0 or more, or a percentage such as 10%%, got %q", flag, text)
	}
	return nil
}

func (r *command) run(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	found, err := r.readInventory(ctx)
	if err != nil {
		return err
	}
	if err := r.saveInventory(found); err != nil {
		return err
	}
	versions, err := decideVersions(found.ControlPlane, r.controlPlane, r.upgradeFlags.kubelet)
	if err != nil {
		return err
	}
	prepared, err := r.prepare(ctx, found, versions)
	if err != nil {
		return err
	}
	if r.dryRun.Active() {
		return r.writePreview(prepared)
	}
	return r.rehearse(ctx, prepared)
}

// decideVersions names the exit code of what cannot be rehearsed.
func decideVersions(source, controlPlane, kubelet string) (shape.Versions, error) {
	versions, err := shape.DecideVersions(source, controlPlane, kubelet)
	var wrong *shape.VersionError
	if errors.As(err, &wrong) && wrong.Field == shape.SourceVersion {
		return versions, cmdutil.Refusal("%w", err)
	}
	return versions, cmdutil.AsUsage(err)
}

const permissions = 0o600

// writeOutput writes what was made to --output-file, or to standard output.
func (r *command) writeOutput(content []byte) error {
	if r.outputFile == "" {
		_, err := r.hub.Out.Write(content)
		return err
	}
	if err := os.WriteFile(r.outputFile, content, permissions); err != nil {
		return fmt.Errorf("writing --output-file: %w", err)
	}
	r.hub.Note("Wrote %s", r.outputFile)
	return nil
}
