package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	// peerStopGrace is how long a peer may take to end after SIGTERM, peerReadyTimeout until its nodes are Ready.
	peerStopGrace    = 10 * time.Second
	peerReadyTimeout = 3 * time.Minute
)

// peerFigures are what another simulator takes, run unmodified against one of our control planes.
type peerFigures struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Nodes is how many nodes it simulates, and Processes in how many processes.
	Nodes     int `json:"nodes"`
	Processes int `json:"processes"`
	// Total is what all its processes take at rest, Node what one node takes of it.
	Total cost `json:"total,omitzero"`
	Node  cost `json:"node,omitzero"`
	// NotMeasured says why it was not measured.
	NotMeasured string `json:"notMeasured,omitempty"`
}

// peer is another simulator.
type peer struct {
	peerFigures
	// program is its path, module the one that tells its version.
	program, module string
	// start starts its processes, and run is what they are started with.
	start func(ctx context.Context, run peerRun) ([]*process.Process, error)
	// isIsolated is that it needs a network of its own.
	isIsolated bool
}

// peerRun is what the processes of a peer are started with.
type peerRun struct {
	peer
	// dir takes what they write, kubeconfig is that of the control plane's administrator.
	dir, kubeconfig string
	client          client.Client
}

// listPeers are those there are.
func listPeers(opts scaleOptions) []peer {
	return []peer{
		{peerFigures: peerFigures{Name: rowKwok, Nodes: opts.kwokNodes}, program: opts.kwok, module: "sigs.k8s.io/kwok", start: startKwok},
		{peerFigures: peerFigures{Name: rowKubemark, Nodes: opts.kubemarkNodes}, program: opts.kubemark, module: "k8s.io/kubernetes", start: startKubemark, isIsolated: true},
	}
}

func (p peer) measureOrSayWhy(ctx context.Context, opts options) peerFigures {
	measure := p.measurePeer
	if p.isIsolated {
		measure = p.measureIsolated
	}
	figures, err := measure(ctx, opts)
	if err != nil {
		figures = p.peerFigures
		figures.NotMeasured = err.Error()
	}
	return figures
}

// measurePeer starts a control plane and the peer, waits until all nodes are Ready, measures it at rest, and ends both.
func (p peer) measurePeer(ctx context.Context, opts options) (figures peerFigures, err error) {
	if p.Version, err = p.readVersion(); err != nil {
		return p.peerFigures, err
	}
	dir, err := os.MkdirTemp("", "hollowfleet-bench-")
	if err != nil {
		return p.peerFigures, fmt.Errorf("making a directory for %s: %w", p.Name, err)
	}
	defer os.RemoveAll(dir)
	plane, err := process.StartCluster(ctx, process.ClusterOptions{
		Name: p.Name, Dir: filepath.Join(dir, "plane"), LogFile: filepath.Join(dir, "plane.log"), KubeconfigDir: dir, Binary: filepath.Join(opts.binDir, "simcluster"),
		Components: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"},
	})
	if err != nil {
		return p.peerFigures, err
	}
	defer func() {
		err = errors.Join(err, plane.Stop(), process.DeleteCluster(context.WithoutCancel(ctx), filepath.Join(opts.binDir, "simcluster"), plane.Dir()))
	}()
	config, err := plane.RESTConfig()
	if err != nil {
		return p.peerFigures, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return p.peerFigures, fmt.Errorf("making a client of the control plane: %w", err)
	}
	running, err := p.start(ctx, peerRun{peer: p, dir: dir, kubeconfig: plane.AdminKubeconfig(), client: c})
	defer func() {
		for _, one := range running {
			err = errors.Join(err, one.Stop(peerStopGrace))
		}
	}()
	if err != nil {
		return p.peerFigures, err
	}
	return p.measureRunning(ctx, opts, c, running)
}

func (p peer) measureRunning(ctx context.Context, opts options, c client.Client, running []*process.Process) (peerFigures, error) {
	figures := p.peerFigures
	if err := awaitNodes(ctx, c, p.Nodes, running[0]); err != nil {
		return figures, err
	}
	roles := map[int]string{}
	for _, one := range running {
		roles[one.PID()] = p.Name
	}
	sums, err := measureRest(ctx, opts, func() map[int]usage { return readUsages(roles) })
	if err != nil {
		return figures, err
	}
	for _, one := range running {
		if isDone(one) {
			return figures, fmt.Errorf("%s ended:\n%s", one.Name(), process.Tail(one.LogFile(), 15))
		}
	}
	figures.Processes, figures.Total, figures.Node = len(running), sums[p.Name], sums[p.Name].dividedBy(p.Nodes)
	return figures, nil
}

func isDone(p *process.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// awaitNodes waits until so many nodes are Ready.
func awaitNodes(ctx context.Context, c client.Client, want int, first *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, peerReadyTimeout)
	defer cancel()
	return first.Wait(ctx, poll, func(ctx context.Context) (bool, error) {
		nodes, ready := &corev1.NodeList{}, 0
		if err := c.List(ctx, nodes); err != nil {
			return false, fmt.Errorf("listing nodes: %w", err)
		}
		for i := range nodes.Items {
			for _, condition := range nodes.Items[i].Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready < want {
			return false, fmt.Errorf("%d of %d nodes are Ready", ready, want)
		}
		return true, nil
	})
}

// readVersion reads the version of the module from the program.
func (p peer) readVersion() (string, error) {
	info, err := buildinfo.ReadFile(p.program)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", p.Name, err)
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == p.module {
			return module.Version, nil
		}
	}
	return "", fmt.Errorf("%s has no module %s: is it %s?", p.program, p.module, p.Name)
}

// startKwok makes the nodes, and starts kwok with the stages of its own release with which kwokctl starts it.
func startKwok(ctx context.Context, run peerRun) ([]*process.Process, error) {
	stages, err := kwokStages(ctx, run.Version)
	if err != nil {
		return nil, err
	}
	for i := range run.Nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("kwok-node-%d", i), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}, Labels: map[string]string{"type": "kwok"},
		}}
		if err := run.client.Create(ctx, node); err != nil {
			return nil, fmt.Errorf("creating a node for kwok: %w", err)
		}
	}
	args := []string{"--kubeconfig=" + run.kubeconfig, "--manage-all-nodes=true", "--server-address=127.0.0.1:0"}
	for _, stage := range stages {
		args = append(args, "--config="+stage)
	}
	one, err := process.Start(process.Spec{Name: rowKwok, Path: run.program, Args: args, LogFile: filepath.Join(run.dir, "kwok.log"), Env: []string{"HOME=" + run.dir}})
	return []*process.Process{one}, err
}

// kwokStages are the files of a release that say how nodes with leases, and pods, behave.
func kwokStages(ctx context.Context, version string) ([]string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", "sigs.k8s.io/kwok@"+version)
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading the stages of kwok %s: %w: %s", version, err, output)
	}
	module := struct{ Dir string }{}
	if err := json.Unmarshal(output, &module); err != nil {
		return nil, fmt.Errorf("reading where the stages of kwok %s are: %w", version, err)
	}
	var stages []string
	for _, directory := range []string{"node/fast", "node/heartbeat-with-lease", "pod/fast"} {
		found, err := filepath.Glob(filepath.Join(module.Dir, "kustomize/stage", directory, "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("looking for the stages of kwok: %w", err)
		}
		for _, file := range found {
			if !strings.HasPrefix(filepath.Base(file), "kustomization") {
				stages = append(stages, file)
			}
		}
	}
	if len(stages) < 3 {
		return nil, fmt.Errorf("kwok %s has its stages elsewhere", version)
	}
	return stages, nil
}

// startKubemark starts a process for each node. The names of the nodes are addresses: kubemark would look up others.
func startKubemark(_ context.Context, run peerRun) (running []*process.Process, err error) {
	for i := range run.Nodes {
		name := fmt.Sprintf("192.0.2.%d", i+1)
		one, err := process.Start(process.Spec{
			Name: "kubemark " + name, Path: run.program, LogFile: filepath.Join(run.dir, name+".log"), Env: []string{"TMPDIR=" + run.dir},
			Args: []string{
				"--morph=kubelet", "--name=" + name, "--kubeconfig=" + run.kubeconfig, "--kubelet-read-only-port=0", fmt.Sprintf("--kubelet-port=%d", 10250+i),
				"--use-host-image-service=false",
			},
		})
		if err != nil {
			return running, err
		}
		running = append(running, one)
	}
	return running, nil
}

// measureIsolated measures in a process of this program that has a network of its own.
func (p peer) measureIsolated(ctx context.Context, opts options) (peerFigures, error) {
	figures, problem := p.peerFigures, &bytes.Buffer{}
	command := exec.CommandContext(ctx, "/proc/self/exe", isolatedPeer, p.Name, p.program, strconv.Itoa(p.Nodes),
		"--settle="+opts.settle.String(), "--rest="+opts.rest.String(), "--bin-dir="+opts.binDir)
	isolateNetwork(command)
	command.Stderr = problem
	output, err := command.Output()
	if err != nil {
		return figures, fmt.Errorf("measuring %s in a network of its own: %w: %s", p.Name, err, strings.TrimSpace(problem.String()))
	}
	if err := json.Unmarshal(output, &figures); err != nil {
		return figures, fmt.Errorf("reading what was measured of %s: %w", p.Name, err)
	}
	return figures, nil
}
