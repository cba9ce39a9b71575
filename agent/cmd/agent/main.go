// Command agent runs the agent of one workload cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/driver/kwok"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// gcPercent is by which share the heap grows before it is collected, if GOGC does not say. A machine may run an agent for each of many
// simulated clusters: with half of Go's default one takes a quarter less memory, and no more processor time that could be measured.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status. What was asked for goes to output; log and errors go to messages.
func run(ctx context.Context, arguments []string, output, messages io.Writer) int {
	command := newCommand(ctx, agent.Run, messages)
	command.SetArgs(arguments)
	command.SetOut(output)
	command.SetErr(messages)
	err := command.Execute()
	var usage *agent.UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(messages, "agent: %v\nSee 'agent --help'.\n", err)
		return exitUsage
	}
	fmt.Fprintf(messages, "agent: %v\n", err)
	return exitFailed
}

func newCommand(ctx context.Context, start func(context.Context, agent.Options) error, logTo io.Writer) *cobra.Command {
	options := agent.Options{Version: version.Here()}
	var format string
	var verbosity int
	command := &cobra.Command{
		Use:   "agent",
		Short: "Make the machines of one workload cluster real and report them to the hub",
		Long: `The agent of one workload cluster. It reads the cluster's Machines on the hub, makes each of them real (as a
hollow-node pod, unless another provider is built in), keeps their Nodes up to date, and reports back.

It works with three Kubernetes API servers, which may be the same:
  hub     has the Cluster and, in the namespace of its name, the Machines
  target  is the workload cluster: it gets the Nodes
  host    runs the hollow-node pods

To join, it needs the kubeconfig that 'kubectl hollow cluster join' prints. It creates its own key, asks the hub for
a certificate, stores both where --credential-dir or --credential-secret says, and renews them with a new key when 20 to
25 % of the lifetime is left. If that kubeconfig has a ServiceAccount token, the agent uses such tokens instead.

The agent is frozen, and changes nothing, until each of them has answered three times in a row, and whenever one has
not answered for --freeze-after. It is also frozen while another agent of the same cluster holds the cluster's Lease:
of two agents one works and the other stands by. A frozen agent is still ready (/readyz); /frozenz says why it is frozen.
After a freeze the agent lists everything again before it acts, and during --thaw-period it drains or removes no more than
--thaw-deletions-per-minute of the machines that existed before.

Hub and agent may be one minor version apart. An agent that is further from its hub stays frozen (VersionSkew); /readyz, the
log and the Cluster say which of the two must be upgraded.

Exit status: 0 after SIGTERM or SIGINT, 1 when it fails or another agent has taken its Lease, 2 for invalid
options. The last line of the log says what the agent was doing or waiting for.`,
		Example: `  # In the workload cluster c1, joining with the kubeconfig from a mounted Secret:
  agent --cluster-name c1 --bootstrap-kubeconfig /etc/hollowfleet/bootstrap.kubeconfig --credential-secret hollowfleet/hub-credential

  # As a local process:
  agent --cluster-name c1 --bootstrap-kubeconfig join.kubeconfig --credential-dir ./c1 --target-kubeconfig c1.kubeconfig \
    --health-address 127.0.0.1:8081 --metrics-address 127.0.0.1:8080

  # With a kubeconfig for the hub, of user hollowfleet.io:agent:c1, that another program renews:
  agent --cluster-name c1 --hub-kubeconfig hub.kubeconfig --target-kubeconfig c1.kubeconfig \
    --health-address 127.0.0.1:8081 --metrics-address 127.0.0.1:8080`,
		Version: options.Version, Args: noArguments, SilenceUsage: true, SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			log, err := telemetry.NewLogger(logTo, format, verbosity)
			if err != nil {
				return &agent.UsageError{Err: err}
			}
			klog.SetLogger(log)
			ctrl.SetLogger(log)
			options.Log = log
			return start(ctx, options)
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &agent.UsageError{Err: err} })
	flags := command.Flags()
	flags.SortFlags = false
	addFlags(command, &options)
	flags.StringVar(&format, "log-format", telemetry.LogText, "format of the log on standard error: text or json")
	flags.IntVarP(&verbosity, "v", "v", 0, "verbosity of the log: 0 for operators, up to 10 for developers")
	return command
}

func addFlags(command *cobra.Command, options *agent.Options) {
	flags := command.Flags()
	flags.StringVar(&options.ClusterName, "cluster-name", "", "name of this workload cluster's Cluster on the hub (required)")
	flags.StringVar(&options.BootstrapKubeconfig, "bootstrap-kubeconfig", "", "kubeconfig to join the hub with (this or --hub-kubeconfig is required); when it changes, the hub's address and CA are reread")
	flags.StringVar(&options.CredentialDir, "credential-dir", "", "directory for the agent's key, certificate and identity; for one process at a time")
	flags.StringVar(&options.CredentialSecret, "credential-secret", "", "namespace/name of a Secret of the target for key and certificate, instead of --credential-dir")
	flags.StringVar(&options.CredentialSecretCluster, "credential-secret-cluster", agent.CredentialInTarget, "cluster with the Secret of --credential-secret: target or host")
	flags.DurationVar(&options.CertificateLifetime, "certificate-lifetime", agent.DefaultCertificateLifetime, "requested lifetime of certificates and tokens; at least 10m")
	flags.StringVar(&options.HubKubeconfig, "hub-kubeconfig", "", "kubeconfig for the hub with the identity of this cluster's agent, any other is refused; it and its files are reread when they change")
	flags.StringVar(&options.TargetKubeconfig, "target-kubeconfig", "", "kubeconfig for the target (default: the cluster that the agent runs in)")
	flags.StringVar(&options.HostKubeconfig, "host-kubeconfig", "", "kubeconfig for the host (default: the target's)")
	flags.StringVar(&options.TargetNamespace, "target-namespace", agent.DefaultNamespace, "namespace of ServiceAccount hollow-node-bootstrap in the target")
	flags.StringVar(&options.HostNamespace, "host-namespace", agent.DefaultNamespace, "namespace of the hollow-node pods in the host; one for each cluster")
	flags.StringVar(&options.HollowNodeImage, "hollow-node-image", agent.DefaultHollowNodeImage, "image of the hollow-node pods")
	flags.StringToStringVar(&options.HollowNodeMinorImages, "hollow-node-minor-image", nil, "an image of hollow-node pods with the kubelet code of another minor, such as 1.36=hollowfleet/hollow-node-v1.36 (repeatable); Nodes of a minor that has none only report their version")
	flags.DurationVar(&options.NodeMonitorGracePeriod, "node-monitor-grace-period", agent.DefaultGracePeriod, "--node-monitor-grace-period of the target's kube-controller-manager: hollow nodes whose heartbeats are too rare for it are refused")
	flags.StringSliceVar(&options.StaticPodNamespaces, "static-pod-namespaces", nil, "namespaces of the target in which the static pods of hollow nodes may be, or * for all (default: none, which refuses static pods)")
	flags.StringVar((*string)(&options.HollowTaint), "hollow-taint", string(v1alpha1.HollowTaintAuto), "when hollow Nodes have the taint hollowfleet.io/hollow=true:NoSchedule, unless their class sets it: Auto (in a cluster that has other Nodes too), Always or Never")
	flags.StringVar(&options.TargetServerURL, "target-server-url", "", "URL of the target's API server for hollow-node pods (default: that of the target's kubeconfig)")
	flags.StringSliceVar(&options.CSIDrivers, "csi-drivers", nil, "simulated CSI drivers whose volumes the agent provisions in the target; it needs the rights of config/rbac/agent-csi (default: none)")
	flags.StringVar(&options.Kwok.Program, "kwok-program", "", "path of kwok's controller, which the agent starts for Machines of provider kwok; it needs the rights of config/rbac/agent-kwok (default: no such provider)")
	flags.StringVar(&options.Kwok.Dir, "kwok-dir", "", "directory for configuration, credential and log of that controller")
	flags.DurationVar(&options.Kwok.LeaseDuration, "kwok-lease-duration", kwok.DefaultLeaseDuration, "how long the Leases of its Nodes are valid; they are renewed four times as often")
	flags.BoolVar(&options.Kwok.Beside, "kwok", false, "there is a provider kwok, whose controller runs beside the agent")
	flags.DurationVar(&options.FreezeAfter, "freeze-after", agent.DefaultFreezeAfter, "freeze when hub, target or host has not answered for this long")
	flags.IntVar(&options.ThawDeletionsPerMinute, "thaw-deletions-per-minute", agent.DefaultThawDeletions, "most machines to drain or remove per minute during --thaw-period; at least 1")
	flags.DurationVar(&options.ThawPeriod, "thaw-period", agent.DefaultThawPeriod, "how long --thaw-deletions-per-minute applies after each freeze, and after the start")
	flags.StringVar(&options.LoadTests.PodSecurity, "load-test-pod-security", "baseline", "Pod Security Standard that the namespaces of load tests enforce: privileged, baseline or restricted")
	flags.StringVar(&options.LoadTests.Nodes, "load-test-nodes", "hollow", "Nodes that pods of load tests go to: hollow or any")
	flags.StringSliceVar(&options.LoadTests.Kinds, "load-test-kinds", nil, "additional kinds that templates of load tests may have, besides those that stay within their namespace, such as PersistentVolumeClaim,Widget.example.com")
	flags.StringVar(&options.LoadTests.MaxStored, "load-test-max-stored", "1Gi", "most bytes that the objects of a load test may take in the target's etcd, estimated before the first one is created")
	flags.StringVar(&options.SimulatedClustersSocket, "simulated-clusters-socket", "", "path of the socket of a local fleet's keeper, which runs the SimulatedClusters that this cluster hosts (default: it hosts none)")
	addSimulatedFlags(flags, &options.SimulatedPods)
	options.ServeOptions.AddFlags(flags, "/healthz, /readyz and /frozenz")
}

// addSimulatedFlags adds those of simulated clusters as pods.
func addSimulatedFlags(flags *pflag.FlagSet, options *agent.SimulatedPodOptions) {
	flags.StringVar(&options.By, "simulated-clusters", "", "what runs the SimulatedClusters that this cluster hosts: pods, of the host, for which the agent needs the rights of config/rbac/agent-simulated-clusters (default: nothing)")
	flags.IntVar(&options.Max, "simulated-clusters-max", agent.DefaultMaxSimulatedClusters, "most simulated clusters that run as pods")
	flags.StringVar(&options.Image, "simulated-clusters-image", agent.DefaultSimclusterImage, "image of their control planes")
	flags.StringVar(&options.AgentImage, "simulated-clusters-agent-image", agent.DefaultAgentImage, "image of their agents")
	flags.StringVar(&options.Certificates, "simulated-clusters-pki", "auto", "who makes the certificates of new ones: cert-manager, self-signed (the agent), or auto (cert-manager where it is installed)")
	flags.StringVar(&options.StorageSize, "simulated-clusters-storage-size", agent.DefaultSimulatedStorage, "size of the volume of each")
	flags.StringVar(&options.StorageClass, "simulated-clusters-storage-class", "", "StorageClass of their volumes (default: the host's)")
	flags.StringToStringVar(&options.Quota, "simulated-clusters-quota", nil, "ResourceQuota of the namespace of each, hollow nodes included, such as pods=52,requests.memory=4Gi (default: none)")
}

func noArguments(_ *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return &agent.UsageError{Err: fmt.Errorf("unknown argument %q: the agent takes only flags", arguments[0])}
}
