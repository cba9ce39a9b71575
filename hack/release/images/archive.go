package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeArchive writes an image with its tags to a file that docker load, ctr images import and kind load image-archive take.
// The library's own writer puts several tags into no particular order, and the file would be another one each time.
func writeArchive(path string, image v1.Image, tags []name.Tag) error {
	references := map[name.Reference]v1.Image{}
	for _, tag := range tags {
		references[tag] = image
	}
	manifest, err := tarball.ComputeManifest(references)
	if err != nil {
		return err
	}
	if len(manifest) != 1 {
		return fmt.Errorf("the manifest describes %d images, want one", len(manifest))
	}
	slices.Sort(manifest[0].RepoTags)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(file)
	return errors.Join(addImage(archive, image, manifest), archive.Close(), file.Close())
}

// addImage writes the configuration, the layers and the list that names both.
func addImage(archive *tar.Writer, image v1.Image, manifest tarball.Manifest) error {
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	if err := addFile(archive, manifest[0].Config, config); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for i, layer := range layers {
		compressed, err := layer.Compressed()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(compressed)
		if err := errors.Join(err, compressed.Close()); err != nil {
			return err
		}
		if err := addFile(archive, manifest[0].Layers[i], content); err != nil {
			return err
		}
	}
	list, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	return addFile(archive, "manifest.json", list)
}

func addFile(archive *tar.Writer, name string, content []byte) error {
	if err := archive.WriteHeader(tarHeader(name, 0o644, int64(len(content)))); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
