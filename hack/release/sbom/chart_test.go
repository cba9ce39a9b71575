package sbom_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/hollowfleet/hollowfleet/hack/release/sbom"
)

// packed is a chart of the repository as a package of v1.2.3.
func packed(t *testing.T, name string) string {
	t.Helper()
	loaded, err := loader.Load(filepath.Join("..", "..", "..", "charts", name))
	if err != nil {
		t.Fatal(err)
	}
	loaded.Metadata.Version, loaded.Metadata.AppVersion = "1.2.3", "v1.2.3"
	path, err := chartutil.Save(loaded, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// sums are the SHA-256 of the files in a package, by their names below the chart's directory.
func sums(g Gomega, path string) map[string]string {
	file, err := os.Open(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for reader := tar.NewReader(unpacked); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		g.Expect(err).NotTo(HaveOccurred())
		hash := sha256.New()
		_, err = io.Copy(hash, reader)
		g.Expect(err).NotTo(HaveOccurred())
		_, name, _ := strings.Cut(header.Name, "/")
		found[name] = hex.EncodeToString(hash.Sum(nil))
	}
}

// Claim: The SBOM of a chart names its images with their versions and its files with their hashes, and is the same each time. Broken: only images at the top of the values; appVersion for an image that has a tag; one file without hash; images in the order of a map.
func TestWriteChart(t *testing.T) {
	for name, images := range map[string][]string{
		"hub": {"pkg:docker/hollowfleet/dashboard@v1.2.3", "pkg:docker/hollowfleet/hub@v1.2.3"},
		"agent": {
			"pkg:docker/hollowfleet/agent@v1.2.3", "pkg:docker/hollowfleet/hollow-node@v1.2.3", "pkg:docker/hollowfleet/simcluster@v1.2.3",
			"pkg:docker/kwok/kwok@v0.8.0?repository_url=registry.k8s.io",
		},
		"simcluster": {"pkg:docker/hollowfleet/agent@v1.2.3", "pkg:docker/hollowfleet/hollow-node@v1.2.3", "pkg:docker/hollowfleet/simcluster@v1.2.3"},
	} {
		t.Run(name, func(t *testing.T) {
			g, path := NewWithT(t), packed(t, name)
			to := filepath.Join(t.TempDir(), "chart.cdx.json")
			var first []byte
			for range 5 {
				g.Expect(sbom.WriteChart(path, to)).To(Succeed())
				content, err := os.ReadFile(to)
				g.Expect(err).NotTo(HaveOccurred())
				if first == nil {
					first = content
				}
				g.Expect(string(content)).To(Equal(string(first)))
			}
			bom := cyclonedx.BOM{}
			g.Expect(cyclonedx.NewBOMDecoder(strings.NewReader(string(first)), cyclonedx.BOMFileFormatJSON).Decode(&bom)).To(Succeed())
			g.Expect([]string{bom.Metadata.Component.Name, bom.Metadata.Component.Version}).To(Equal([]string{"hollowfleet-" + name, "1.2.3"}))
			var named []string
			files := map[string]string{}
			for _, component := range *bom.Components {
				if component.Type == cyclonedx.ComponentTypeContainer {
					named = append(named, component.PackageURL)
					continue
				}
				g.Expect(component.Type).To(Equal(cyclonedx.ComponentTypeFile))
				g.Expect(*component.Hashes).To(HaveLen(1))
				files[component.Name] = (*component.Hashes)[0].Value
			}
			g.Expect(named).To(Equal(images))
			g.Expect(*(*bom.Dependencies)[0].Dependencies).To(Equal(images))
			g.Expect(files).To(Equal(sums(g, path)))
		})
	}
}

func TestWhatIsNotAChart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tgz")
	g := NewWithT(t)
	g.Expect(os.WriteFile(path, []byte("x"), 0o600)).To(Succeed())
	g.Expect(sbom.WriteChart(path, path+".json")).To(MatchError(ContainSubstring("reading chart " + path)))
}
