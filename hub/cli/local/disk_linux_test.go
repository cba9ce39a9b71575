package local

import (
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: `local status` exits 1 while the file system is full. Broken: new.
func TestAFullFileSystemIsNamed(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		free, size, inodes, allInodes uint64
		says                          string
	}{
		"full":                     {0, 40, 100, 1000, "0 of 40 MiB are free"},
		"nearly full":              {19, 400, 100, 1000, "19 of 400 MiB are free"},
		"enough for a small one":   {21, 400, 100, 1000, ""},
		"a large one":              {2048, 100_000, 100, 1000, ""},
		"a large one that is full": {1000, 100_000, 100, 1000, "1000 of 100000 MiB are free"},
		"no inodes":                {200, 400, 1, 1000, "1 of 1000 inodes are free"},
		"one without inodes":       {200, 400, 0, 0, ""},
		"no size":                  {0, 0, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := refuseFullDisk("/fleet", &syscall.Statfs_t{Bsize: mib, Bavail: c.free, Blocks: c.size, Ffree: c.inodes, Files: c.allInodes})
			if c.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(And(ContainSubstring("the file system of /fleet is full: "+c.says), ContainSubstring("free some space"))))
		})
	}
	NewWithT(t).Expect(checkDisk(t.TempDir() + "/missing")).To(Succeed())
}
