package localfleet_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

func TestDownEndsWhatAnotherProcessStarted(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "fleet")
	p, err := process.Start(process.Spec{
		Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "while :; do sleep 0.05; done"}, LogFile: filepath.Join(t.TempDir(), "log"),
	})
	g.Expect(err).NotTo(HaveOccurred())
	identity, err := p.Identity()
	g.Expect(err).NotTo(HaveOccurred())
	reused := identity
	reused.StartTicks++
	mark(g, dir, localfleet.State{Processes: []process.Identity{reused}})
	_, err = localfleet.Down(ctx, dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(identity.Alive()).To(BeTrue(), "a process that only has the same ID is another's")

	mark(g, dir, localfleet.State{Processes: []process.Identity{identity}})
	_, err = localfleet.Down(ctx, dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(identity.Alive()).To(BeFalse())
	g.Expect(dir).NotTo(BeADirectory())

	_, err = localfleet.Down(ctx, dir)
	g.Expect(err).To(MatchError(localfleet.ErrNoFleet), "without a fleet there is nothing to do")
}

func TestUpEndsWhatItStartedWhenAProgramIsMissing(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	_, err := localfleet.Up(context.Background(), localfleet.Options{Dir: dir, Programs: localfleet.Programs{BinDir: t.TempDir()}, Clusters: []string{"c1"}})
	g.Expect(err).To(MatchError(ContainSubstring("simcluster")))
	g.Expect(dir).NotTo(BeADirectory())
}

// mark puts a fleet into dir.
func mark(g Gomega, dir string, state localfleet.State) {
	_, err := localfleet.Take(dir, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writeState(dir, state)).To(Succeed())
}

func writeState(dir string, state localfleet.State) error {
	content, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "fleet.json"), content, 0o600)
}

func TestWhichFleetsCanBeStartedAgain(t *testing.T) {
	g := NewWithT(t)
	self, err := process.Self()
	g.Expect(err).NotTo(HaveOccurred())
	ended := self
	ended.StartTicks++
	other := process.Identity{PID: self.PID + 1<<22}
	args := []string{"local", "keep"}
	for name, test := range map[string]struct {
		state localfleet.State
		want  []string
	}{
		"its keeper has ended":               {localfleet.State{CameUp: true, Keeper: &ended, Owner: ended, KeeperArgs: args}, args},
		"while it was being started again":   {localfleet.State{CameUp: true, Ready: false, Keeper: &ended, Owner: ended, KeeperArgs: args}, args},
		"its keeper runs":                    {localfleet.State{CameUp: true, Keeper: &self, Owner: self, KeeperArgs: args}, nil},
		"it has never come up":               {localfleet.State{Keeper: &ended, Owner: ended, KeeperArgs: args}, nil},
		"it is of an earlier version":        {localfleet.State{CameUp: true, Keeper: &ended, Owner: ended}, nil},
		"it has no keeper":                   {localfleet.State{CameUp: true, Owner: ended, KeeperArgs: args}, nil},
		"what it was for has ended":          {localfleet.State{CameUp: true, Keeper: &ended, Owner: other, KeeperArgs: args}, nil},
		"what it was for, and it runs still": {localfleet.State{CameUp: true, Keeper: &other, Owner: self, KeeperArgs: args}, args},
	} {
		g.Expect(test.state.Resumable()).To(Equal(test.want), name)
	}
}
