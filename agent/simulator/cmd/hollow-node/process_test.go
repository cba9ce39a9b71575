package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// process is a hollow-node with its directories.
type process struct {
	*cluster
	name    string
	dir     string
	port    string
	command *exec.Cmd
	// withoutEtc runs the process where /etc is empty, as in an image made from scratch.
	withoutEtc bool
}

const (
	bindAddress = "127.0.0.1"
	// nodeAddress is the address of the Node of a hollow-node on bindAddress.
	nodeAddress = "241.0.0.1"
)

func configurationOf(name string) contract.Configuration {
	return contract.Configuration{
		NodeName:   name,
		ProviderID: "hollow://c1/" + name,
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("3500m"),
			corev1.ResourceMemory:           resource.MustParse("16Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
			"example.com/gpu":               resource.MustParse("2"),
		},
		MaxPods: 42,
	}
}

// newProcess prepares a hollow-node without starting it.
func newProcess(t *testing.T, c *cluster, configuration contract.Configuration, token string) *process {
	t.Helper()
	p := &process{cluster: c, name: configuration.NodeName, dir: t.TempDir(), port: freePort(t)}
	for _, dir := range []string{p.configDir(), p.stateDir(), p.tempDir()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	data, err := contract.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.configDir(), contract.ConfigFileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	p.bootstrapKubeconfig(t, p.bootstrapPath(), token)
	return p
}

func (p *process) configDir() string { return filepath.Join(p.dir, "config") }
func (p *process) stateDir() string  { return filepath.Join(p.dir, "state") }
func (p *process) tempDir() string   { return filepath.Join(p.dir, "tmp") }
func (p *process) planPath() string  { return filepath.Join(p.dir, "plan.json") }
func (p *process) bootstrapPath() string {
	return filepath.Join(p.configDir(), contract.BootstrapKubeconfigFileName)
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", bindAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// arguments are the hollow-node's command line.
func (p *process) arguments() []string {
	return []string{"--config-dir", p.configDir(), "--state-dir", p.stateDir(), "--bind-address", bindAddress, "--health-port", p.port, "--kubelet-port", "0", "--disruptions-file", p.planPath()}
}

// start runs the hollow-node until the test ends, at the latest.
func (p *process) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	line := append([]string{binary(t, "hollow-node")}, p.arguments()...)
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.withoutEtc {
		line = append([]string{"/bin/sh", "-c", `mount -t tmpfs none /etc && exec "$0" "$@"`}, line...)
		attributes.Unshareflags = syscall.CLONE_NEWNS
	}
	p.command = exec.Command(line[0], line[1:]...)
	p.command.Dir = p.tempDir()
	p.command.Env = append(os.Environ(), "TMPDIR="+p.tempDir())
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = attributes
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			t.Logf("log of %s:\n%s", p.name, text)
		}
	})
}

// terminate sends SIGTERM and returns the exit code and how long the end took.
func (p *process) terminate(t *testing.T) (int, time.Duration) {
	t.Helper()
	began := time.Now()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := p.command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.command.ProcessState.ExitCode(), time.Since(began)
}

// awaitEnd waits until the process has ended by itself, and returns how.
func (p *process) awaitEnd(t *testing.T, limit time.Duration) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.command.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		t.Fatalf("the process has not ended within %s", limit)
		return nil
	}
}

// longOnly leaves the rest of a test to "make test-long": "make test" runs go test with -short.
func longOnly(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// probe gets a health path and returns its status code and text; 0 while nothing listens.
func (p *process) probe(path string) (int, string) {
	response, err := http.Get("http://" + net.JoinHostPort(bindAddress, p.port) + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func (p *process) expectProbe(path string, want int) error {
	if code, text := p.probe(path); code != want {
		return fmt.Errorf("%s: want %d, got %d: %s", path, want, code, text)
	}
	return nil
}

// requests returns the node's certificate signing requests.
func (p *process) requests(ctx context.Context) ([]certificatesv1.CertificateSigningRequest, error) {
	list, err := p.client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var own []certificatesv1.CertificateSigningRequest
	for _, request := range list.Items {
		if commonName(request) == "system:node:"+p.name {
			own = append(own, request)
		}
	}
	return own, nil
}

// approve waits for the node's request and approves it.
func (p *process) approve(t *testing.T) {
	t.Helper()
	p.decide(t, certificatesv1.CertificateApproved)
}

// decide waits for the node's request and approves or denies it.
func (p *process) decide(t *testing.T, decision certificatesv1.RequestConditionType) {
	t.Helper()
	eventually(t, "the certificate signing request is "+string(decision), time.Minute, func(ctx context.Context) error {
		own, err := p.requests(ctx)
		if err != nil {
			return err
		}
		if len(own) != 1 {
			return fmt.Errorf("want 1 request, got %d", len(own))
		}
		own[0].Status.Conditions = append(own[0].Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: decision, Status: corev1.ConditionTrue, Reason: "Test",
		})
		_, err = p.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, own[0].Name, &own[0], metav1.UpdateOptions{})
		return err
	})
}

func (p *process) node(ctx context.Context) (*corev1.Node, error) {
	return p.client.CoreV1().Nodes().Get(ctx, p.name, metav1.GetOptions{})
}

// readyNode waits until the Node is ready and returns it.
func (p *process) readyNode(t *testing.T) *corev1.Node {
	t.Helper()
	var ready *corev1.Node
	eventually(t, "the Node is ready", time.Minute, func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready = node
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", node.Status.Conditions)
	})
	return ready
}

// join starts the process, approves its request and returns its ready Node.
func (p *process) join(t *testing.T) *corev1.Node {
	t.Helper()
	p.start(t)
	p.approve(t)
	return p.readyNode(t)
}
