package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/component"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/group"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/idle"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// runComponent runs one component as this process and returns its exit code.
func runComponent(name string, args []string) int {
	isHost := name == group.HostComponent || name == group.PodhostsComponent
	if !isHost && os.Getenv("GOGC") == "" {
		growth := idle.OfComponent
		if name == controlplane.Podhost {
			growth = idle.OfPodhost
		}
		idle.FollowAllocation(growth)
	}
	go idle.FollowLoad()
	var err error
	switch {
	case name == controlplane.Podhost:
		err = runPodhost(args)
	case isHost:
		err = group.RunHost(name, args)
	default:
		return component.Run(name, args, os.Stderr)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return exitCode(err)
}

// defaultPodhostNamespace is where agents have their hollow-node pods.
const defaultPodhostNamespace = "hollowfleet"

// defaultNodesPerPack saves most of what can be saved: each node costs the same from then on, and a panic ends no more nodes than that.
const defaultNodesPerPack = 25

// podhostArgs are the arguments of the podhost that come from the command line
// of a start. They are checked here, so that a mistake is one of usage.
func podhostArgs(images []string, capacity, namespace string, nodesPerPack int) ([]string, error) {
	options := podhost.Options{HollowNodesOf: namespace, NodesPerPack: nodesPerPack}
	var err error
	if options.Images, err = parseImages(images); err != nil {
		return nil, err
	}
	if options.Capacity, err = parseCapacity(capacity); err != nil {
		return nil, err
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return nil, usageError(fmt.Errorf("--podhost-namespace: %q: %s", namespace, problems[0]))
	}
	if nodesPerPack < 1 {
		return nil, usageError(fmt.Errorf("--nodes-per-pack: want at least 1, got %d", nodesPerPack))
	}
	text, err := json.Marshal(options)
	return []string{"options=" + string(text)}, err
}

// runPodhost runs a podhost until SIGTERM or SIGINT. It is a process of its
// own, so that nothing that goes wrong in it can end the control plane.
func runPodhost(args []string) error {
	options, socket, err := plane.ParsePodhost(args)
	if err != nil {
		return usageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if options.Ready, err = serveReadiness(socket); err != nil {
		return err
	}
	return podhost.Run(ctx, options)
}

// serveReadiness answers on the socket, with an error until the returned
// function is called. It serves until the process ends.
func serveReadiness(socket string) (ready func(), err error) {
	// A podhost that was killed has left its own.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("serving health: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serving health: %w", err)
	}
	var registered atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+controlplane.PodhostReadyPath, func(writer http.ResponseWriter, _ *http.Request) {
		if !registered.Load() {
			http.Error(writer, "the node is not registered yet", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) //nolint:errcheck // it serves until the process ends
	return func() { registered.Store(true) }, nil
}

// parseImages reads NAME=DIR pairs.
func parseImages(pairs []string) (map[string]string, error) {
	images := map[string]string{}
	for _, pair := range pairs {
		name, dir, ok := strings.Cut(pair, "=")
		if !ok || name == "" || dir == "" {
			return nil, usageError(fmt.Errorf("--image=%q is not NAME=DIR", pair))
		}
		if _, twice := images[name]; twice {
			return nil, usageError(fmt.Errorf("--image=%q: the image is there twice", pair))
		}
		absolute, err := existingDir(dir)
		if err != nil {
			return nil, usageError(fmt.Errorf("--image=%q: %w", pair, err))
		}
		images[name] = absolute
	}
	return images, nil
}

func existingDir(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(absolute)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	return absolute, err
}

// parseCapacity reads a list such as cpu=4,memory=8Gi,pods=110. An empty text
// is an empty list.
func parseCapacity(text string) (corev1.ResourceList, error) {
	if text == "" {
		return nil, nil
	}
	capacity := corev1.ResourceList{}
	for pair := range strings.SplitSeq(text, ",") {
		name, amount, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError(fmt.Errorf("--podhost-capacity: %q is not resource=amount", pair))
		}
		quantity, err := v1alpha1.DecodeQuantity([]byte(amount))
		if err != nil {
			return nil, usageError(fmt.Errorf("--podhost-capacity: %q: %w", pair, err))
		}
		if quantity.Sign() < 0 {
			return nil, usageError(fmt.Errorf("--podhost-capacity: %q is negative", pair))
		}
		capacity[corev1.ResourceName(name)] = quantity
	}
	return capacity, nil
}
