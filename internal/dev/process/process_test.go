package process_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

const patience = 2 * time.Minute

func startShell(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, LogFile: filepath.Join(t.TempDir(), "logs", "script.log"),
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-p.Done()
	})
	return p
}

func waitForLog(g Gomega, p *process.Process, text string) {
	g.Eventually(func() ([]byte, error) { return os.ReadFile(p.LogFile()) }, patience).Should(ContainSubstring(text))
}

func TestStopAsksFirst(t *testing.T) {
	g := NewWithT(t)
	p := startShell(t, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	waitForLog(g, p, "up")
	g.Expect(p.Stop(patience)).To(Succeed())
	g.Expect(p.Done()).To(BeClosed())
	waitForLog(g, p, "bye")
	g.Expect(p.Stop(patience)).To(Succeed(), "ending what has ended is no error")
}

func TestStopKillsWhatDoesNotListenAndSaysSo(t *testing.T) {
	g := NewWithT(t)
	p := startShell(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	waitForLog(g, p, "up")
	g.Expect(p.Stop(200 * time.Millisecond)).To(MatchError(ContainSubstring("killed")))
	g.Expect(p.Done()).To(BeClosed())
}

func TestWaitShowsTheLogOfAProgramThatEnds(t *testing.T) {
	g := NewWithT(t)
	p := startShell(t, `echo the port is taken >&2; exit 3`)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := p.Wait(ctx, 10*time.Millisecond, func(context.Context) (bool, error) { return false, nil })
	g.Expect(err).To(MatchError(And(ContainSubstring("script ended while starting"), ContainSubstring("exit status 3"), ContainSubstring("the port is taken"))))
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	g := NewWithT(t)
	_, err := process.Start(process.Spec{Name: "hub", Path: "/does/not/exist", LogFile: filepath.Join(t.TempDir(), "log")})
	g.Expect(err).To(MatchError(And(ContainSubstring("starting hub"), ContainSubstring("/does/not/exist"))))
}

func TestIdentity(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := startShell(t, `while :; do sleep 0.05; done`)
	identity, err := p.Identity()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(identity.Alive()).To(BeTrue())

	another := identity
	another.StartTicks++
	g.Expect(another.Alive()).To(BeFalse(), "a process of the same ID that started at another time is another")
	g.Expect(another.End(ctx, patience)).To(Succeed())
	g.Expect(identity.Alive()).To(BeTrue(), "another's process is left alone")

	g.Expect(identity.End(ctx, patience)).To(Succeed())
	g.Expect(identity.Alive()).To(BeFalse())
	g.Expect(identity.End(ctx, patience)).To(Succeed(), "ending what has ended is no error")
}

func TestTailKeepsTheLastLines(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "log")
	g.Expect(os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600)).To(Succeed())
	g.Expect(process.Tail(path, 2)).To(Equal("two\nthree"))
	g.Expect(process.Tail(path+".gone", 2)).To(ContainSubstring("no such file"))
}
