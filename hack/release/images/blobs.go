package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// blob opens the content of a file of a layout.
type blob = func() (io.ReadCloser, error)

func readCloser(content []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(content)) }

// collectBlobs are the manifests, configurations and layers of the images of an index, by their digests. What two images have in common is
// there once.
func collectBlobs(index v1.ImageIndex) (map[string]blob, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	blobs := map[string]blob{}
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return nil, err
		}
		if err := addImageBlobs(blobs, descriptor.Digest, image); err != nil {
			return nil, err
		}
	}
	return blobs, nil
}

func addImageBlobs(blobs map[string]blob, digest v1.Hash, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	name, err := image.ConfigName()
	if err != nil {
		return err
	}
	blobs[digest.Hex] = func() (io.ReadCloser, error) { return readCloser(manifest), nil }
	blobs[name.Hex] = func() (io.ReadCloser, error) { return readCloser(config), nil }
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		blobs[digest.Hex] = layer.Compressed
	}
	return nil
}

func addBlob(archive *tar.Writer, name string, open blob) error {
	reader, err := open()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}
	return addFile(archive, name, content)
}
