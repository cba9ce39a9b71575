package main

import (
	"cmp"
	"path/filepath"
	"strings"
)

const megabyte = 1_000_000

// program is one of the programs that get an image of their own, hollowfleet/NAME.
type program struct {
	name, title, description string
	// file is the name of the program in its image, if it is another one.
	file string
	// limit is what the image may have at most, uncompressed, in bytes; 0 is no limit.
	limit int64
	// roots says that it may talk to servers whose certificate comes from a public authority. The others are always
	// given the authority to trust.
	roots bool
	// temporary says that it needs a directory for temporary files. The images of the others have nothing that their user
	// may write to.
	temporary bool
}

var programs = []program{
	{
		name: "hub", title: "Hollowfleet hub", limit: 60 * megabyte, roots: true,
		description: "The controllers of a fleet's hub: clusters, machine fleets, machine deployments and machine sets",
	},
	{
		name: "agent", title: "Hollowfleet agent", limit: 60 * megabyte, roots: true,
		description: "The agent of one workload cluster, which makes its machines real and reports them to the hub",
	},
	{
		name: "dashboard", file: "kubectl-hollow", title: "Hollowfleet dashboard", limit: 60 * megabyte,
		description: "The command line, which serves the dashboard of a hub to many users",
	},
	{
		name: "hollow-node", title: "Hollowfleet hollow node", limit: 100 * megabyte,
		description: "One simulated machine: kubelet code with a fake container runtime, which registers a real Node",
	},
	{
		name: "simcluster", title: "Hollowfleet simulated cluster", temporary: true,
		description: "A Kubernetes control plane that runs without containers",
	},
}

func (p program) fileName() string { return cmp.Or(p.file, p.name) }

// minorPrefix begins the names of the images of hollow-node with the kubelet code of other Kubernetes minors.
const minorPrefix = "hollow-node-"

// minorProgram is hollow-node with the kubelet code of another Kubernetes minor, such as v1.36.
func minorProgram(minor string) program {
	return program{
		name: minorPrefix + minor, file: "hollow-node", title: "Hollowfleet hollow node " + minor, limit: 100 * megabyte,
		description: "One simulated machine with the kubelet code of Kubernetes " + minor,
	}
}

// builtPrograms returns the programs that are in a directory by their paths: all that there have to be, and hollow-node of other minors,
// which make build-simulator MINORS= puts there.
func builtPrograms(bin string) ([]program, []string, error) {
	all := append([]program{}, programs...)
	var paths []string
	for _, p := range all {
		paths = append(paths, filepath.Join(bin, p.fileName()))
	}
	minors, err := filepath.Glob(filepath.Join(bin, "v1.*", "hollow-node"))
	for _, path := range minors {
		all, paths = append(all, minorProgram(filepath.Base(filepath.Dir(path)))), append(paths, path)
	}
	return all, paths, err
}

// archivedMinors are the names of the images of other minors whose archives are in a directory.
func archivedMinors(from string) ([]string, error) {
	archives, err := filepath.Glob(archivePath(from, minorPrefix+"v1.*"))
	var names []string
	for _, archive := range archives {
		names = append(names, strings.TrimSuffix(filepath.Base(archive), ".tar"))
	}
	return names, err
}
