package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// groupStopGrace is longer than ten clusters take to stop.
const groupStopGrace = 60 * time.Second

// Group is a running group of simcluster: control planes that share a process.
type Group struct {
	// Dir is the group's directory.
	Dir string
	// Process is the group's supervisor.
	Process *Process
}

// GroupStatus is what a group says of itself in its status.json.
type GroupStatus struct {
	// EmulatedVersion is the Kubernetes minor of all its clusters.
	EmulatedVersion string `json:"emulatedVersion"`
	// Clusters are the data directories of its clusters.
	Clusters []string `json:"clusters"`
	// Process has the control planes.
	Process SharedProcess `json:"process"`
	// Unanswered is how many checks in a row that process has not answered. After 36 of them, about 3 minutes, it is started again.
	Unanswered int `json:"unanswered"`
	// Log has the trace of a panic.
	Log string `json:"log"`
	// Podhosts has their podhosts, and the same is known of it.
	Podhosts struct {
		SharedProcess
		Unanswered int    `json:"unanswered"`
		Log        string `json:"log"`
	} `json:"podhosts"`
}

// SharedProcess is a process of a group. Restarts counts how often it was started again, LastExit says why it ended last.
type SharedProcess struct {
	State    string `json:"state"`
	PID      int    `json:"pid"`
	Restarts int    `json:"restarts"`
	LastExit string `json:"lastExit"`
}

// GroupOptions say which group to start.
type GroupOptions struct {
	// Name is for messages.
	Name string
	// Binary is the path of the simcluster program, Dir the group's directory, and LogFile takes the supervisor's output.
	Binary, Dir, LogFile string
	// EmulatedVersion is the Kubernetes minor of its clusters, such as 1.36. Empty: that of the program.
	EmulatedVersion string
	// Niceness is how much all that it runs gives way to others.
	Niceness int
}

// StartGroup starts a group and waits until it takes clusters, or ctx is done.
func StartGroup(ctx context.Context, options GroupOptions) (*Group, error) {
	args := []string{"group", "--dir", options.Dir}
	if options.EmulatedVersion != "" {
		args = append(args, "--emulated-version", options.EmulatedVersion)
	}
	supervisor, err := Start(Spec{Name: options.Name, Path: options.Binary, Args: args, LogFile: options.LogFile, Niceness: options.Niceness})
	if err != nil {
		return nil, err
	}
	group := &Group{Dir: options.Dir, Process: supervisor}
	err = supervisor.Wait(ctx, readyPoll, func(ctx context.Context) (bool, error) {
		output, err := exec.CommandContext(ctx, options.Binary, "group", "status", "--dir", options.Dir).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(err, supervisor.Stop(groupStopGrace))
	}
	return group, nil
}

// ReadGroup reads the status.json of the group in dir.
func ReadGroup(dir string) (GroupStatus, error) {
	var status GroupStatus
	content, err := os.ReadFile(filepath.Join(dir, "status.json"))
	if err == nil {
		err = json.Unmarshal(content, &status)
	}
	if err != nil {
		return status, fmt.Errorf("reading the state of the group in %s: %w", dir, err)
	}
	return status, nil
}

// FindGroup returns the group that runs in dir. Another process has started it and ends it, and Process is nil.
func FindGroup(dir string) *Group { return &Group{Dir: dir} }

// Stop ends the group with its clusters.
func (g *Group) Stop() error { return g.Process.Stop(groupStopGrace) }

// startInGroup runs the command that starts a cluster in a group. It ends when the cluster is ready.
func startInGroup(ctx context.Context, options ClusterOptions, args []string) (*Cluster, error) {
	starter, err := Start(Spec{
		Name: "cluster " + options.Name, Path: options.Binary, LogFile: options.LogFile,
		Args: append(args, "--group", options.Group.Dir),
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-starter.Done():
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("waiting for cluster %s: %w", options.Name, ctx.Err()), starter.Stop(stopGrace))
	}
	if starter.err != nil {
		return nil, fmt.Errorf("cluster %s did not start (%w); the end of %s:\n%s", options.Name, starter.err, options.LogFile, Tail(options.LogFile, 15))
	}
	cluster := &Cluster{options: options, Process: options.Group.Process}
	ready, err := cluster.Ready()
	if err != nil {
		return nil, err
	}
	cluster.adminKubeconfig = ready.AdminKubeconfig
	return cluster, nil
}

// exitNotRunning is the exit code of a stop that finds no cluster.
const exitNotRunning = 6

// stopInGroup stops the cluster and leaves its group running. One that does not run is no error.
func (c *Cluster) stopInGroup() error {
	ctx, cancel := context.WithTimeout(context.Background(), groupStopGrace)
	defer cancel()
	err := c.run(ctx, "stop")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == exitNotRunning {
		return nil
	}
	return err
}
