package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layoutFile is the name of the archive with the images of a program for all architectures.
func (b build) layoutFile(p program) string {
	return fmt.Sprintf("hollowfleet-%s_%s.oci.tar", p.name, b.version)
}

// writeLayout writes the images of a program, made of its paths by architecture, as an OCI image layout in an archive: one image index, from
// which a registry or node takes the image of its architecture. Each image has an SBOM beside the archive.
func (b build) writeLayout(p program, paths map[string]string, directory string) ([]row, error) {
	var rows []row
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range slices.Sorted(maps.Keys(paths)) {
		made, err := b.buildImage(p, paths[architecture])
		if err != nil {
			return nil, err
		}
		image, err := convertToOCI(made)
		if err != nil {
			return nil, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		if config.Architecture != architecture {
			return nil, fmt.Errorf("%s is for %s, not for %s", paths[architecture], config.Architecture, architecture)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: architecture}},
		})
		r := row{
			image: fmt.Sprintf("%s%s:%s (%s)", repository, p.name, b.version, architecture), limit: p.limit,
			archive:   filepath.Join(directory, b.layoutFile(p)),
			materials: filepath.Join(directory, fmt.Sprintf("hollowfleet-%s_%s_linux_%s.cdx.json", p.name, b.version, architecture)),
		}
		if r.size, r.packed, err = imageSizes(image); err != nil {
			return nil, err
		}
		if r.digest, err = image.Digest(); err != nil {
			return nil, err
		}
		if err := b.writeSBOM(p, paths[architecture], r.materials); err != nil {
			return nil, fmt.Errorf("writing %s: %w", r.materials, err)
		}
		rows = append(rows, r)
	}
	file, err := os.Create(filepath.Join(directory, b.layoutFile(p)))
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(file)
	return rows, errors.Join(b.addLayout(archive, p, index), archive.Close(), file.Close())
}

// convertToOCI returns an image with the media types of OCI instead of Docker's.
func convertToOCI(from v1.Image) (v1.Image, error) {
	layers, err := from.Layers()
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range layers {
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	config, err := from.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, config)
}

// addLayout writes what the OCI image layout specification asks for, in the order of the names.
func (b build) addLayout(archive *tar.Writer, p program, index v1.ImageIndex) error {
	blobs, err := collectBlobs(index)
	if err != nil {
		return err
	}
	manifest, err := index.RawManifest()
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	blobs[digest.Hex] = func() (io.ReadCloser, error) { return readCloser(manifest), nil }
	for _, directory := range []string{"blobs/", "blobs/sha256/"} {
		if err := archive.WriteHeader(tarHeader(directory, 0o755, 0)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		if err := addBlob(archive, "blobs/sha256/"+name, blobs[name]); err != nil {
			return err
		}
	}
	top, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: types.OCIImageIndex, Digest: digest, Size: int64(len(manifest)),
		Annotations: map[string]string{
			"org.opencontainers.image.ref.name": b.version,
			"io.containerd.image.name":          "docker.io/" + repository + p.name + ":" + b.version,
		},
	}}})
	if err != nil {
		return err
	}
	return errors.Join(addFile(archive, "index.json", top), addFile(archive, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)))
}
