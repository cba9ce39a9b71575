package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

const startLong = `Start a cluster in the foreground. It ends with SIGTERM, SIGINT or
"simcluster stop", or when the process that started it ends. Started again on
the same data directory it has the same data, certificates and port.

When everything is healthy, DIR/ready.json is written. It names the API server,
the admin kubeconfig and the processes. It is removed when the stop starts. Only
if simcluster itself is killed it stays behind, so compare its supervisorPID with
the process that you have started.

simcluster takes a moment until it can watch the process that started it. A
launcher that could be killed in that moment passes its own id with --parent-pid.

The data directory must be empty, or not exist yet, at the first start, and is
marked then; any other is refused. It is for this user only. What is in it is throw-away data:
without --fsync a crash of the machine (not one of a process) can lose the last
writes or damage the data.`

const startExample = `  # a cluster with everything
  simcluster start --name c1 --data-dir /tmp/c1

  # an API server for controllers only
  simcluster start --name hub --data-dir /tmp/hub \
    --components etcd,kube-apiserver,kube-controller-manager

  # a cluster whose podhost can run pods of an image
  simcluster start --name c1 --data-dir /tmp/c1 --image hollow-node:dev=$PWD/rootfs

  # in the background of a shell that will end
  nohup simcluster start --name c1 --data-dir /tmp/c1 --exit-with-parent=false &`

// supervisorGC is the garbage collector's target of the supervisor in percent.
const supervisorGC = 30

// startFlags are the flags that need work before they are options.
type startFlags struct {
	options          controlplane.Options
	listen           string
	port             int
	extra            map[string]*[]string
	images           []string
	clients          []string
	capacity         string
	podhostNamespace string
	nodesPerPack     int
	// group is the directory of the group that the cluster shares a process with, empty for processes of its own.
	group string
}

func newStartCommand() *cobra.Command {
	flags := &startFlags{extra: map[string]*[]string{}}
	command := &cobra.Command{
		Use:     "start --name NAME --data-dir DIR",
		Short:   "Start a cluster in the foreground",
		Long:    startLong,
		Example: startExample,
		Args:    usageArguments(cobra.NoArgs),
	}
	flags.registerFlags(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		options, err := flags.completeOptions(command)
		if err != nil {
			return err
		}
		if flags.group != "" {
			return startInGroup(command.Context(), flags.group, options)
		}
		return startCluster(command.Context(), options)
	}
	return command
}

func (f *startFlags) registerFlags(command *cobra.Command) {
	options, set := &f.options, command.Flags()
	addDataDir(command, &options.DataDir)
	set.StringVar(&options.Name, "name", "", "the cluster's name (needed for the first start in a data directory)")
	set.StringSliceVar(&options.Components, "components", controlplane.AllComponents, "the components to run")
	set.StringVar(&f.listen, "listen", "127.0.0.1", "the IP address of the API server; all other ports are on loopback. With 0.0.0.0 or :: it is served on all interfaces, and the cluster's own kubeconfigs name the loopback address")
	set.StringArrayVar(&options.ServingNames, "serving-name", nil, "a further DNS name or IP address in the API server's certificate, such as that of a Service (repeatable)")
	set.StringVar(&options.PKIDir, "pki-dir", "", "a directory with certificates that another program makes and renews, each in a directory of its own with tls.crt and tls.key: ca, kube-apiserver, kube-apiserver-kubelet-client, kube-controller-manager, kube-scheduler, admin, and podhost if there is one. They are read again when they change (default: simcluster makes its own)")
	set.StringArrayVar(&f.clients, "client-kubeconfig", nil, "a kubeconfig to write for a user, as user=NAME,group=GROUP,file=FILE with any number of groups. It names FILE.crt and FILE.key, which are renewed while the cluster runs (repeatable)")
	set.StringArrayVar(&options.Manifests, "manifest", nil, "a file or directory of objects that are applied at each start, before the cluster is ready (repeatable)")
	set.StringVar(&f.group, "group", "", "the directory of a group, see \"simcluster group\": all components run there, and the command returns once the cluster is ready. \"simcluster stop\" ends the cluster")
	set.StringVar(&options.EmulatedVersion, "emulated-version", "", "the Kubernetes minor that the cluster emulates, such as 1.36 (default: that of the components)")
	set.StringVar(&options.EmulatedVersionFile, "emulated-version-file", "", "a file with the minor, instead of --emulated-version. When it changes, the components are upgraded as by \"simcluster upgrade\", and a start continues with what they have run last. What they run is in ConfigMap simcluster-versions of namespace kube-public")
	set.IntVar(&f.port, "apiserver-port", 0, "the port of the API server; 0 chooses a free one, without the flag the port of the earlier start is kept")
	set.BoolVar(&options.Aggregation, "aggregation", false, "let the API server pass requests on to the servers of APIServices, such as metrics-server, as their users, and run the controller of HorizontalPodAutoscalers")
	set.BoolVar(&options.Fsync, "fsync", false, "make etcd write through to the disk; safer when the machine crashes, and much slower")
	set.BoolVar(&options.ExitWithParent, "exit-with-parent", true, "end the cluster when the process that started it ends")
	set.IntVar(&options.ParentPID, "parent-pid", 0, "the process to end with, if it is not the one that started simcluster")
	set.DurationVar(&options.ReadyTimeout, "ready-timeout", controlplane.DefaultReadyTimeout, "give up when the cluster is not ready by then")
	for component, name := range map[string]string{
		controlplane.Etcd: "etcd-arg", controlplane.APIServer: "apiserver-arg",
		controlplane.ControllerManager: "controller-manager-arg", controlplane.Scheduler: "scheduler-arg",
	} {
		f.extra[component] = set.StringArray(name, nil, "a flag key=value for "+component+", which wins over the built-in one (repeatable)")
	}
	set.StringArrayVar(&f.images, "image", nil, "an image NAME=DIR that the podhost can run: DIR plays its root file system (repeatable)")
	set.StringVar(&options.PodhostNode, "podhost-node-name", "", "the name of the podhost's node (default NAME-podhost)")
	set.IntVar(&f.nodesPerPack, "nodes-per-pack", defaultNodesPerPack, "how many hollow nodes the podhost runs in one process; with 1 a hollow node that crashes ends no other")
	set.StringVar(&f.podhostNamespace, "podhost-namespace", defaultPodhostNamespace, "the namespace whose hollow-node pods the podhost runs, as an agent makes them; it runs no other pod, and only clients of group hollowfleet:agents may create pods there")
	set.StringVar(&f.capacity, "podhost-capacity", "", "what pods may request of the podhost's node, such as cpu=4,memory=8Gi,pods=110 (default: as many hollow nodes with default requests as the machine's memory holds, up to 10000 pods)")
}

func (f *startFlags) completeOptions(command *cobra.Command) (controlplane.Options, error) {
	options := f.options
	listen, err := netip.ParseAddr(f.listen)
	if err != nil {
		return options, usageError(fmt.Errorf("--listen=%q is not an IP address", f.listen))
	}
	options.Listen = listen
	if options.PKIDir != "" {
		if options.PKIDir, err = existingDir(options.PKIDir); err != nil {
			return options, usageError(fmt.Errorf("--pki-dir: %w", err))
		}
	}
	for _, text := range f.clients {
		client, err := parseClient(text)
		if err != nil {
			return options, usageError(fmt.Errorf("--client-kubeconfig=%q: %w", text, err))
		}
		options.Clients = append(options.Clients, client)
	}
	if command.Flags().Changed("apiserver-port") {
		options.APIServerPort = &f.port
	}
	options.ExtraArgs = map[string][]string{}
	for component, args := range f.extra {
		options.ExtraArgs[component] = *args
	}
	if options.ExtraArgs[controlplane.Podhost], err = podhostArgs(f.images, f.capacity, f.podhostNamespace, f.nodesPerPack); err != nil {
		return options, err
	}
	options.PodhostNamespace = f.podhostNamespace
	if options.Executable, err = os.Executable(); err != nil {
		return options, fmt.Errorf("finding this program: %w", err)
	}
	options.ChildArg = componentArg
	options.Version = version.Get().GitVersion
	options.Progress = command.OutOrStdout()
	return options, nil
}

// parseClient reads user=NAME,group=GROUP,file=FILE.
func parseClient(text string) (controlplane.Client, error) {
	var client controlplane.Client
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case value == "":
			return client, fmt.Errorf("%q has no value", part)
		case key == "user" && client.User == "":
			client.User = value
		case key == "group":
			client.Groups = append(client.Groups, value)
		case key == "file" && client.Path == "":
			path, err := filepath.Abs(value)
			if err != nil {
				return client, err
			}
			client.Path = path
		default:
			return client, fmt.Errorf("%q is neither user, group nor file, or is there twice", part)
		}
	}
	if client.User == "" || client.Path == "" {
		return client, errors.New("user and file are needed")
	}
	return client, nil
}

// startCluster runs the cluster until a signal.
func startCluster(ctx context.Context, options controlplane.Options) error {
	return untilSignal(ctx, func(ctx context.Context) error { return controlplane.Run(ctx, options) })
}

// untilSignal runs until a signal, with little memory. After the first signal the default
// action is back, so that a second one ends the process at once.
func untilSignal(ctx context.Context, run func(context.Context) error) error {
	debug.SetGCPercent(supervisorGC)
	// A reader of the progress that goes away may not end the cluster. Ignoring
	// the signal would do the same, but the children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	endings := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) {
		endings = append(endings, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, endings...)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx)
}
