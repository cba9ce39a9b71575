package cli_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestVersionAndStatusAskTheHub(t *testing.T) {
	f := newEnv(t)
	f.Expect(f.succeeds("version --client")).To(MatchRegexp(`^Client: \S+\n$`))
	r := f.hollow("version")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(MatchRegexp(`^Client: \S+\nHub: .*\nAPI server: v1\.\S+\n$`))
}

// unpack reads a support bundle.
func (f *env) unpack(path string) map[string]string {
	f.T.Helper()
	file, err := os.Open(path)
	f.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	f.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		f.Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(archive)
		f.Expect(err).NotTo(HaveOccurred())
		found[filepath.Base(header.Name)] = string(content)
	}
}

// Edge case: A control character emptied bundles.
func TestASupportBundleHasObjectsAndNoSecrets(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	f.deployment(1)
	secret := string(f.tokens()[0].Data["token-secret"])
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	f.Expect(f.succeeds("support-bundle --output-file", path)).To(Equal("Wrote " + path + "\n"))
	info, err := os.Stat(path)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	files := f.unpack(path)
	for _, problem := range strings.Split(strings.TrimSpace(files["problems.txt"]), "\n") {
		f.Expect(problem).To(HavePrefix("logs/"), "this API server has no hub and no agents")
	}
	f.Expect(files).To(And(HaveKey("versions.txt"), HaveKey("events.json"), HaveKey("leases.json")))
	f.Expect(files["clusters.json"]).To(And(ContainSubstring(`"kind": "Cluster"`), ContainSubstring(f.name)))
	f.Expect(files["machinedeployments.json"]).To(ContainSubstring(`"name": "workers"`))
	f.Expect(files["machinefleets.json"]).To(ContainSubstring(`"kind": "MachineFleetList"`))
	for name, content := range files {
		f.Expect(content).NotTo(Or(ContainSubstring(secret), ContainSubstring("managedFields")), name)
	}
	f.fails(4, "already exists", "support-bundle --output-file", path)
}
