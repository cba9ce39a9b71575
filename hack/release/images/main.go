// Command images makes container images of Hollowfleet's programs, without a container engine, and loads them into a
// kind cluster.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: images build [flags]   write NAME.tar and NAME.cdx.json of each program
       images layout [flags]  write each program for several architectures as an OCI image layout
       images load [flags]    load NAME.tar of each program into a kind cluster`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "images: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("which command?\n" + usage)
	}
	switch args[0] {
	case "build":
		return runBuild(args[1:], out)
	case "layout":
		return runLayout(args[1:], out)
	case "load":
		return runLoad(args[1:], out)
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

func runBuild(args []string, out io.Writer) error {
	var bin string
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.StringVar(&bin, "bin", "bin", "directory of the programs")
	b, to, err := parseBuild(flags, args, filepath.Join("bin", "images"))
	if err != nil {
		return err
	}
	built, paths, err := builtPrograms(bin)
	if err != nil {
		return err
	}
	var rows []row
	for i, p := range built {
		r, err := b.writeImage(p, paths[i], to)
		if err != nil {
			return fmt.Errorf("making the image of %s: %w", p.name, err)
		}
		rows = append(rows, r)
	}
	printTable(out, rows)
	return checkSizes(rows)
}

// parseBuild reads what every command that makes images has to know, and makes the directory to write to.
func parseBuild(flags *flag.FlagSet, args []string, directory string) (b build, to string, err error) {
	var created string
	flags.StringVar(&to, "out", directory, "directory to write to")
	flags.StringVar(&b.version, "version", "", "version of the source, which becomes the tag of the images (required)")
	flags.StringVar(&b.revision, "revision", "", "commit of the source, if it is known")
	flags.StringVar(&created, "created", "0", "time of that commit, in seconds since 1970")
	if err := flags.Parse(args); err != nil {
		return b, "", err
	}
	seconds, err := strconv.ParseInt(created, 10, 64)
	if err != nil {
		return b, "", fmt.Errorf("--created: want seconds since 1970, got %q", created)
	}
	b.created = time.Unix(seconds, 0).UTC()
	if b.version == "" {
		return b, "", errors.New("--version is required")
	}
	return b, to, os.MkdirAll(to, 0o755)
}

// runLayout makes the images of all programs that are in the first of the directories; each of the others has to have them too.
func runLayout(args []string, out io.Writer) error {
	var bins string
	flags := flag.NewFlagSet("layout", flag.ContinueOnError)
	flags.StringVar(&bins, "bins", "", "directories of the programs by architecture, such as amd64=DIR,arm64=DIR (required)")
	b, to, err := parseBuild(flags, args, filepath.Join("bin", "release"))
	if err != nil {
		return err
	}
	directories := map[string]string{}
	for _, each := range strings.Split(bins, ",") {
		architecture, directory, found := strings.Cut(each, "=")
		if !found {
			return fmt.Errorf("--bins: want amd64=DIR,arm64=DIR, got %q", bins)
		}
		directories[architecture] = directory
	}
	var rows []row
	for _, p := range programs {
		paths := map[string]string{}
		for architecture, directory := range directories {
			paths[architecture] = filepath.Join(directory, p.fileName())
		}
		made, err := b.writeLayout(p, paths, to)
		if err != nil {
			return fmt.Errorf("making the images of %s: %w", p.name, err)
		}
		rows = append(rows, made...)
	}
	printTable(out, rows)
	return checkSizes(rows)
}

func runLoad(args []string, out io.Writer) error {
	var cluster, from, only string
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&cluster, "kind", "kind", "name of the kind cluster")
	flags.StringVar(&from, "from", filepath.Join("bin", "images"), "directory that build has written to")
	flags.StringVar(&only, "only", "", "names of the images to load, with commas between them (default all)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	minors, err := archivedMinors(from)
	if err != nil {
		return err
	}
	names, err := selectPrograms(only, minors)
	if err != nil {
		return err
	}
	return loadIntoKind(cluster, from, names, out)
}

// selectPrograms are the names of the images that only names, or of all: those of the programs, and of hollow-node of other minors.
func selectPrograms(only string, minors []string) ([]string, error) {
	var all []string
	for _, p := range programs {
		all = append(all, p.name)
	}
	all = append(all, minors...)
	if only == "" {
		return all, nil
	}
	names := strings.Split(only, ",")
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("--only: there is no image %q, only %s", name, strings.Join(all, ", "))
		}
	}
	return names, nil
}
