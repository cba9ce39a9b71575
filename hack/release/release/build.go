package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// allPlatforms are those for which there is an archive of the plugin, unless told otherwise.
const allPlatforms = "darwin_amd64 darwin_arm64 linux_amd64 linux_arm64 windows_amd64 windows_arm64"

// compilation is one call of go build.
type compilation struct {
	name     string
	platform platform
	// directory is that of the module.
	directory string
	packages  []string
	flags     []string
	// to is a file for one package, or a directory.
	to string
}

const (
	pluginName = "kubectl-hollow"
	// toolsDirectory has the programs that run here, below the directory that is built in.
	toolsDirectory = "tools"
)

// pluginPath is the plugin of a platform below a directory.
func pluginPath(directory string, p platform) string {
	path := filepath.Join(directory, "plugin", p.String(), pluginName)
	if p.os == "windows" {
		path += ".exe"
	}
	return path
}

// buildParts compiles what the parts need, writes images and charts to made, and returns the paths of all programs.
func (o options) buildParts(ctx context.Context, to, made string, out io.Writer) ([]string, error) {
	for _, c := range o.listCompilations(to) {
		if err := o.compileProgram(ctx, c, out); err != nil {
			return nil, err
		}
	}
	if slices.Contains(o.parts, partImages) {
		arguments := append(o.imageArguments(), "--bins", o.programDirectories(to), "--out", made)
		if err := runProgram(ctx, out, filepath.Join(to, toolsDirectory, "images"), arguments...); err != nil {
			return nil, err
		}
	}
	if slices.Contains(o.parts, partCharts) {
		if err := o.packCharts(ctx, to, made, out); err != nil {
			return nil, err
		}
	}
	programs, err := findPrograms(to)
	if err != nil {
		return nil, err
	}
	return programs, o.checkPrograms(programs)
}

func (o options) imageArguments() []string {
	return []string{"layout", "--version", o.version, "--revision", o.source.commit, "--created", fmt.Sprint(o.source.time.Unix())}
}

// programDirectories lists the directories of the images' programs by architecture, as images takes them.
func (o options) programDirectories(to string) string {
	var all []string
	for _, arch := range o.arches {
		all = append(all, arch+"="+filepath.Join(to, "linux_"+arch))
	}
	return strings.Join(all, ",")
}

// listCompilations returns what has to be compiled for the parts.
func (o options) listCompilations(to string) (all []compilation) {
	if slices.Contains(o.parts, partPlugin) {
		for _, p := range o.platforms {
			all = append(all, compilation{
				name: "plugin for " + p.String(), platform: p, directory: o.root, packages: []string{"./hub/cmd/kubectl-hollow"},
				flags: []string{"-tags", "grpcnotrace", "-ldflags", "-s -w"}, to: pluginPath(to, p),
			})
		}
	}
	if slices.Contains(o.parts, partImages) || slices.Contains(o.parts, partCharts) {
		all = append(all, compilation{
			name: "programs that pack images and charts", platform: platform{runtime.GOOS, runtime.GOARCH}, directory: filepath.Join(o.root, "hack", "release"),
			packages: []string{"./images", "./charts"}, to: filepath.Join(to, toolsDirectory) + string(filepath.Separator),
		})
	}
	if !slices.Contains(o.parts, partImages) {
		return all
	}
	for _, arch := range o.arches {
		p := platform{"linux", arch}
		directory := filepath.Join(to, p.String()) + string(filepath.Separator)
		all = append(all, compilation{
			name: "hub, dashboard and agent for " + p.String(), platform: p, directory: o.root, packages: []string{"./hub/cmd/hub", "./hub/cmd/kubectl-hollow", "./agent/cmd/agent"},
			flags: []string{"-tags", "grpcnotrace", "-ldflags", "-s -w"}, to: directory,
		}, compilation{
			name: "simulator for " + p.String(), platform: p, directory: filepath.Join(o.root, "agent", "simulator"),
			packages: []string{"./cmd/simcluster", "./cmd/hollow-node"}, flags: []string{"-ldflags", o.simulatorFlags}, to: directory,
		})
	}
	return all
}

// packCharts writes the charts under the names that have their version.
func (o options) packCharts(ctx context.Context, to, made string, out io.Writer) error {
	directory := filepath.Join(to, "charts")
	arguments := []string{"--from", filepath.Join(o.root, "charts"), "--out", directory, "--version", o.version}
	if err := runProgram(ctx, out, filepath.Join(to, toolsDirectory, "charts"), arguments...); err != nil {
		return err
	}
	packed, err := filepath.Glob(filepath.Join(directory, "hollowfleet-*.tgz"))
	if err != nil {
		return err
	}
	for _, path := range packed {
		if err := os.Rename(path, filepath.Join(made, filepath.Base(path))); err != nil {
			return err
		}
	}
	return nil
}

// findPrograms are the programs below a directory.
func findPrograms(directory string) ([]string, error) {
	var programs []string
	for _, pattern := range []string{filepath.Join("plugin", "*", "*"), filepath.Join("linux_*", "*")} {
		found, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil {
			return nil, err
		}
		programs = append(programs, found...)
	}
	return programs, nil
}

// checkPrograms refuses programs of a release that do not tell its version, or were built of something else than the commit.
func (o options) checkPrograms(programs []string) error {
	if o.snapshot {
		return nil
	}
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading what %s was built of: %w", path, err)
		}
		settings := map[string]string{}
		for _, setting := range info.Settings {
			settings[setting.Key] = setting.Value
		}
		if settings["vcs.revision"] != o.source.commit || settings["vcs.modified"] != "false" {
			return fmt.Errorf("%s was built of commit %q (changed: %s), not of %s", path, settings["vcs.revision"], settings["vcs.modified"], o.source.commit)
		}
	}
	return nil
}
