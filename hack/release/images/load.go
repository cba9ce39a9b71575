package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// loadIntoKind loads the archives of the images into every node of a kind cluster.
func loadIntoKind(name, from string, images []string, out io.Writer) error {
	for _, image := range images {
		if _, err := os.Stat(archivePath(from, image)); err != nil {
			return fmt.Errorf("%w: make images writes it", err)
		}
	}
	members, err := kindNodes(name)
	if err != nil {
		return err
	}
	for _, member := range members {
		for _, image := range images {
			if err := loadOne(member, archivePath(from, image)); err != nil {
				return fmt.Errorf("loading %s into %s: %w", archivePath(from, image), member, err)
			}
			fmt.Fprintf(out, "loaded %s into %s\n", archivePath(from, image), member)
		}
	}
	return nil
}

func archivePath(from, image string) string { return filepath.Join(from, image+".tar") }

func loadOne(node nodes.Node, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return nodeutils.LoadImageArchive(node, file)
}

// kindNodes are the nodes of a kind cluster that run pods. Its errors say what is missing.
func kindNodes(name string) ([]nodes.Node, error) {
	engine, err := cluster.DetectNodeProvider()
	if err != nil {
		return nil, errors.New("no container engine answers (docker, nerdctl or podman), and a kind cluster runs in one: install or start it, " +
			"or load the archives where the cluster is, with 'kind load image-archive', 'docker load -i' or 'ctr -n k8s.io images import'")
	}
	provider := cluster.NewProvider(engine)
	members, err := provider.ListInternalNodes(name)
	if err != nil {
		return nil, fmt.Errorf("asking the container engine for the nodes of kind cluster %s: %w: is the engine running, and may this user use it?", name, err)
	}
	if len(members) > 0 {
		return members, nil
	}
	clusters, err := provider.List()
	if err != nil {
		return nil, fmt.Errorf("listing the kind clusters: %w", err)
	}
	there := "there is none at all"
	if len(clusters) > 0 {
		there = "there are " + strings.Join(clusters, ", ")
	}
	return nil, fmt.Errorf("kind has no cluster %s, %s: create it with 'kind create cluster --name %s', or name another one with KIND=", name, there, name)
}
