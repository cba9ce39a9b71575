// Package demo runs the demo program as a newcomer does: to its end, interrupted, twice, and kept.
package demo

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/testenv"
)

const patience = 6 * time.Minute

// run is one demo program with a temporary directory of its own, so that what it leaves behind is seen.
type run struct {
	*exec.Cmd
	temp   string
	output *safeBuffer
}

func start(t *testing.T, temp string, args ...string) *run {
	t.Helper()
	g := NewWithT(t)
	bin, err := testenv.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	program, err := testenv.Binary("demo")
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := &run{Cmd: exec.CommandContext(ctx, program, append(args, "--bin-dir", bin)...), temp: temp, output: &safeBuffer{}}
	r.Env = append(os.Environ(), "TMPDIR="+temp)
	r.Stdout, r.Stderr = r.output, r.output
	g.Expect(r.Start()).To(Succeed())
	return r
}

// leavesNothing asks that no process of the run is there any more, and no file.
func (r *run) leavesNothing(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(testenv.ProcessesUnder(r.temp)).To(BeEmpty(), "processes left behind")
	entries, err := os.ReadDir(r.temp)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(BeEmpty(), "files left behind")
}

func TestDemoRunsToItsEnd(t *testing.T) {
	g := NewWithT(t)
	// The ports that Kubernetes is known by are taken: the demo must not mind.
	for _, port := range []string{"2379", "2380", "6443", "8080", "8081", "10250", "10257", "10259", "10248"} {
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			defer listener.Close()
		}
	}
	r := start(t, t.TempDir())
	g.Expect(r.Wait()).To(Succeed(), r.output.String)
	text := r.output.String()
	g.Expect(text).To(ContainSubstring("CHECKED"))
	g.Expect(text).NotTo(ContainSubstring("NO\n"))
	g.Expect(strings.Count(text, " yes\n")).To(Equal(32), text)
	r.leavesNothing(t)
}

func TestDemoIsInterruptedAndRunsAgain(t *testing.T) {
	g := NewWithT(t)
	temp := t.TempDir()
	for _, moment := range []string{"control plane ready", "created MachineDeployment"} {
		r := start(t, temp)
		g.Eventually(r.output.String, patience).Should(ContainSubstring(moment))
		g.Expect(r.Process.Signal(syscall.SIGINT)).To(Succeed())
		var exit *exec.ExitError
		g.Expect(r.Wait()).To(BeAssignableToTypeOf(exit))
		g.Expect(r.ProcessState.ExitCode()).To(Equal(130), r.output.String)
		r.leavesNothing(t)
	}

	again := start(t, temp)
	g.Expect(again.Wait()).To(Succeed(), again.output.String)
	again.leavesNothing(t)
}

func TestDemoLeavesNoProcessWhenItIsKilled(t *testing.T) {
	g := NewWithT(t)
	temp := t.TempDir()
	r := start(t, temp)
	g.Eventually(r.output.String, patience).Should(ContainSubstring("3 Nodes, all Ready (c1)"))
	g.Expect(r.Process.Kill()).To(Succeed())
	g.Expect(r.Wait()).NotTo(Succeed())
	g.Eventually(func() []string { return testenv.ProcessesUnder(temp) }, patience).Should(BeEmpty())
	down := start(t, temp, "down")
	g.Expect(down.Wait()).To(Succeed(), down.output.String)
	down.leavesNothing(t)
}

func TestDemoKeepsTheFleetUntilItIsEnded(t *testing.T) {
	g := NewWithT(t)
	temp := t.TempDir()
	kept := start(t, temp, "--keep")
	t.Cleanup(func() {
		if err := start(t, temp, "down").Wait(); err != nil {
			t.Error(err)
		}
	})
	g.Expect(kept.Wait()).To(Succeed(), kept.output.String)
	g.Expect(kept.output.String()).To(ContainSubstring("make demo-down"))
	g.Expect(testenv.ProcessesUnder(temp)).NotTo(BeEmpty(), "the fleet stays up")

	down := start(t, temp, "down")
	g.Expect(down.Wait()).To(Succeed(), down.output.String)
	down.leavesNothing(t)
}

// safeBuffer may be written by a program while a test reads it.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
