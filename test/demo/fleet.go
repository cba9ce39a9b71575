package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	clusters = 3
	// endTimeout bounds the end of a fleet, and is longer than that takes.
	endTimeout = 5 * time.Minute
)

// fleet is what "kubectl hollow local up" has started.
type fleet struct {
	plugin
	dir     string
	hub     localfleet.ControlPlane
	client  client.WithWatch
	members []*member
	// processes are the process IDs of the programs that run the fleet, by name.
	processes map[string]int
}

// member is one workload cluster.
type member struct {
	localfleet.ControlPlane
	client     client.WithWatch
	simcluster string
	dir        string
}

// startFleet starts the fleet with the plugin. It ends with this process, unless it is to stay.
func startFleet(ctx context.Context, book *ledger, dir string, opts options) (*fleet, error) {
	hollow := opts.plugin(book.detail)
	args := []string{
		"local", "up", "--dir", dir, "--temporary-dir", "--bin-dir", opts.binDir, "--clusters", strconv.Itoa(clusters), "--machines", "0",
		"--agent-arg=--freeze-after=" + freezeAfter.String(), "--output", "json",
	}
	if !opts.keep {
		args = append(args, "--while-pid", strconv.Itoa(os.Getpid()))
	}
	var output bytes.Buffer
	if err := hollow.run(ctx, &output, args...); err != nil {
		return nil, err
	}
	var report localfleet.Report
	if err := json.Unmarshal(output.Bytes(), &report); err != nil {
		return nil, fmt.Errorf("reading what kubectl hollow local up printed: %w", err)
	}
	return connect(hollow, report, opts.binDir)
}

// connect makes the administrators' clients.
func connect(hollow plugin, report localfleet.Report, binDir string) (*fleet, error) {
	f := &fleet{plugin: hollow, dir: report.Dir, hub: report.Hub, processes: map[string]int{}}
	for _, running := range report.Processes {
		f.processes[running.Name] = running.PID
	}
	var err error
	if f.client, err = clientOf(report.Hub); err != nil {
		return f, err
	}
	for _, plane := range report.Clusters {
		m := &member{ControlPlane: plane, dir: plane.Dir, simcluster: filepath.Join(binDir, "simcluster")}
		if m.client, err = clientOf(plane); err != nil {
			return f, err
		}
		f.members = append(f.members, m)
	}
	return f, nil
}

func clientOf(plane localfleet.ControlPlane) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", plane.Name, err)
	}
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", plane.Name, err)
	}
	return c, nil
}

// component pauses a component of a workload cluster's control plane, or lets it resume.
func (m *member) component(ctx context.Context, action, name string) error {
	command := exec.CommandContext(ctx, m.simcluster, "component", action, name, "--data-dir", m.dir)
	if output, err := command.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("running simcluster component %s %s of %s: %w: %s", action, name, m.Name, err, output)
	}
	return nil
}

// plugin is kubectl-hollow, and where to tell what it says of its progress.
type plugin struct {
	path string
	say  func(format string, args ...any)
}

func (o options) plugin(say func(format string, args ...any)) plugin {
	return plugin{path: filepath.Join(o.binDir, "kubectl-hollow"), say: say}
}

// down ends the fleet in dir, also when ctx has ended.
func (p plugin) down(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return p.run(ctx, io.Discard, "local", "down", "--dir", dir)
}

// run runs a command of the plugin, which is interrupted when ctx ends, and then ends what it has started itself.
func (p plugin) run(ctx context.Context, output io.Writer, args ...string) error {
	progress := &lines{say: p.say}
	command := exec.CommandContext(ctx, p.path, args...)
	command.Stdout, command.Stderr = output, progress
	// Ctrl-C at a terminal reaches us alone: a second signal would keep it from ending its fleet.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = endTimeout
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("running kubectl hollow %s %s: %w%s", args[0], args[1], err, progress.lastLine())
	}
	return nil
}

// lines passes on what is written to it, line by line.
type lines struct {
	say        func(format string, args ...any)
	rest, last string
}

// lastLine is what the plugin said last, which is why it failed.
func (l *lines) lastLine() string {
	if last := cmp.Or(l.rest, l.last); last != "" {
		return ": " + last
	}
	return ""
}

// Write implements io.Writer.
func (l *lines) Write(content []byte) (int, error) {
	text := l.rest + string(content)
	for {
		line, rest, found := strings.Cut(text, "\n")
		if !found {
			l.rest = text
			return len(content), nil
		}
		l.say("%s", line)
		l.last, text = line, rest
	}
}
