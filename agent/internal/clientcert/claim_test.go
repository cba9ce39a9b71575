package clientcert

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func claim(g *WithT, path, identity string) (predecessors []string, release func()) {
	dir, err := NewDir(path)
	g.Expect(err).NotTo(HaveOccurred())
	predecessors, release, err = dir.Claim(identity)
	g.Expect(err).NotTo(HaveOccurred())
	return predecessors, release
}

func TestClaim(t *testing.T) {
	g, path := NewWithT(t), t.TempDir()
	before, release := claim(g, path, "a")
	g.Expect(before).To(BeEmpty())
	second, err := NewDir(path)
	g.Expect(err).NotTo(HaveOccurred())
	_, _, err = second.Claim("b")
	g.Expect(errors.Is(err, ErrInUse)).To(BeTrue(), "%v", err)
	release()
	before, release = claim(g, path, "b")
	g.Expect(before).To(Equal([]string{"a"}))
	g.Expect(second.Save(t.Context(), Contents{})).To(Succeed())
	release()
	before, release = claim(g, path, "c")
	g.Expect(before).To(Equal([]string{"b", "a"}), "one of them may have ended before it held anything")
	g.Expect(second.Disown()).To(Succeed())
	release()
	before, release = claim(g, path, "d")
	g.Expect(before).To(BeEmpty(), "nothing is known after a disowned identity")
	release()
	g.Expect(os.WriteFile(filepath.Join(path, holderFile), []byte("\x00?"), 0o600)).To(Succeed())
	before, release = claim(g, path, "e")
	g.Expect(before).To(BeEmpty(), "a broken one tells nothing")
	release()
	for range 2 * maxPredecessors {
		_, release = claim(g, path, "f")
		release()
	}
	before, release = claim(g, path, "g")
	g.Expect(before).To(HaveLen(maxPredecessors))
	release()
}

// The processes that used the original may be alive, and their identities stand in the copy.
// Edge case: Copied directories made two agents act. Also: TestClaim; agent/internal/clusterstatus TestAProcessGoesOnWithTheLeaseOfItsPredecessor.
func TestACopiedDirectoryKnowsNoPredecessor(t *testing.T) {
	g, path, copied := NewWithT(t), t.TempDir(), t.TempDir()
	_, release := claim(g, path, "a")
	defer release()
	g.Expect(os.CopyFS(copied, os.DirFS(path))).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(copied, holderFile))).To(ContainSubstring("a"))
	before, releaseCopy := claim(g, copied, "b")
	defer releaseCopy()
	g.Expect(before).To(BeEmpty())
}
