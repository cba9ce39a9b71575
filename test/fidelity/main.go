// Command fidelity runs one script of node and pod events on a kind node and on a hollow node, and prints what differs. make fidelity
// builds what it needs and calls it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/fidelity/script"
)

// errDiffers is that a figure differs, and no step declares it.
var errDiffers = errors.New("the nodes differ in what the script does not declare")

type options struct {
	kubeconfig, node, pressed, docker, devicePlugin, kubectl, binDir, out, only string
}

func main() {
	log.SetLogger(logr.Discard())
	defaultBin, _ := testenv.BinDir() // No default then; starting a program says what is missing.
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the kind cluster; without one the hollow node runs alone, and its figures are printed")
	flag.StringVar(&o.node, "node", "", "worker of the kind cluster, also the name of its container")
	flag.StringVar(&o.pressed, "pressed", "", "another worker, whose kubelet has MemoryPressure by its configuration")
	flag.StringVar(&o.docker, "docker", "docker", "program with which the worker's container is reached")
	flag.StringVar(&o.devicePlugin, "device-plugin", "", "program of the device plugin of the kind node")
	flag.StringVar(&o.kubectl, "kubectl", "kubectl", "kubectl")
	flag.StringVar(&o.binDir, "bin-dir", defaultBin, "directory with the built programs")
	flag.StringVar(&o.out, "out", "", "directory for the recordings of both sides; default none")
	flag.StringVar(&o.only, "only", "", "names of steps, with commas; default all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// chooseSteps are the steps of --only.
func (o options) chooseSteps() ([]*script.Step, error) {
	all := script.Steps()
	if o.only == "" {
		return all, nil
	}
	names := strings.Split(o.only, ",")
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s *script.Step) bool { return s.Name == name }) {
			return nil, fmt.Errorf("--only: the script has no step %q", name)
		}
	}
	return slices.DeleteFunc(all, func(s *script.Step) bool { return !slices.Contains(names, s.Name) }), nil
}

func (o options) run(ctx context.Context) (err error) {
	steps, err := o.chooseSteps()
	if err != nil {
		return err
	}
	hollow, remove, err := startHollow(ctx, o.binDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	hollow.Kubectl = o.kubectl
	sides := []*script.Side{hollow}
	if o.kubeconfig != "" {
		kind, err := o.kindSide(ctx)
		if err != nil {
			return err
		}
		sides = append(sides, kind)
	}
	recordings := make([]script.Recording, len(sides))
	var group errgroup.Group
	for i, side := range sides {
		group.Go(func() error {
			recordings[i] = script.Play(ctx, side, steps, func(line string) { fmt.Fprintln(os.Stderr, line) })
			return o.saveRecording(side.Name, recordings[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if len(sides) == 1 {
		return json.NewEncoder(os.Stdout).Encode(recordings[0])
	}
	compared := script.CompareAll(steps, recordings[1], recordings[0])
	if err := script.WriteTable(os.Stdout, compared); err != nil {
		return err
	}
	if script.Undeclared(compared) > 0 {
		return errDiffers
	}
	return nil
}

// saveRecording writes a recording to a file.
func (o options) saveRecording(name string, recording script.Recording) error {
	if o.out == "" {
		return nil
	}
	text, err := json.MarshalIndent(recording, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, name+".json"), text, 0o600)
}

func (o options) kindSide(ctx context.Context) (*script.Side, error) {
	side, err := sideOf(script.RealName, o.kubeconfig)
	if err != nil {
		return nil, err
	}
	node := &container{docker: o.docker, name: o.node}
	side.Kubectl, side.Node, side.Pressed, side.Machine = o.kubectl, o.node, o.pressed, node
	if err := node.putStaticPod(ctx, script.StaticPod()); err != nil {
		return nil, err
	}
	return side, node.startDevicePlugin(ctx, o.devicePlugin)
}

func sideOf(name, kubeconfig string) (*script.Side, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return &script.Side{Name: name, Kubeconfig: kubeconfig, Config: config, Client: client}, err
}
