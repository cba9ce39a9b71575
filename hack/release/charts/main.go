// Command charts packages the Helm charts of hub, agent and simulated cluster with the version of the source, so that they name the images that
// were made of it. Each package is also written as NAME.tgz, the name that the docs use. The tests here are those of the charts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

var names = []string{"hub", "agent", "simcluster"}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "charts: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var from, to, version string
	flags := flag.NewFlagSet("charts", flag.ContinueOnError)
	flags.StringVar(&from, "from", "charts", "directory of the charts")
	flags.StringVar(&to, "out", filepath.Join("bin", "charts"), "directory to write to")
	flags.StringVar(&version, "version", "", "version of the source, which is the tag of the images (required)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if version == "" {
		return errors.New("--version is required")
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		path, err := packChart(filepath.Join(from, name), to, version)
		if err != nil {
			return fmt.Errorf("packaging chart %s: %w", name, err)
		}
		latest := filepath.Join(to, name+".tgz")
		if err := copyFile(path, latest); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s, a copy of %s\n", latest, filepath.Base(path))
	}
	return nil
}

// copyFile replaces the file to.
func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// packChart writes a chart to a file of the directory to, and returns its path.
func packChart(from, to, version string) (string, error) {
	loaded, err := loader.Load(from)
	if err != nil {
		return "", err
	}
	loaded.Metadata.AppVersion = version
	loaded.Metadata.Version = chartVersion(loaded.Metadata.Version, version)
	if err := loaded.Validate(); err != nil {
		return "", err
	}
	path, err := chartutil.Save(loaded, to)
	if err != nil {
		return "", err
	}
	return path, forgetTimes(path)
}

// chartVersion is a semantic version, as helm wants it: that of a release, with what git describe adds for later commits, and
// without a release one before next.
func chartVersion(next, version string) string {
	tag, later, _ := strings.Cut(version, "-")
	release, tagged := strings.CutPrefix(tag, "v")
	switch {
	case !tagged || strings.Count(release, ".") != 2:
		return next + "-g" + version
	case later != "":
		return release + "+" + strings.ReplaceAll(later, "-", ".")
	}
	return release
}
