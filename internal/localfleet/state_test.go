package localfleet_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/process"
)

func TestDownEndsWhatAnotherProcessStarted(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "fleet")
	p, err := process.Start(process.Spec{
		Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "while :; do sleep 0.05; done"}, LogFile: filepath.Join(dir, "log"),
	})
	g.Expect(err).NotTo(HaveOccurred())
	identity, err := p.Identity()
	g.Expect(err).NotTo(HaveOccurred())
	reused := identity
	reused.StartTicks++
	g.Expect(writeState(dir, localfleet.State{Processes: []process.Identity{reused}})).To(Succeed())
	g.Expect(localfleet.Down(ctx, dir)).To(Succeed())
	g.Expect(identity.Alive()).To(BeTrue(), "a process that only has the same ID is another's")

	g.Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	g.Expect(writeState(dir, localfleet.State{Processes: []process.Identity{identity}})).To(Succeed())
	g.Expect(localfleet.Down(ctx, dir)).To(Succeed())
	g.Expect(identity.Alive()).To(BeFalse())
	g.Expect(dir).NotTo(BeADirectory())

	g.Expect(localfleet.Down(ctx, dir)).To(Succeed(), "without a fleet there is nothing to do")
}

func TestUpEndsWhatItStartedWhenAProgramIsMissing(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	_, err := localfleet.Up(context.Background(), localfleet.Options{Dir: dir, BinDir: t.TempDir(), Clusters: []string{"c1"}})
	g.Expect(err).To(MatchError(ContainSubstring("simcluster")))
	g.Expect(dir).NotTo(BeADirectory())
}

func writeState(dir string, state localfleet.State) error {
	content, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "fleet.json"), content, 0o600)
}
