package script

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// RealName is the name of the real node's side.
const RealName = "kind"

// Side is one of the two nodes.
type Side struct {
	Name string
	// Kubectl is the path of the program, and Kubeconfig of the file with which it reaches the cluster.
	Kubectl, Kubeconfig string
	Config              *rest.Config
	Client              kubernetes.Interface
	// Node is the node of the script. Pressed is another one of the same cluster, whose kubelet has MemoryPressure by its configuration.
	Node, Pressed string
	Machine       Machine
}

// Machine breaks what Side.Node runs on. Each break returns when it happened, and what mends it.
type Machine interface {
	// RestartKubelet starts the kubelet again, and leaves the containers.
	RestartKubelet(ctx context.Context) (at time.Time, err error)
	// RestartKubeletIn plans that for later, and returns what waits for it. It works without a Node.
	RestartKubeletIn(ctx context.Context, after time.Duration) (at time.Time, await func(context.Context) error, err error)
	// StopRuntime lets the kubelet find its container runtime dead.
	StopRuntime(ctx context.Context) (at time.Time, mend func(context.Context) error, err error)
	// CutOff keeps the kubelet from the API server.
	CutOff(ctx context.Context) (at time.Time, mend func(context.Context) error, err error)
}

// Image is what pods run: the program test/fidelity/workload on the real node, nothing on the hollow one.
const Image = "hollowfleet.io/fidelity-workload:v1"

const (
	pollEvery = 50 * time.Millisecond
	// patience is how long a step waits for anything.
	patience = 2 * time.Minute
	app      = "/workload"
)

// kubectl runs the program, for what has no other client.
func (s *Side) kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, s.Kubectl, append([]string{"--kubeconfig", s.Kubeconfig}, args...)...).CombinedOutput()
	return string(output), err
}

// eventually waits until done is true. What it waits for is in the error.
func eventually(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		var finished bool
		finished, last = done(ctx)
		return finished && last == nil, nil // An API server may fail once.
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w (%v)", what, err, last) //nolint:errorlint // The wait ended for a reason of its own.
	}
	return nil
}

// sleep lets time pass in which something is observed.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// node reads the side's node.
func (s *Side) node(ctx context.Context) (*corev1.Node, error) {
	return s.Client.CoreV1().Nodes().Get(ctx, s.Node, metav1.GetOptions{})
}

// address is where the node's kubelet listens: at its InternalDNS if it has one, as an API server finds it that prefers that. On the machine
// of a local fleet this is a loopback address, and the InternalIP one that nothing has.
func (s *Side) address(ctx context.Context) (string, error) {
	node, err := s.node(ctx)
	if err != nil {
		return "", err
	}
	host := ""
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalDNS || address.Type == corev1.NodeInternalIP && host == "" {
			host = address.Address
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))), nil
}

// get reads a path of the node's kubelet, as metrics-server and Prometheus do. An API server would not lead to a loopback address.
func (s *Side) get(ctx context.Context, path string) (string, error) {
	address, err := s.address(ctx)
	if err != nil {
		return "", err
	}
	config := rest.CopyConfig(s.Config)
	config.CAData, config.CAFile, config.Insecure = nil, "", true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/"+path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return string(body), err
}
