// The hub program runs the controllers of a fleet's hub.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := newCommand(ctx, stderr)
	command.SetArgs(args)
	command.SetOut(stdout)
	command.SetErr(stderr)
	err := command.Execute()
	switch usage := (usageError{}); {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "hub: %v (see hub --help)\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "hub: %v\n", err)
		return exitFailed
	}
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

const long = `The hub manages Clusters, MachineDeployments, MachineSets and Machines on its API server. It lets
workload clusters join and creates their Machines; the agent of each workload cluster makes them real.

Several hubs can run at the same time: one is elected and works, the others wait.

Exit codes: 0 after SIGTERM or SIGINT; 1 after a failure, such as a lost election, or when its API server has gone
back to an older state: restart the hub then; 2 for an invalid command line.`

const example = `  # Install the kinds and roles once, then run a hub.
  hub install --kubeconfig hub.kubeconfig
  hub --kubeconfig hub.kubeconfig

  # Run in a pod with the service account hollowfleet-hub, with logs for machines.
  hub --health-address :8081 --metrics-address :8080 --log-format json`

func newCommand(ctx context.Context, logs io.Writer) *cobra.Command {
	var (
		options    = hub.Options{Safety: hub.DefaultSafety}
		kubeconfig string
		elect      bool
		format     string
		verbosity  int
	)
	command := &cobra.Command{
		Use: "hub", Short: "Run the controllers of a fleet's hub", Long: long, Example: example,
		Version: version.Here(), SilenceUsage: true, SilenceErrors: true,
		Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			logger, err := telemetry.NewLogger(logs, format, verbosity)
			if err := errors.Join(err, options.Validate()); err != nil {
				return usageError{err}
			}
			if options.Config, err = hub.LoadConfig(kubeconfig); err != nil {
				return err
			}
			ctrl.SetLogger(logger)
			klog.SetLogger(logger)
			options.Logger, options.NoLeaderElection = logger, !elect
			return hub.Run(ctx, options)
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the hub's API server (default $KUBECONFIG, else the pod's service account)")
	flags.Float32Var(&options.KubeAPIQPS, "kube-api-qps", 0, "most requests per second to the API server; 0 leaves it to the server's priority and fairness")
	flags.BoolVar(&elect, "leader-elect", true, "work only while elected; turn off only if this is certainly the only hub")
	flags.Var((*seconds)(&options.Heartbeat.PeriodSeconds), "heartbeat-period", "how often agents renew their Lease, for Clusters that do not set it (default 10s)")
	flags.Var((*seconds)(&options.Heartbeat.GraceSeconds), "heartbeat-grace", "how long an agent may be silent, for Clusters that do not set it (default 40s)")
	flags.Var((*positive)(&options.Safety.Up), "safety-up", "how many Machines above replicas and surge freeze a MachineSet and its MachineDeployment")
	flags.Var((*positive)(&options.Safety.Down), "safety-down", "how many Machines above replicas and surge unfreeze them again; at most --safety-up")
	flags.Var((*period)(&options.Safety.Period), "machine-safety-overshooting-period", "how often all MachineSets are checked for too many Machines, besides on each new Machine")
	flags.IntVar(&options.Concurrency, "concurrency", hub.DefaultConcurrency, "objects of each kind to reconcile in parallel")
	flags.DurationVar(&options.ShutdownTimeout, "shutdown-timeout", hub.DefaultShutdownTimeout, "longest time to finish running work after SIGTERM")
	options.ServeOptions.AddFlags(flags, "/healthz and /readyz")
	flags.StringVar(&format, "log-format", telemetry.LogText, "format of the logs on standard error: text or json")
	flags.IntVarP(&verbosity, "verbosity", "v", 0, "verbosity of the logs: 0 for operators, 2 logs every plan, 4 is for developers")
	command.AddCommand(newInstall(ctx), newCheckUninstall(ctx))
	return command
}

func newInstall(ctx context.Context) *cobra.Command {
	return withServer(ctx, &cobra.Command{
		Use: "install", Short: "Install or upgrade the kinds, namespace and roles that a hub needs",
		Long: `Install applies Hollowfleet's CustomResourceDefinitions, the hub's namespace and service account, and the
roles of hub and agents by server-side apply, and waits until the API server serves the kinds. It can be
repeated: objects that are up to date are unchanged. It needs an administrator's kubeconfig.`,
		Example: "  hub install --kubeconfig admin.kubeconfig",
	}, hub.Install, "installed on")
}

func newCheckUninstall(ctx context.Context) *cobra.Command {
	return withServer(ctx, &cobra.Command{
		Use: "check-uninstall", Short: "Fail if the hub still has Clusters, which cannot be deleted without it",
		Long: `Check-uninstall lists the Clusters on the hub's API server and fails with exit code 1 if there are any. Helm runs it before it
uninstalls the chart: without a hub nothing removes the finalizers of Clusters, so neither they nor the kinds could be deleted.`,
		Example: "  hub check-uninstall --kubeconfig admin.kubeconfig",
	}, hub.CheckUninstall, "no Cluster is left on")
}

// withServer lets a command do something on the hub's API server, and print done with the server's address afterwards.
func withServer(ctx context.Context, command *cobra.Command, do func(context.Context, *rest.Config) error, done string) *cobra.Command {
	var (
		kubeconfig string
		timeout    time.Duration
	)
	command.Args = usage(cobra.NoArgs)
	command.RunE = func(command *cobra.Command, _ []string) error {
		config, err := hub.LoadConfig(kubeconfig)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := do(ctx, config); err != nil {
			return err
		}
		fmt.Fprintf(command.OutOrStdout(), "%s %s\n", done, config.Host)
		return nil
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the hub's API server (default $KUBECONFIG, else the pod's service account)")
	command.Flags().DurationVar(&timeout, "timeout", time.Minute, "longest time to wait for the API server")
	return command
}

func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// seconds is the value of a flag that takes a duration of whole seconds.
type seconds int32

// Set implements pflag.Value.
func (s *seconds) Set(text string) error {
	duration, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if duration < time.Second || duration%time.Second != 0 || duration > math.MaxInt32*time.Second {
		return errors.New("want whole seconds, 1s or more")
	}
	*s = seconds(duration / time.Second)
	return nil
}

// String implements pflag.Value.
func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return (time.Duration(*s) * time.Second).String()
}

// Type implements pflag.Value.
func (*seconds) Type() string { return "duration" }

// positive is the value of a flag that takes a number of 1 or more.
type positive int

// Set implements pflag.Value.
func (p *positive) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return errors.New("want a number, 1 or more")
	}
	*p = positive(number)
	return nil
}

// String implements pflag.Value.
func (p *positive) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.Itoa(int(*p))
}

// Type implements pflag.Value.
func (*positive) Type() string { return "int" }

// period is the value of a flag that takes a duration of more than 0s.
type period time.Duration

// Set implements pflag.Value.
func (p *period) Set(text string) error {
	duration, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if duration <= 0 {
		return errors.New("want more than 0s")
	}
	*p = period(duration)
	return nil
}

// String implements pflag.Value.
func (p *period) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}

// Type implements pflag.Value.
func (*period) Type() string { return "duration" }
