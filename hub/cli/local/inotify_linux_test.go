package local

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: An inotify shortage is named. Broken: a workload cluster takes 2 instances.
func TestAShortageOfInotifyInstancesIsNamed(t *testing.T) {
	g := NewWithT(t)
	proc := t.TempDir()
	g.Expect(inotifyShortage(proc, 50)).To(BeEmpty(), "the kernel does not tell")
	limit := filepath.Join(proc, inotifyLimitFile)
	g.Expect(os.MkdirAll(filepath.Dir(limit), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(limit, []byte("128\n"), 0o644)).To(Succeed())
	g.Expect(inotifyShortage(proc, 10)).To(BeEmpty(), "9 + 10 × 11 are 119")
	g.Expect(inotifyShortage(proc, 11)).To(ContainSubstring("fs.inotify.max_user_instances is 128, of which 0 are in use, and this fleet needs 130 more"))

	open := filepath.Join(proc, "4711", "fd")
	g.Expect(os.MkdirAll(open, 0o755)).To(Succeed())
	for i := range 100 {
		g.Expect(os.Symlink("anon_inode:inotify", filepath.Join(open, fmt.Sprint(i)))).To(Succeed())
		g.Expect(os.Symlink("/dev/null", filepath.Join(open, fmt.Sprint(1000+i)))).To(Succeed())
	}
	g.Expect(inotifyShortage(proc, 3)).To(And(ContainSubstring("of which 100 are in use, and this fleet needs 42 more"), ContainSubstring("sysctl -w fs.inotify.max_user_instances=512")))
}
