package layout_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// runWithProgress runs a script as the program of that name under hack/progress.sh, which is to say something every that many seconds.
func runWithProgress(t *testing.T, every, script string, program ...string) (code int, output string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, program[0]), []byte("#!/bin/sh\n"+script), 0o755)).To(Succeed())
	env := []string{"NOTE=this takes long", "PATH=" + dir + ":" + os.Getenv("PATH")}
	output, err := command(t, env, "hack/progress.sh", append([]string{"job", every}, program...)...)
	exit := &exec.ExitError{}
	if errors.As(err, &exit) {
		return exit.ExitCode(), output
	}
	g.Expect(err).NotTo(HaveOccurred())
	return 0, output
}

// Claim: A warm build is quiet. Broken: the end of a quick one is told.
func TestAWarmBuildIsQuiet(t *testing.T) {
	code, output := runWithProgress(t, "60", "echo example.com/linked >&2", "go", "build", "-v")
	NewWithT(t).Expect([]any{code, output}).To(Equal([]any{0, ""}))
}

// Claim: A slow build shows its progress. Broken: the line is not printed.
// Claim: A failed build fails, and its other output is shown. Broken: exit code 0; every single word taken for a package. Also: TestOutputOfOtherCommandsIsKept.
func TestASlowBuildSaysHowFarItIs(t *testing.T) {
	g := NewWithT(t)
	script := "echo k8s.io/api/core/v1 >&2; echo 'go: downloading example.com/x v1.0.0' >&2; echo '# broken/package' >&2; sleep 2; exit 3"
	code, output := runWithProgress(t, "1", script, "go", "build", "-v")
	g.Expect(code).To(Equal(3), "the exit code of the build")
	g.Expect(output).To(And(
		MatchRegexp(`(?m)^job: this takes long; \d s, 1 modules downloaded, 1 packages compiled$`),
		MatchRegexp(`(?m)^job: failed after \d s, 1 modules downloaded, 1 packages compiled$`),
		ContainSubstring("# broken/package\n"),
		Not(ContainSubstring("k8s.io"))), "what is compiled is counted, not shown")
}

// What is no "go build -v" may print single words that a reader has to see, and a last line without an end.
func TestOutputOfOtherCommandsIsKept(t *testing.T) {
	g := NewWithT(t)
	code, output := runWithProgress(t, "60", "echo FAIL >&2; printf tail >&2; kill -TERM $$", "golangci-lint", "run")
	g.Expect(output).To(Equal("FAIL\ntail"))
	g.Expect(code).To(Equal(128+15), "as a shell tells a signal")
	code, output = runWithProgress(t, "0", "true", "vet")
	g.Expect(code).To(BeZero())
	g.Expect(output).To(MatchRegexp(`(?m)^job: done in \d+ s$`), "nothing is counted")
}

func TestProgressEndsWithItsCommand(t *testing.T) {
	g := NewWithT(t)
	started := time.Now()
	code, output := runWithProgress(t, "60", "sleep 20 >&2 & echo $! >&2", "left-behind")
	g.Expect(code).To(BeZero())
	left, err := strconv.Atoi(strings.TrimSpace(output))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = syscall.Kill(left, syscall.SIGKILL) }()
	g.Expect(time.Since(started)).To(BeNumerically("<", 15*time.Second), "a process that is left behind and has the pipe open is not waited for")

	pid := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "hack/progress.sh"), "job", "60", "sh", "-c", "echo $$ >"+pid+"; exec sleep 60")
	g.Expect(cmd.Start()).To(Succeed())
	g.Eventually(pid).Should(BeAnExistingFile())
	g.Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	exit := &exec.ExitError{}
	g.Expect(errors.As(cmd.Wait(), &exit)).To(BeTrue())
	g.Expect(exit.ExitCode()).To(Equal(128+15), "it hands the signal on and waits for the command")
}
