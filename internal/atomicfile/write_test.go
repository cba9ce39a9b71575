package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
)

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "state")
	g.Expect(atomicfile.Write(path, []byte("first, which is longer"), 0o644)).To(Succeed())
	reader, err := os.Open(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer reader.Close()
	g.Expect(atomicfile.Write(path, []byte("second"), 0o600)).To(Succeed())

	content := make([]byte, 100)
	n, err := reader.Read(content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content[:n])).To(Equal("first, which is longer"), "who has opened it before reads the old one")
	g.Expect(os.ReadFile(path)).To(BeEquivalentTo("second"))
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
	g.Expect(os.ReadDir(filepath.Dir(path))).To(HaveLen(1), "nothing else is left")
}

func TestAWriteThatFailsLeavesWhatWasThere(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "state")
	g.Expect(os.MkdirAll(filepath.Join(path, "below"), 0o755)).To(Succeed())
	g.Expect(atomicfile.Write(path, []byte("x"), 0o644)).To(MatchError(ContainSubstring("writing " + path)))
	g.Expect(os.ReadDir(filepath.Dir(path))).To(HaveLen(1), "no file beside it is left")
	g.Expect(atomicfile.Write(filepath.Join(path, "missing", "state"), nil, 0o644)).To(MatchError(os.ErrNotExist))
}
