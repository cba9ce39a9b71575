package localfleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

const (
	// minorPattern are the programs with the kubelet code of other minors, in the directory of the programs. make build-simulator writes them.
	minorPattern = "v1.*/hollow-node"
	// versionTimeout bounds how long a program takes to say its version.
	versionTimeout = 30 * time.Second
)

// minorImage is the name of the image of hollow nodes with the kubelet code of a minor other than the built-in one.
func minorImage(minor string) string { return HollowNodeImage + "-v" + minor }

// FindMinors returns the directories of the hollow nodes in binDir that have the kubelet code of other minors, by minor. Each program is asked
// for its version: one of another minor than its directory says is left out, and the error names it.
func FindMinors(ctx context.Context, binDir string) (map[string]string, error) {
	programs, err := filepath.Glob(filepath.Join(binDir, minorPattern))
	if err != nil {
		return nil, fmt.Errorf("looking for hollow nodes of other minors: %w", err)
	}
	found := map[string]string{}
	var problems []error
	for _, program := range programs {
		directory := filepath.Dir(program)
		minor := strings.TrimPrefix(filepath.Base(directory), "v")
		if hollownode.MinorOf(minor) != minor {
			continue // It is not of make.
		}
		if err := checkMinor(ctx, program, minor); err != nil {
			problems = append(problems, err)
			continue
		}
		found[minor] = directory
	}
	return found, errors.Join(problems...)
}

// checkMinor asks a hollow node which kubelet it is.
func checkMinor(ctx context.Context, program, minor string) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, "version").Output()
	if version := strings.TrimSpace(string(output)); err == nil && hollownode.MinorOf(version) != minor {
		err = fmt.Errorf("it has the kubelet code of %q", version)
	}
	if err != nil {
		return fmt.Errorf("%s is not a hollow-node of Kubernetes %s: %w: run make build-simulator MINORS=%s, or remove it", program, minor, err, minor)
	}
	return nil
}

// findMinors looks once for hollow nodes of other minors. What is wrong with one is reported; the Nodes of its minor only have their version then.
func (f *Fleet) findMinors(ctx context.Context) {
	var err error
	if f.minors, err = FindMinors(ctx, f.options.BinDir); err != nil {
		f.reportProgress("left out: %v", err)
	}
}

// images are those that podhosts run, with the directories of their programs.
func (f *Fleet) images() map[string]string {
	images := map[string]string{HollowNodeImage: f.options.BinDir}
	for minor, directory := range f.minors {
		images[minorImage(minor)] = directory
	}
	return images
}

// imageFlags are those of an agent.
func (f *Fleet) imageFlags() []string {
	flags := []string{"--hollow-node-image", HollowNodeImage}
	for _, minor := range slices.Sorted(maps.Keys(f.minors)) {
		flags = append(flags, "--hollow-node-minor-image", minor+"="+minorImage(minor))
	}
	return flags
}
