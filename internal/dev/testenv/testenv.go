// Package testenv gives tests a real API server, run by the simcluster program.
package testenv

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/repository"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// StartTimeout bounds the start of one control plane, generously: tests of several packages start theirs at
// the same time.
const StartTimeout = 8 * time.Minute

// BinDir is the directory of the built programs: $HOLLOWFLEET_BIN, else bin in the repository's root.
func BinDir() (string, error) {
	if dir := os.Getenv("HOLLOWFLEET_BIN"); dir != "" {
		return dir, nil
	}
	root, err := repository.FindRoot()
	if err != nil {
		return "", fmt.Errorf("looking for the built programs: set HOLLOWFLEET_BIN to the directory that make build fills: %w", err)
	}
	return filepath.Join(root, "bin"), nil
}

// Binary is the path of one built program. One that is not there is an error that says how to build it.
func Binary(name string) (string, error) {
	dir, err := BinDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("program %s is not built: run make build (%w)", name, err)
	}
	return path, nil
}

// Environment is a control plane with Hollowfleet's kinds installed.
type Environment struct {
	Cluster *process.Cluster
	// Config is the administrator's client configuration, without rate limits.
	Config *rest.Config
	// Client is the administrator's uncached client.
	Client client.Client

	binary, dir string
	// shared: others use the control plane too, and it is not this process that ends it.
	shared bool
}

// sharedServer is an environment variable with the data directory of a control plane for packages that leave each other alone.
// hack/test.sh sets it and starts the control plane.
const sharedServer = "HOLLOWFLEET_SHARED_SERVER"

// Share is Start for a package whose tests leave others alone: they work in namespaces and with names of their own, change no
// definition of a kind and no role, expect nothing of Nodes that are not theirs, and start no manager that watches every namespace.
// Where hack/test.sh has a control plane for all such packages, it is that one: a start costs six seconds of a processor, often more
// than the tests.
func Share(ctx context.Context) (*Environment, error) {
	dir := os.Getenv(sharedServer)
	if dir == "" {
		return Start(ctx)
	}
	binary, err := Binary("simcluster")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	environment := &Environment{binary: binary, dir: filepath.Dir(dir), shared: true}
	if environment.Cluster, err = process.FindCluster(ctx, process.ClusterOptions{Name: "test", Dir: dir, Binary: binary}); err != nil {
		return nil, err
	}
	if err := environment.connect(); err != nil {
		return nil, err
	}
	return environment, environment.installKindsOnce(ctx)
}

// installKindsOnce installs the kinds if no other process has, which is noted in a file that only one has locked.
func (e *Environment) installKindsOnce(ctx context.Context) error {
	note, err := os.OpenFile(filepath.Join(e.dir, "kinds"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("noting that kinds are installed: %w", err)
	}
	defer note.Close() // Which unlocks it.
	if err := syscall.Flock(int(note.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", note.Name(), err)
	}
	if info, err := note.Stat(); err != nil || info.Size() > 0 {
		return err
	}
	if err := config.InstallCRDs(ctx, e.Client, config.CRDs, "crd"); err != nil {
		return err
	}
	if err := e.restartCollector(ctx); err != nil {
		return err
	}
	_, err = note.WriteString("installed\n")
	return err
}

// AwareCollector returns when the garbage collector knows Hollowfleet's kinds, or is about to: it looks only every 30 seconds which kinds
// there are. That of a shared control plane has been started since they were installed.
func (e *Environment) AwareCollector(ctx context.Context) error {
	if e.shared {
		return nil
	}
	return e.restartCollector(ctx)
}

func (e *Environment) restartCollector(ctx context.Context) error {
	const collector = "kube-controller-manager"
	return errors.Join(e.Cluster.Component(ctx, "stop", collector), e.Cluster.Component(ctx, "start", collector))
}

// sharedGroup is an environment variable with the directory of a group of control planes that share a process. hack/test.sh sets it and
// starts the group.
const sharedGroup = "HOLLOWFLEET_SHARED_GROUP"

// Start starts a control plane without scheduler and podhost, which are of no use to controllers of the hub. Args are for the program
// simcluster. The caller must Stop it. Where hack/test.sh has a group for control planes, it is one of that.
func Start(ctx context.Context, args ...string) (*Environment, error) {
	binary, err := Binary("simcluster")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "hollowfleet-test-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the control plane: %w", err)
	}
	environment := &Environment{binary: binary, dir: dir}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	// A group wants a name for each.
	name, group := "test", (*process.Group)(nil)
	if dir := os.Getenv(sharedGroup); dir != "" {
		name, group = filepath.Base(environment.dir), process.FindGroup(dir)
	}
	environment.Cluster, err = process.StartCluster(ctx, process.ClusterOptions{
		Name: name, Group: group, Dir: environment.dataDirectory(), Binary: binary, Components: process.HubComponents,
		LogFile: filepath.Join(dir, "simcluster.log"), KubeconfigDir: filepath.Join(dir, "kubeconfigs"),
		// Nodes that a test makes have no kubelet. The node controller would note their silence, and the time before a test makes them
		// ready: it makes pods unready on a Node that was not ready when it last looked.
		Args: append([]string{"--controller-manager-arg", "node-monitor-period=1h"}, args...),
	})
	if err != nil {
		return nil, errors.Join(err, environment.removeDirectory()) //nolint:contextcheck // What ended ctx must not keep the files.
	}
	if err := environment.connect(); err != nil {
		return nil, errors.Join(err, environment.Stop()) //nolint:contextcheck // What ended ctx must not keep it running.
	}
	if err := config.InstallCRDs(ctx, environment.Client, config.CRDs, "crd"); err != nil {
		return nil, errors.Join(err, environment.Stop()) //nolint:contextcheck // What ended ctx must not keep it running.
	}
	return environment, nil
}

// connect makes the administrator's clients.
func (e *Environment) connect() error {
	var err error
	if e.Config, err = e.Cluster.RESTConfig(); err != nil {
		return err
	}
	if e.Client, err = client.New(e.Config, client.Options{Scheme: scheme.New()}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// dataDirectory is the data directory of the control plane.
func (e *Environment) dataDirectory() string { return filepath.Join(e.dir, "data") }

// Stop ends the control plane and removes its data, unless others use it too.
func (e *Environment) Stop() error {
	if e.shared {
		return nil
	}
	return errors.Join(e.Cluster.Stop(), e.removeDirectory())
}

// removeDirectory removes the directory that Start made for itself alone, under a name that nothing else had.
func (e *Environment) removeDirectory() error {
	ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
	defer cancel()
	return errors.Join(process.DeleteCluster(ctx, e.binary, e.dataDirectory()), os.RemoveAll(e.dir))
}

// Long leaves the rest of a test to "make test-long": "make test" runs go test with -short.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// FreeAddress returns an address of this machine, with a port on which no process listens. It stays free until its user
// listens there: a port that is free on 127.0.0.1 goes to whatever process connects somewhere next, but nothing else is
// likely to be on an address that was drawn from all of 127.0.0.0/8.
func FreeAddress() (string, error) {
	host := net.IPv4(127, byte(rand.IntN(256)), byte(rand.IntN(256)), byte(2+rand.IntN(253)))
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: host})
	if err != nil {
		return "", fmt.Errorf("looking for a free port on %s: %w", host, err)
	}
	return listener.Addr().String(), listener.Close()
}

// Poll is how often an Eventually asks the API server. Gomega's default of 10 ms keeps it busy with nothing else.
const Poll = 100 * time.Millisecond

var server func() *Environment

// Server is the API server of a package whose TestMain calls a Main of this one. The first call starts it.
func Server() *Environment { return server() }

// Main is the body of a TestMain: it runs a package's tests against one API server, started with args.
func Main(m *testing.M, args ...string) {
	runTests(m, func() (*Environment, error) { return Start(context.Background(), args...) })
}

// MainParallel is Main for a package that runs so many tests side by side, because they wait more than they work.
func MainParallel(m *testing.M, tests int) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	Main(m)
}

// MainShared is Main for a package that may share its API server with others, see Share.
func MainShared(m *testing.M) {
	runTests(m, func() (*Environment, error) { return Share(context.Background()) })
}

func runTests(m *testing.M, start func() (*Environment, error)) {
	gomega.SetDefaultEventuallyPollingInterval(Poll)
	var started *Environment
	server = sync.OnceValue(func() *Environment {
		var err error
		if started, err = start(); err != nil {
			panic(fmt.Errorf("starting the API server: %w", err))
		}
		return started
	})
	code := m.Run()
	if started != nil {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// ProcessesUnder lists the processes of this machine whose command line names dir: what a test left behind.
func ProcessesUnder(dir string) []string {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(dir)) {
			continue // Ended, or another's.
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() {
			found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(content, []byte{0}, []byte{' '})))
		}
	}
	return found
}
