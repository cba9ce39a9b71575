package main

import (
	"archive/tar"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	. "github.com/onsi/gomega"
)

// forArchitectures is this test as a program of two architectures: only the number of the machine is another one.
func forArchitectures(t *testing.T) map[string]string {
	t.Helper()
	_, own := testProgram(t)
	content, directory := read(t, own), t.TempDir()
	paths := map[string]string{}
	for architecture, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		binary.LittleEndian.PutUint16(content[18:], uint16(machine))
		paths[architecture] = filepath.Join(directory, architecture)
		if err := os.WriteFile(paths[architecture], content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// Claim: An image layout has an image for each architecture, valid and the same each time. Broken: Docker's media types; a layer left out; two architectures of one program mixed up; blobs in the order of a map.
func TestLayouts(t *testing.T) {
	g := NewWithT(t)
	p, _ := testProgram(t)
	paths, one, two := forArchitectures(t), t.TempDir(), t.TempDir()
	rows, err := testBuild.writeLayout(p, paths, one)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rows).To(HaveLen(2))
	_, err = testBuild.writeLayout(p, paths, two)
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"hollowfleet-hub_v1.2.3.oci.tar", "hollowfleet-hub_v1.2.3_linux_amd64.cdx.json", "hollowfleet-hub_v1.2.3_linux_arm64.cdx.json"} {
		g.Expect(sha256.Sum256(read(t, filepath.Join(two, name)))).To(Equal(sha256.Sum256(read(t, filepath.Join(one, name)))), name)
	}

	names := memberNames(g, rows[0].archive)
	g.Expect(names).To(HaveLen(4+8), "two directories, index.json, oci-layout; the index, and of two images manifest, configuration and layers, of which they share one")
	g.Expect(slices.IsSorted(names)).To(BeTrue(), "the order of members: %v", names)
	unpacked := t.TempDir()
	file, err := os.Open(rows[0].archive)
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	g.Expect(extract(file, unpacked)).To(Succeed())
	top, err := layout.ImageIndexFromPath(unpacked)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(validate.Index(top)).To(Succeed())
	list, err := top.IndexManifest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Manifests).To(HaveLen(1))
	g.Expect(list.Manifests[0].MediaType).To(Equal(types.OCIImageIndex))
	g.Expect(list.Manifests[0].Annotations).To(Equal(map[string]string{
		"org.opencontainers.image.ref.name": "v1.2.3", "io.containerd.image.name": "docker.io/hollowfleet/hub:v1.2.3",
	}))
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	g.Expect(err).NotTo(HaveOccurred())
	manifest, err := index.IndexManifest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manifest.Manifests).To(HaveLen(2))
	for i, descriptor := range manifest.Manifests {
		g.Expect(descriptor.MediaType).To(Equal(types.OCIManifestSchema1))
		image, err := index.Image(descriptor.Digest)
		g.Expect(err).NotTo(HaveOccurred())
		expectPlatform(g, image, descriptor.Platform, []string{"amd64", "arm64"}[i])
		g.Expect(rows[i].digest).To(Equal(descriptor.Digest))
	}
}

// memberNames are the names of an archive's members, in their order.
func memberNames(g *WithT, path string) (names []string) {
	file, err := os.Open(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		g.Expect(err).NotTo(HaveOccurred())
		names = append(names, header.Name)
	}
}

func expectPlatform(g *WithT, image v1.Image, platform *v1.Platform, architecture string) {
	g.Expect(platform).To(Equal(&v1.Platform{OS: "linux", Architecture: architecture}))
	config, err := image.ConfigFile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Architecture).To(Equal(architecture))
	layers, err := image.Layers()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(layers).To(HaveLen(2))
	for _, layer := range layers {
		g.Expect(layer.MediaType()).To(Equal(types.OCILayer))
	}
}

func TestLayoutsOfOtherArchitecturesAreRefused(t *testing.T) {
	g := NewWithT(t)
	p, _ := testProgram(t)
	paths := forArchitectures(t)
	_, err := testBuild.writeLayout(p, map[string]string{"amd64": paths["arm64"]}, t.TempDir())
	g.Expect(err).To(MatchError(paths["arm64"] + " is for arm64, not for amd64"))
	g.Expect(run([]string{"layout", "--version", "v1", "--bins", "DIR", "--out", t.TempDir()}, io.Discard)).To(
		MatchError(`--bins: want amd64=DIR,arm64=DIR, got "DIR"`))
	g.Expect(run([]string{"layout", "--version", "v1", "--bins", "amd64=/nowhere", "--out", t.TempDir()}, io.Discard)).To(
		MatchError(ContainSubstring("making the images of hub: reading /nowhere/hub")))
}
