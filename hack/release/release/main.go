// Command release makes what a user of a version gets: archives of the kubectl plugin, a krew manifest, images, charts, SBOMs, the provenance
// of all these and their checksums. The same commit gives the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// repository is where the source is, and where krew looks for the archives unless told otherwise.
const repository = "https://github.com/hollowfleet/hollowfleet"

// The parts of a release.
const (
	partPlugin = "plugin"
	partImages = "images"
	partCharts = "charts"
)

// options are what a release is made of.
type options struct {
	root, out, version string
	// snapshot is of any commit and of changes that are not committed. It is for trying, not for others.
	snapshot bool
	parts    []string
	arches   []string
	// platforms are those for which there is an archive of the plugin.
	platforms []platform
	// download is the URL of the directory from which users fetch the archives.
	download string
	// simulatorFlags are those with which the programs that have Kubernetes in them are linked.
	simulatorFlags string

	source source
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	if o.source, err = readSource(ctx, o.root); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	return o.make(ctx, out)
}

func parseOptions(args []string) (options, error) {
	var o options
	var parts, arches, platforms string
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", filepath.Join("..", ".."), "directory of the repository")
	flags.StringVar(&o.version, "version", "", "version, such as v0.1.0 (required)")
	flags.StringVar(&o.out, "out", "", "directory to write to (default bin/release/VERSION in the repository)")
	flags.BoolVar(&o.snapshot, "snapshot", false, "take any commit, and changes that are not committed")
	flags.StringVar(&parts, "parts", "plugin,images,charts", "what to make")
	flags.StringVar(&arches, "arches", "amd64,arm64", "architectures of the images")
	flags.StringVar(&platforms, "platforms", allPlatforms, "platforms of the plugin")
	flags.StringVar(&o.download, "download", "", "URL from which users fetch the archives (default the release on GitHub)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.version == "" {
		return o, errors.New("--version is required, such as v0.1.0")
	}
	if err := parseLists(&o, parts, arches, platforms); err != nil {
		return o, err
	}
	if o.out == "" {
		o.out = filepath.Join(o.root, "bin", "release", o.version)
	}
	if o.download == "" {
		o.download = repository + "/releases/download/" + o.version
	}
	o.simulatorFlags = os.Getenv("SIMULATOR_LDFLAGS")
	if slices.Contains(o.parts, partImages) && o.simulatorFlags == "" {
		return o, errors.New("SIMULATOR_LDFLAGS is empty, and the images would not tell their version of Kubernetes: call make release, which sets it")
	}
	return o, nil
}

// split reads a list with commas or spaces between its items.
func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// parseLists refuses what there is not, before anything is built.
func parseLists(o *options, parts, arches, platforms string) error {
	o.parts, o.arches = split(parts), split(arches)
	for _, part := range o.parts {
		if !slices.Contains([]string{partPlugin, partImages, partCharts}, part) {
			return fmt.Errorf("--parts: there is no part %q, only plugin, images and charts", part)
		}
	}
	for _, each := range split(platforms) {
		if !slices.Contains(split(allPlatforms), each) {
			return fmt.Errorf("--platforms: there is no platform %q, only %s", each, allPlatforms)
		}
		system, arch, _ := strings.Cut(each, "_")
		o.platforms = append(o.platforms, platform{system, arch})
	}
	for _, arch := range o.arches {
		if arch != "amd64" && arch != "arm64" {
			return fmt.Errorf("--arches: images are made for amd64 and arm64, not for %q", arch)
		}
	}
	return nil
}

// make makes all in a directory of its own, which takes the place of the old one when it is complete.
func (o options) make(ctx context.Context, out io.Writer) error {
	if err := refuseForeign(o.out); err != nil {
		return err
	}
	started := time.Now()
	work, err := filepath.Abs(o.out + ".unfinished")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	made := filepath.Join(work, "made")
	if err := os.MkdirAll(made, 0o755); err != nil {
		return err
	}
	programs, err := o.build(ctx, filepath.Join(work, "build"), made, out)
	if err != nil {
		return err
	}
	if err := o.assemble(programs, made); err != nil {
		return err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.Rename(made, o.out); err != nil {
		return err
	}
	if err := printFiles(out, o.out); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s of commit %s is in %s, made in %s\n", o.version, o.source.commit, o.out, time.Since(started).Round(time.Second))
	return nil
}

// refuseForeign keeps a directory that is not an earlier release's from being replaced.
func refuseForeign(directory string) error {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(directory, checksumsFile)); err != nil {
		return fmt.Errorf("%s has files, but no %s: it is not replaced; name another directory", directory, checksumsFile)
	}
	return nil
}
