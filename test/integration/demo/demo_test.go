// Package demo runs the demo program as a newcomer does: to its end, interrupted, twice, and kept.
package demo

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	r.leavesNothing(t)
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
	text := kept.output.String()
	dir := filepath.Join(temp, fmt.Sprintf("hollowfleet-demo-%d", os.Getuid()))
	for _, name := range []string{"hub", "c1", "c2", "c3"} {
		shown := regexp.MustCompile(`(?m)^  ` + name + ` +(` + dir + `/\S+)$`).FindStringSubmatch(text)
		g.Expect(shown).NotTo(BeNil(), "the kubeconfig of %s in: %s", name, text)
		config, err := clientcmd.BuildConfigFromFlags("", shown[1])
		g.Expect(err).NotTo(HaveOccurred())
		c, err := client.New(config, client.Options{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.List(t.Context(), &corev1.NamespaceList{})).To(Succeed(), "the API server of %s answers", name)
	}
	hollow, err := testenv.Binary("kubectl-hollow")
	g.Expect(err).NotTo(HaveOccurred())
	commands := regexp.MustCompile(`(?m)^  bin/kubectl-hollow (.*)$`).FindAllStringSubmatch(text, -1)
	g.Expect(commands).To(HaveLen(2), text)
	for _, command := range commands {
		output, err := exec.CommandContext(t.Context(), hollow, strings.Fields(command[1])...).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "%s: %s", command[0], output)
		g.Expect(string(output)).To(And(ContainSubstring("c1"), ContainSubstring("c3")))
	}
	g.Expect(strings.Count(text, "\n  kubectl --kubeconfig "+dir)).To(Equal(3), "commands for kubectl in: %s", text)
	g.Expect(text).To(ContainSubstring("make demo-down"))
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
