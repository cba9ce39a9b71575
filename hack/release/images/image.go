package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// repository is the first part of the names of all images.
const repository = "hollowfleet/"

// build is what all images of one build have in common.
type build struct {
	version, revision string
	// created is the time of the commit, so that another build of the same commit gives the same image.
	created time.Time
}

// row is one line of the table that ends a build.
type row struct {
	image              string
	size, packed       int64
	limit              int64
	digest             v1.Hash
	archive, materials string
}

// writeImage makes the image of the program at path, and writes it and its SBOM to directory.
func (b build) writeImage(p program, path, directory string) (row, error) {
	image, err := b.buildImage(p, path)
	if err != nil {
		return row{}, err
	}
	tags, err := b.imageTags(p)
	if err != nil {
		return row{}, err
	}
	r := row{
		image: tags[0].String(), limit: p.limit,
		archive: filepath.Join(directory, p.name+".tar"), materials: filepath.Join(directory, p.name+".cdx.json"),
	}
	if err := writeArchive(r.archive, image, tags); err != nil {
		return row{}, fmt.Errorf("writing %s: %w", r.archive, err)
	}
	if err := b.writeSBOM(p, path, r.materials); err != nil {
		return row{}, fmt.Errorf("writing %s: %w", r.materials, err)
	}
	if r.size, r.packed, err = imageSizes(image); err != nil {
		return row{}, err
	}
	r.digest, err = image.Digest()
	return r, err
}

// imageTags are the names of the image: its version, and "latest", which is what the agent's default name of the hollow-node image
// means.
func (b build) imageTags(p program) ([]name.Tag, error) {
	var tags []name.Tag
	for _, version := range []string{b.version, "latest"} {
		tag, err := name.NewTag(repository + p.name + ":" + version)
		if err != nil {
			return nil, err
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

func (b build) buildImage(p program, path string) (v1.Image, error) {
	architecture, err := checkStatic(path)
	if err != nil {
		return nil, err
	}
	system, err := systemLayer(systemFiles(p))
	if err != nil {
		return nil, err
	}
	binary, err := programLayer(p.fileName(), path)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, system, binary)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Created = v1.Time{Time: b.created}
	config.Config = v1.Config{
		User: user + ":" + user, Entrypoint: []string{"/" + p.fileName()}, WorkingDir: "/", Labels: b.imageLabels(p),
		Env: []string{"PATH=/"},
	}
	config.History = nil
	return mutate.ConfigFile(image, config)
}

// imageLabels are those of the OCI image specification. What is not known is left out.
func (b build) imageLabels(p program) map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       p.title,
		prefix + "description": p.description,
		prefix + "licenses":    "Apache-2.0",
		prefix + "version":     b.version,
		prefix + "created":     b.created.Format(time.RFC3339),
	}
	if b.revision != "" {
		labels[prefix+"revision"] = b.revision
	}
	return labels
}
