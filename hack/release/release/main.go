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
	if err := runRelease(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func runRelease(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	if o.source, err = readSource(ctx, o.root); err != nil {
		return err
	}
	if err := o.checkSource(); err != nil {
		return err
	}
	return o.makeRelease(ctx, out)
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
	if err := makeAbsolute(&o.root, &o.out); err != nil {
		return o, err
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

// makeAbsolute resolves paths: programs that a release calls run in other directories.
func makeAbsolute(paths ...*string) (err error) {
	for _, path := range paths {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// splitList reads a list with commas or spaces between its items.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// parseLists refuses unknown names before anything is built.
func parseLists(o *options, parts, arches, platforms string) error {
	o.parts, o.arches = splitList(parts), splitList(arches)
	for _, part := range o.parts {
		if !slices.Contains([]string{partPlugin, partImages, partCharts}, part) {
			return fmt.Errorf("--parts: unknown part %q; known are plugin, images and charts", part)
		}
	}
	for _, each := range splitList(platforms) {
		if !slices.Contains(splitList(allPlatforms), each) {
			return fmt.Errorf("--platforms: unknown platform %q; known are %s", each, allPlatforms)
		}
		system, arch, _ := strings.Cut(each, "_")
		o.platforms = append(o.platforms, platform{system, arch})
	}
	for _, arch := range o.arches {
		if arch != "amd64" && arch != "arm64" {
			return fmt.Errorf("--arches: unknown architecture %q; known are amd64 and arm64", arch)
		}
	}
	return nil
}
