package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// HubComponents are the components that a hub needs: nothing is scheduled there.
var HubComponents = []string{"etcd", "kube-apiserver", "kube-controller-manager"}

const (
	readyPoll = 50 * time.Millisecond
	// stopGrace is longer than the program's own bound for a graceful stop.
	stopGrace = 30 * time.Second
)

// ClusterOptions say which control plane to start.
type ClusterOptions struct {
	// Name of the simulated cluster.
	Name string
	// Dir keeps its data, and nothing else; a second start on the same Dir continues with it.
	Dir string
	// LogFile takes the program's own output, KubeconfigDir the kubeconfigs that are minted. Both are outside of Dir.
	LogFile, KubeconfigDir string
	// Binary is the path of the simcluster program.
	Binary string
	// Components to run. Default all.
	Components []string
	// Images maps an image name to the directory whose programs its podhost runs for it.
	Images map[string]string
	// Group is the group whose process the components share. With nil each has a process of its own.
	Group *Group
	// Args are further arguments of "simcluster start".
	Args []string
	// Niceness is how much all that it runs gives way to others. Of a cluster in a group, the group decides.
	Niceness int
}

// Ready is what a running cluster says of itself in its ready.json.
type Ready struct {
	Name            string               `json:"name"`
	Server          string               `json:"server"`
	AdminKubeconfig string               `json:"adminKubeconfig"`
	CAFile          string               `json:"caFile"`
	SupervisorPID   int                  `json:"supervisorPID"`
	Group           string               `json:"group"`
	Components      map[string]Component `json:"components"`
	PodhostNode     string               `json:"podhostNode"`
	Version         string               `json:"version"`
	// dir is the cluster's data directory.
	dir string
}

// Component is one process of a cluster.
type Component struct {
	PID int    `json:"pid"`
	Log string `json:"log"`
	// Problem says why it cannot do all of its job, although it runs.
	Problem string `json:"problem"`
	// EmulatedVersion is the Kubernetes minor that it runs as, such as 1.36; empty for components without one.
	EmulatedVersion string `json:"emulatedVersion"`
}

// Cluster is a running control plane: the simcluster program, which is known by its command line and its ready.json only.
type Cluster struct {
	options         ClusterOptions
	adminKubeconfig string
	// Process is the supervisor: the cluster's own, or that of its group.
	Process *Process
}

// StartCluster starts a cluster and waits until it is ready or ctx is done. A cluster that does not become ready is
// ended.
func StartCluster(ctx context.Context, options ClusterOptions) (*Cluster, error) {
	args := []string{"start", "--name", options.Name, "--data-dir", options.Dir}
	if len(options.Components) > 0 {
		args = append(args, "--components", strings.Join(options.Components, ","))
	}
	for _, image := range slices.Sorted(maps.Keys(options.Images)) {
		args = append(args, "--image", image+"="+options.Images[image])
	}
	args = append(args, options.Args...)
	if options.Group != nil {
		return startInGroup(ctx, options, args)
	}
	supervisor, err := Start(Spec{
		Name: "cluster " + options.Name, Path: options.Binary, Args: args,
		LogFile: options.LogFile, Niceness: options.Niceness,
	})
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{options: options, Process: supervisor}
	err = supervisor.Wait(ctx, readyPoll, func(context.Context) (bool, error) {
		ready, err := cluster.Ready()
		cluster.adminKubeconfig = ready.AdminKubeconfig
		// A file with another process ID is of an earlier run.
		return err == nil && ready.SupervisorPID == supervisor.PID(), err
	})
	if err != nil {
		return nil, errors.Join(err, supervisor.Stop(stopGrace))
	}
	return cluster, nil
}

// FindCluster returns the cluster that runs in the Dir of options, as soon as it is ready. Another process has started it and ends it.
func FindCluster(ctx context.Context, options ClusterOptions) (*Cluster, error) {
	cluster := &Cluster{options: options}
	err := wait.PollUntilContextCancel(ctx, readyPoll, true, func(context.Context) (bool, error) {
		ready, err := cluster.Ready()
		cluster.adminKubeconfig = ready.AdminKubeconfig
		return err == nil, nil
	})
	if err != nil {
		_, cause := cluster.Ready()
		return nil, fmt.Errorf("waiting for cluster %s: %w", options.Name, errors.Join(err, cause))
	}
	return cluster, nil
}

// Name of the cluster.
func (c *Cluster) Name() string { return c.options.Name }

// Dir is the cluster's data directory.
func (c *Cluster) Dir() string { return c.options.Dir }

// Group is the group whose process its components share; nil if they have processes of their own.
func (c *Cluster) Group() *Group { return c.options.Group }

// AdminKubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) AdminKubeconfig() string { return c.adminKubeconfig }

// Ready reads what the cluster says of itself now.
func (c *Cluster) Ready() (Ready, error) {
	return ReadReady(c.options.Dir)
}

// ReadReady reads the ready.json of the cluster in dir.
func ReadReady(dir string) (Ready, error) {
	var ready Ready
	content, err := os.ReadFile(filepath.Join(dir, "ready.json"))
	if err != nil {
		return ready, fmt.Errorf("reading the state of the cluster in %s: %w", dir, err)
	}
	if err = json.Unmarshal(content, &ready); err == nil {
		ready.dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		ready.dir, err = filepath.Abs(ready.dir)
	}
	if err != nil {
		return ready, fmt.Errorf("reading the state of the cluster in %s: %w", dir, err)
	}
	return ready, nil
}

// HollowNodes are the IDs of the processes that the cluster's hollow nodes run in.
func (r Ready) HollowNodes() []int {
	podhost := r.Components["podhost"].PID
	if podhost == 0 {
		return nil
	}
	return slices.DeleteFunc(Descendants(podhost), func(pid int) bool { return Program(pid) != "hollow-node" || r.Group != "" && !r.hasProcess(pid) })
}

// hasProcess reports whether a process of a podhost that clusters share is this one's: it works in the cluster's data directory.
func (r Ready) hasProcess(pid int) bool {
	directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil && strings.HasPrefix(directory, r.dir+"/")
}

// RESTConfig is the administrator's client configuration, without client-side rate limits.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	ready, err := c.Ready()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", ready.AdminKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's kubeconfig of cluster %s: %w", c.options.Name, err)
	}
	config.QPS = -1
	return config, nil
}

// Kubeconfig mints a kubeconfig with a client certificate of its own and returns its path.
func (c *Cluster) Kubeconfig(ctx context.Context, user string, groups ...string) (string, error) {
	if err := os.MkdirAll(c.options.KubeconfigDir, 0o700); err != nil {
		return "", fmt.Errorf("making the directory for the kubeconfigs of cluster %s: %w", c.options.Name, err)
	}
	out := filepath.Join(c.options.KubeconfigDir, strings.NewReplacer(":", "_", "/", "_").Replace(user)+".kubeconfig")
	args := []string{"kubeconfig", "--user", user, "--out", out}
	for _, group := range groups {
		args = append(args, "--group", group)
	}
	return out, c.run(ctx, args...)
}

// Component does one of stop, start, kill, pause and resume with a component such as "kube-apiserver".
func (c *Cluster) Component(ctx context.Context, action, name string) error {
	return c.run(ctx, "component", action, name)
}

// Upgrade brings a cluster of processes of its own to the next minor, empty for that of the programs, one component after the other.
func (c *Cluster) Upgrade(ctx context.Context, minor string) error {
	return c.run(ctx, "upgrade", "--emulated-version", minor)
}

func (c *Cluster) run(ctx context.Context, args ...string) error {
	return run(ctx, c.options.Binary, c.options.Dir, args...)
}

func run(ctx context.Context, binary, dir string, args ...string) error {
	command := exec.CommandContext(ctx, binary, append(args, "--data-dir", dir)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running simcluster %s in %s: %w: %s", args[0], dir, err, output)
	}
	return nil
}

// Stop ends the cluster; its data stays.
func (c *Cluster) Stop() error {
	if c.options.Group != nil {
		return c.stopInGroup()
	}
	return c.Process.Stop(stopGrace)
}

// DeleteCluster removes the files of a cluster that has ended, also those that it has outside of its directory. What others
// put into its directory stays.
func DeleteCluster(ctx context.Context, binary, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil // It has never been started.
	}
	if err != nil {
		return fmt.Errorf("deleting the cluster in %s: %w", dir, err)
	}
	return run(ctx, binary, dir, "delete")
}

// Kill ends the supervisor with SIGKILL and returns when it is gone.
func (c *Cluster) Kill() error {
	if c.options.Group != nil {
		return fmt.Errorf("cluster %s shares its process with others: kill one that was started with --isolation=process", c.options.Name)
	}
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.Process.Done()
	return nil
}
