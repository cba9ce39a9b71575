package fleettest

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPanicsAreFound(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	_, err := panics(dir)
	g.Expect(err).To(MatchError(ContainSubstring("has no log")))

	write := func(name, text string) {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)).To(Succeed())
	}
	write("hub.log", "level=INFO msg=Starting\nhub: running the hub: leader election lost\nmsg=\"do not panic: all is well\"\n")
	g.Expect(panics(dir)).To(BeEmpty())

	write("agent-c1.log", "level=INFO msg=Starting\npanic: no world\n\ngoroutine 1 [running]:\n")
	write("agent-c2.log", "fatal error: concurrent map writes\n")
	write("hub.log", "level=INFO msg=\"Observed a panic in reconciler: no Machine\"\n")
	g.Expect(panics(dir)).To(ConsistOf(
		"agent-c1.log: panic: no world",
		"agent-c2.log: fatal error: concurrent map writes",
		`hub.log: level=INFO msg="Observed a panic in reconciler: no Machine"`,
	))
}
