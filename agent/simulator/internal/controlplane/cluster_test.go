package controlplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

const (
	// startPatience is how long a cluster may take to start on a busy machine.
	startPatience = 2 * time.Minute
	// patience is for everything else.
	patience = 2 * time.Minute

	apiServerOnly = controlplane.Etcd + "," + controlplane.APIServer
	withoutPods   = apiServerOnly + "," + controlplane.ControllerManager + "," + controlplane.Scheduler
)

// binary is the simcluster to be tested.
func binary(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HOLLOWFLEET_BIN")
	if dir == "" {
		t.Fatal("HOLLOWFLEET_BIN is not set: build with \"make build\" and set it to the absolute path of bin/")
	}
	path := filepath.Join(dir, "simcluster")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no simcluster in HOLLOWFLEET_BIN=%s: build it with \"make build\"", dir)
	}
	return path
}

// simcluster runs the program to its end.
func simcluster(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	command := exec.CommandContext(ctx, binary(t), args...)
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	_ = command.Run()
	return out.String(), errors.String(), command.ProcessState.ExitCode()
}

// succeed runs the program and wants the exit code 0.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := simcluster(t, args...)
	if code != 0 {
		t.Fatalf("simcluster %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// cluster is one that the test has started.
type cluster struct {
	dir     string
	command *exec.Cmd
	output  *bytes.Buffer
	ended   chan struct{}
}

// launch starts a cluster without waiting for it. Whatever the test does, the
// cluster ends with it.
func launch(t *testing.T, dir, components string, args ...string) *cluster {
	t.Helper()
	c := &cluster{dir: dir, output: &bytes.Buffer{}, ended: make(chan struct{})}
	c.command = exec.Command(binary(t), append([]string{"start", "--name", "c1", "--data-dir", dir, "--components", components}, args...)...)
	c.command.Stdout, c.command.Stderr = c.output, c.output
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(c.ended); _ = c.command.Wait() }()
	t.Cleanup(func() {
		_ = c.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.ended:
		case <-time.After(patience):
			_ = c.command.Process.Kill()
			<-c.ended
			t.Error("the cluster did not end by itself")
		}
		if t.Failed() {
			t.Logf("output of the cluster:\n%s", c.output)
		}
	})
	return c
}

// startCluster starts a cluster and waits until it is ready.
func startCluster(t *testing.T, dir, components string, args ...string) *cluster {
	t.Helper()
	c := launch(t, dir, components, args...)
	within(t, startPatience, "the cluster is ready", func() error {
		select {
		case <-c.ended:
			t.Fatalf("the cluster ended during its start:\n%s", c.output)
		default:
		}
		ready, err := controlplane.ReadReady(dir)
		if err == nil && ready.SupervisorPID != c.command.Process.Pid {
			err = fmt.Errorf("ready.json is of an earlier supervisor, process %d", ready.SupervisorPID)
		}
		return err
	})
	return c
}

func (c *cluster) ready(t *testing.T) controlplane.Ready {
	t.Helper()
	ready, err := controlplane.ReadReady(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	return ready
}

// pids are the supervisor and all processes below it.
func (c *cluster) pids(t *testing.T) []int {
	t.Helper()
	pids := []int{c.command.Process.Pid}
	for name, component := range c.ready(t).Components {
		if component.PID == 0 {
			t.Fatalf("%s has no process", name)
		}
		pids = append(pids, component.PID)
	}
	return pids
}

// stop ends the cluster with the program's own command.
func (c *cluster) stop(t *testing.T) {
	t.Helper()
	succeed(t, "stop", "--data-dir", c.dir)
	select {
	case <-c.ended:
	case <-time.After(patience):
		t.Fatal("the supervisor runs after stop has returned")
	}
	if code := c.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the stopped supervisor has exit code %d, want 0\n%s", code, c.output)
	}
}

func (c *cluster) config(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = 10 * time.Second
	return config
}

func (c *cluster) admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	return kubernetes.NewForConfigOrDie(c.config(t, c.ready(t).AdminKubeconfig))
}

// as returns a client with a kubeconfig made by the program.
func (c *cluster) as(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	return kubernetes.NewForConfigOrDie(c.config(t, c.kubeconfig(t, user, groups...)))
}

func (c *cluster) kubeconfig(t *testing.T, user string, groups ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	args := []string{"kubeconfig", "--data-dir", c.dir, "--user", user, "--ttl", "1h", "--out", file}
	for _, group := range groups {
		args = append(args, "--group", group)
	}
	succeed(t, args...)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has mode %o, want 600", info.Mode().Perm())
	}
	return file
}

// status is what "status -o json" prints, with its exit code.
func (c *cluster) status(t *testing.T) (controlplane.Status, int) {
	t.Helper()
	stdout, stderr, code := simcluster(t, "status", "--data-dir", c.dir, "-o", "json")
	var status controlplane.Status
	if err := json.Unmarshal([]byte(stdout), &status); err != nil {
		t.Fatalf("status printed %q and %q: %v", stdout, stderr, err)
	}
	return status, code
}

// within wants the check to succeed within the time.
func within(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("within %s it did not come true that %s: %v", limit, what, err)
		case <-ticker.C:
		}
	}
}

// gone returns an error while one of the processes is there.
func gone(pids []int) func() error {
	return func() error {
		for _, pid := range pids {
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue
			}
			if _, state, _ := strings.Cut(string(content), ") "); err == nil && strings.HasPrefix(state, "Z") {
				continue
			}
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	}
}

// descendants returns all processes that have the process as an ancestor.
func descendants(t *testing.T, ancestor int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended meanwhile
		}
		var pid, parent int
		var state string
		end := bytes.LastIndexByte(content, ')')
		if _, err := fmt.Sscan(string(content), &pid); err != nil {
			t.Fatalf("reading %s: %v", stat, err)
		}
		if _, err := fmt.Sscan(string(content[end+1:]), &state, &parent); err != nil {
			t.Fatalf("reading %s: %v", stat, err)
		}
		children[parent] = append(children[parent], pid)
	}
	var found []int
	for queue := children[ancestor]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}
