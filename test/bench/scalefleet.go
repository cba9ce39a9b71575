package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// upFleet is a fleet that "local up" has started.
type upFleet struct {
	report  localfleet.Report
	seconds float64
}

// upFlags are the flags of "local up" for the mode.
func (m scaleMode) upFlags() []string {
	flags := []string{"--isolation", string(m.programs.Isolation), "--nodes-per-pack", strconv.Itoa(m.programs.NodesPerPack)}
	if m.programs.Heartbeats != "" {
		flags = append(flags, "--heartbeats", string(m.programs.Heartbeats))
	}
	return flags
}

// withFleet starts a fleet, measures it, and ends it.
func withFleet(ctx context.Context, opts scaleOptions, mode scaleMode, clusters, machines int, measure func(context.Context, *upFleet) error) (err error) {
	dir, err := os.MkdirTemp("", "hollowfleet-bench-")
	if err != nil {
		return fmt.Errorf("making a directory for the fleet: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("opening the fleet's directory: %w", err)
	}
	hollow := func(ctx context.Context, args ...string) ([]byte, error) {
		var problem bytes.Buffer
		command := exec.CommandContext(ctx, filepath.Join(opts.binDir, "kubectl-hollow"), append([]string{"local"}, args...)...)
		command.Stderr = io.MultiWriter(&problem, opts.progress)
		output, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("kubectl hollow local %s: %w: %s", args[0], err, strings.TrimSpace(problem.String()))
		}
		return output, nil
	}
	defer func() {
		_, downErr := hollow(context.WithoutCancel(ctx), "down", "--dir", dir)
		// A fleet that ended has taken its directory with it; what is left in one that did not is not touched.
		if removeErr := os.Remove(dir); !errors.Is(removeErr, fs.ErrNotExist) {
			downErr = errors.Join(downErr, removeErr)
		}
		err = errors.Join(err, downErr)
	}()
	args := append([]string{
		"up", "--dir", dir, "--temporary-dir", "--bin-dir", opts.binDir, "--while-pid", strconv.Itoa(os.Getpid()), "-o", "json",
		"--clusters", strconv.Itoa(clusters), "--machines", strconv.Itoa(machines),
	}, mode.upFlags()...)
	begin := time.Now()
	output, err := hollow(ctx, args...)
	if err != nil {
		return err
	}
	fleet := &upFleet{seconds: time.Since(begin).Seconds()}
	if err := json.Unmarshal(output, &fleet.report); err != nil {
		return fmt.Errorf("reading what kubectl hollow local up printed: %w", err)
	}
	return measure(ctx, fleet)
}

// The sides of a fleet. What is neither is in sideAll only: the hub, its control plane, agents and the keeper.
const (
	sidePlane = "plane"
	sideNode  = "node"
	sideAll   = "all"
)

// mapSides returns the processes of the fleet, with the side of each.
func (f *upFleet) mapSides() map[int]string {
	found := map[int]string{}
	for _, running := range f.report.Processes { // The keeper is the first.
		switch {
		case running.Name == localfleet.KeeperName:
			for _, pid := range process.Descendants(running.PID) {
				found[pid] = sidePlane
				if process.Program(pid) == "hollow-node" {
					found[pid] = sideNode
				}
			}
			found[running.PID] = sideAll
		case running.Name == "hub", running.Name == "cluster hub", strings.HasPrefix(running.Name, "agent "):
			for _, pid := range append(process.Descendants(running.PID), running.PID) {
				found[pid] = sideAll
			}
		}
	}
	return found
}

// readUsage reads every process of the fleet, with its side as its role.
func (f *upFleet) readUsage() map[int]usage { return readUsages(f.mapSides()) }

// readUsages reads processes by their roles. One that has ended is left out.
func readUsages(roles map[int]string) map[int]usage {
	found := map[int]usage{}
	for pid, role := range roles {
		if one, err := readUsage(pid, role); err == nil {
			found[pid] = one
		}
	}
	return found
}

// measureRest measures processes at rest, and sums them up by their roles and in sideAll.
func measureRest(ctx context.Context, opts options, read func() map[int]usage) (map[string]cost, error) {
	if err := sleep(ctx, opts.settle); err != nil {
		return nil, err
	}
	begin, before := time.Now(), read()
	if err := sleep(ctx, opts.rest); err != nil {
		return nil, err
	}
	after, minutes := read(), time.Since(begin).Minutes()
	sums := map[string]cost{}
	for pid, now := range after {
		one := cost{AnonymousMiB: now.anonymousKiB / 1024, PrivateMiB: now.privateKB / 1024}
		if earlier, ok := before[pid]; ok {
			one.CPUSecondsPerMinute = (now.cpuSeconds - earlier.cpuSeconds) / minutes
		}
		for _, side := range slices.Compact([]string{now.role, sideAll}) {
			sum := sums[side]
			sums[side] = cost{sum.AnonymousMiB + one.AnonymousMiB, sum.PrivateMiB + one.PrivateMiB, sum.CPUSecondsPerMinute + one.CPUSecondsPerMinute}
		}
	}
	return sums, nil
}

// scaleTo scales the only cluster, and returns how long it takes until all Machines are Ready.
func (f *upFleet) scaleTo(ctx context.Context, machines int) (float64, error) {
	hub, err := clientOf(f.report.Hub.Kubeconfig)
	if err != nil {
		return 0, err
	}
	return scaleDeployment(ctx, hub, f.report.Clusters[0].Name, localfleet.WorkersName, machines)
}

// scaleDeployment scales a MachineDeployment, and returns how long it takes until all its Machines are Ready.
func scaleDeployment(ctx context.Context, hub client.Client, cluster, name string, machines int) (float64, error) {
	deployment := &v1alpha1.MachineDeployment{}
	deployment.Namespace, deployment.Name = cluster, name
	begin := time.Now()
	if err := hub.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, machines))); err != nil {
		return 0, fmt.Errorf("scaling: %w", err)
	}
	err := waitFor(ctx, func(ctx context.Context) bool {
		return hub.Get(ctx, client.ObjectKeyFromObject(deployment), deployment) == nil && int(deployment.Status.ReadyReplicas) == machines
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for %d Machines, of which %d are Ready: %w", machines, deployment.Status.ReadyReplicas, err)
	}
	return time.Since(begin).Seconds(), nil
}
