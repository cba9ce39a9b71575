package podhost_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

// patience is how long anything may take on a busy machine.
const patience = 8 * time.Minute

// cluster is the control plane that all tests of this package share.
type cluster struct {
	program string
	dataDir string
	client  kubernetes.Interface
	stop    func()
}

var shared struct {
	once sync.Once
	*cluster
	err error
}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	if filepath.Base(os.Args[0]) == program {
		os.Exit(runPack())
	}
	code := m.Run()
	if shared.cluster != nil {
		shared.cluster.stop()
	}
	os.Exit(code)
}

// theCluster starts the control plane when the first test needs it.
func theCluster(t *testing.T) *cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = startCluster() })
	if shared.err != nil {
		t.Fatalf("no control plane to test against: %v", shared.err)
	}
	return shared.cluster
}

func startCluster() (*cluster, error) {
	bin := os.Getenv("HOLLOWFLEET_BIN")
	if bin == "" {
		return nil, errors.New("HOLLOWFLEET_BIN is not set; it names the directory with the simcluster program, which \"make build\" fills")
	}
	program, err := filepath.Abs(filepath.Join(bin, "simcluster"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("HOLLOWFLEET_BIN has no simcluster program; \"make build\" makes it: %w", err)
	}
	dataDir, err := os.MkdirTemp("", "podhost-test-")
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	command := exec.Command(program, "start", "--name", "podhost-test", "--data-dir", dataDir,
		"--components", "etcd,kube-apiserver,kube-controller-manager,kube-scheduler")
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	c := &cluster{program: program, dataDir: dataDir, stop: func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			fmt.Fprintf(os.Stderr, "simcluster ended with: %v\n%s", err, output.String())
		}
		_ = os.RemoveAll(dataDir)
	}}
	deadline := time.After(2 * time.Minute)
	for {
		if _, err := os.Stat(filepath.Join(dataDir, "ready.json")); err == nil {
			break
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("simcluster ended: %w\n%s", err, output.String())
		case <-deadline:
			c.stop()
			return nil, fmt.Errorf("simcluster did not become ready:\n%s", output.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dataDir, "kubeconfigs", "admin.conf"))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	c.client, err = kubernetes.NewForConfig(config)
	return c, err
}

// identity makes a kubeconfig for a node.
func (c *cluster) identity(t *testing.T, node string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), node+".conf")
	output, err := exec.Command(c.program, "kubeconfig", "--data-dir", c.dataDir,
		"--user", "system:node:"+node, "--group", "system:nodes", "--out", file).CombinedOutput()
	if err != nil {
		t.Fatalf("making an identity for node %s: %v\n%s", node, err, output)
	}
	return file
}

// testHost is a podhost with a namespace for its test.
type testHost struct {
	*cluster
	t         *testing.T
	node      string
	namespace string
	options   podhost.Options
	stop      func() error
}

// startHost runs a podhost for one test, in this process. In its one image this test program is the hollow node.
func startHost(t *testing.T, adjust ...func(*podhost.Options)) *testHost {
	t.Helper()
	h := newTestHost(t)
	for _, a := range adjust {
		a(&h.options)
	}
	h.start()
	return h
}

// image is what an agent calls the image of a hollow node.
const image = "hollowfleet/hollow-node"

func imageDirectory(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := os.Symlink(self, filepath.Join(directory, program)); err != nil {
		t.Fatal(err)
	}
	return directory
}

// hosts counts the podhosts, so that a repeated test gets names of its own.
var hosts atomic.Int64

func newTestHost(t *testing.T) *testHost {
	t.Helper()
	c := theCluster(t)
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	name = fmt.Sprintf("%s-%d", strings.Trim(name[:min(len(name), 50)], "-"), hosts.Add(1))
	h := &testHost{cluster: c, t: t, node: name, namespace: name, options: podhost.Options{
		Name:          name,
		Kubeconfig:    c.identity(t, name),
		DataDir:       filepath.Join(t.TempDir(), "podhost"),
		HollowNodesOf: name,
		Images:        map[string]string{image: imageDirectory(t)},
		NodesPerPack:  3,
		FirstBackoff:  200 * time.Millisecond,
		LastBackoff:   time.Second,
		RefreshPeriod: 200 * time.Millisecond,
		ShutdownGrace: time.Second,
	}}
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	h.eventually("the namespace has its service account", func() error {
		_, err := c.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	t.Cleanup(func() {
		_, _ = podhost.Clean(h.options.DataDir)
		_ = c.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = c.client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return h
}

// start runs the podhost and waits until it is ready.
func (h *testHost) start() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	options := h.options
	options.Ready = func() { close(ready) }
	go func() { ended <- podhost.Run(ctx, options) }()
	h.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("the podhost did not end")
		}
	})
	h.t.Cleanup(func() {
		if err := h.stop(); err != nil {
			h.t.Errorf("the podhost ended with: %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		h.t.Fatalf("the podhost ended before it was ready: %v", err)
	case <-time.After(patience):
		h.t.Fatal("the podhost did not become ready")
	}
}

// apiServer starts or stops the API server.
func (h *testHost) apiServer(action string) {
	h.t.Helper()
	output, err := exec.Command(h.program, "component", action, "kube-apiserver", "--data-dir", h.dataDir).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", action, err, output)
	}
}

// eventually repeats a check until it succeeds.
func (h *testHost) eventually(what string, check func() error) {
	h.t.Helper()
	eventually(h.t, what, check)
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(25 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("not in time: %s: %v", what, err)
}
