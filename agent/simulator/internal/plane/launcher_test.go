package plane_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/testlog"
)

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// here runs the planes in the process of the tests.
type here struct{}

func (here) Dir() string { return "the process of the tests" }

func (here) KillWait() time.Duration { return patience }

func (here) Launch(_ context.Context, cluster, component string, args []string, log io.Writer) (controlplane.SharedRun, error) {
	return plane.Start(plane.Component{Cluster: cluster, Name: component, Args: args, Log: log})
}

// cluster is a cluster in the process of the tests.
type cluster struct {
	name, dir string
	stop      context.CancelFunc
	ended     chan error
	progress  *testlog.Buffer
}

// begin starts a cluster without waiting. The flags are for its API server.
func begin(t *testing.T, name, dir string, ready func(), flags ...string) *cluster {
	t.Helper()
	if err := plane.Setup(""); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster{name: name, dir: dir, stop: stop, ended: make(chan error, 1), progress: &testlog.Buffer{}}
	go func() {
		c.ended <- controlplane.Run(ctx, controlplane.Options{
			Name: name, DataDir: dir, Shared: here{}, Ready: ready, Progress: c.progress, ReadyTimeout: patience,
			ExtraArgs: map[string][]string{controlplane.APIServer: flags, controlplane.Podhost: {`options={"HollowNodesOf":"hollowfleet"}`}},
		})
	}()
	return c
}

// start starts a cluster and waits until it is ready.
func start(t *testing.T, name, dir string, flags ...string) *cluster {
	t.Helper()
	ready := make(chan struct{})
	c := begin(t, name, dir, func() { close(ready) }, flags...)
	select {
	case <-ready:
	case err := <-c.ended:
		t.Fatalf("%s ended: %v\n%s", name, err, c.progress)
	case <-time.After(patience):
		t.Fatalf("%s is not ready after %s:\n%s", name, patience, c.progress)
	}
	return c
}

// end stops the cluster and waits until it has.
func (c *cluster) end(t *testing.T) {
	t.Helper()
	c.stop()
	select {
	case err := <-c.ended:
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, c.progress)
		}
	case <-time.After(patience):
		t.Fatalf("%s has not stopped after %s:\n%s", c.name, patience, c.progress)
	}
}

func (c *cluster) config(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfigs", "admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

func (c *cluster) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	return kubernetes.NewForConfigOrDie(c.config(t))
}

// shortDir is a directory whose sockets have short paths.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plane") //nolint:usetesting // The path of a test's own directory is too long for a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startAll starts that many clusters at once, p1, p2 and so on.
func startAll(t *testing.T, count int) []*cluster {
	t.Helper()
	dir := shortDir(t)
	clusters := make([]*cluster, count)
	ready := make(chan struct{}, count)
	for i := range clusters {
		name := fmt.Sprintf("p%d", i+1)
		clusters[i] = begin(t, name, filepath.Join(dir, name), func() { ready <- struct{}{} })
	}
	deadline := time.After(patience)
	for range clusters {
		select {
		case <-ready:
		case <-deadline:
			for _, c := range clusters {
				t.Log(c.progress)
			}
			t.Fatalf("the clusters are not ready after %s", patience)
		}
	}
	return clusters
}
