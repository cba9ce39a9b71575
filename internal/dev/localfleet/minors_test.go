package localfleet_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// Claim: A local fleet has the hollow nodes of other minors that are built. Broken: a program is not asked for its version; one that is wrong hides the others.
func TestFindMinors(t *testing.T) {
	g := NewWithT(t)
	bin := t.TempDir()
	for path, script := range map[string]string{
		"hollow-node":       "echo v1.37.1",
		"v1.36/hollow-node": "echo v1.36.3",
		"v1.35/hollow-node": "echo v1.37.1",
		"v1.34/hollow-node": "exit 3",
		"v1.x/hollow-node":  "echo v1.36.3",
	} {
		file := filepath.Join(bin, path)
		g.Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700)).To(Succeed()) //nolint:gosec // It is a program.
	}
	found, err := localfleet.FindMinors(t.Context(), bin)
	g.Expect(found).To(Equal(map[string]string{"1.36": filepath.Join(bin, "v1.36")}))
	g.Expect(err).To(MatchError(And(
		ContainSubstring("v1.35/hollow-node is not a hollow-node of Kubernetes 1.35: it has the kubelet code of \"v1.37.1\": run make build-simulator MINORS=1.35, or remove it"),
		ContainSubstring("v1.34/hollow-node is not a hollow-node of Kubernetes 1.34: exit status 3"))))

	found, err = localfleet.FindMinors(t.Context(), t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeEmpty())
}
