package main

import (
	"io"
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

// asProgram makes this test run as the program that it tests.
const asProgram = "HOLLOWFLEET_RELEASE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// smallRepository is a repository with a small plugin, committed and with tag v0.1.0. A script, if one is given, runs instead of the
// compiler, with its command line.
func smallRepository(t *testing.T, script string) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "repository")
	files := map[string]string{
		"go.mod": "module example.com/x\n\ngo 1.26.0\n", "hub/cmd/kubectl-hollow/main.go": "package main\n\nfunc main() {}\n",
		"LICENSE": "x\n", "hack/kubectl_complete-hollow.sh": "x\n", "hack/kubectl_complete-hollow.cmd": "x\n", "CHANGELOG.md": "## v0.1.0\n\n- x\n", ".gitignore": "/bin/\n",
	}
	if script != "" {
		files["hack/progress.sh"] = "#!/usr/bin/env bash\n" + script
	}
	write(t, directory, files, 0o700)
	git(t, directory, "init", "-q")
	git(t, directory, "add", ".")
	git(t, directory, "commit", "-q", "-m", "x")
	git(t, directory, "tag", "v0.1.0")
	return directory
}

func git(t *testing.T, directory string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", append([]string{"-C", directory, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
	command.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-29T12:00:00Z", "GIT_AUTHOR_DATE=2026-11-29T12:00:00Z")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// pluginOf are the arguments for a release of the plugin alone.
func pluginOf(repository, out string) []string {
	return []string{"--root", repository, "--version", "v0.1.0", "--parts", "plugin", "--platforms", "linux_amd64 windows_amd64", "--out", out}
}

// contents are the files below a directory, by name.
func contents(t *testing.T, directory string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if found[entry.Name()] = "directory"; !entry.IsDir() {
			found[entry.Name()] = sumOf(read(t, directory, entry.Name()))
		}
	}
	return found
}

// Claim: A release from another clone is the same, and no release replaces anything: neither an earlier one nor what appears meanwhile. Broken: an earlier release is replaced; what appeared is removed; paths in programs; work left behind.
func TestTwoReleases(t *testing.T) {
	g, parent := NewWithT(t), t.TempDir()
	one, two, foreign := filepath.Join(parent, "one"), filepath.Join(parent, "two"), filepath.Join(parent, "foreign")
	repository := smallRepository(t, "")
	write(t, foreign, map[string]string{"thesis.txt": "x"}, 0o600)
	write(t, parent, map[string]string{".unfinished-one-1/x": "of another run"}, 0o600)
	g.Expect(os.Mkdir(two, 0o755)).To(Succeed(), "an empty directory")

	g.Expect(runRelease(t.Context(), pluginOf(repository, one), io.Discard)).To(Succeed())
	first := contents(t, one)
	g.Expect(first).To(And(HaveLen(7), HaveKey("kubectl-hollow_v0.1.0_linux_amd64.tar.gz"), HaveKey("SHA256SUMS")))
	g.Expect(runRelease(t.Context(), pluginOf(repository, one), io.Discard)).To(MatchError(
		one + " has files, and a release replaces none: name another directory with RELEASE_DIR=, or remove this one yourself"))
	g.Expect(contents(t, one)).To(Equal(first))

	g.Expect(runRelease(t.Context(), pluginOf(smallRepository(t, ""), two), io.Discard)).To(Succeed())
	g.Expect(contents(t, two)).To(Equal(first))

	g.Expect(runRelease(t.Context(), pluginOf(repository, foreign), io.Discard)).To(MatchError(ContainSubstring("has files")))
	g.Expect(runRelease(t.Context(), pluginOf(repository, filepath.Join(foreign, "thesis.txt")), io.Discard)).To(MatchError(ContainSubstring("RELEASE_DIR: ")))
	g.Expect(contents(t, foreign)).To(HaveKey("thesis.txt"))

	late := filepath.Join(parent, "late")
	writer := smallRepository(t, "mkdir -p '"+late+"' && echo x >'"+late+"/x'\nshift 2\nexec \"$@\"\n")
	g.Expect(runRelease(t.Context(), pluginOf(writer, late), io.Discard)).To(MatchError(ContainSubstring("giving the release its name " + late)))
	g.Expect(contents(t, late)).To(Equal(map[string]string{"x": sumOf("x\n")}))
	g.Expect(contents(t, parent)).To(HaveLen(5), "one, two, foreign, late, and the work of another run")
	g.Expect(filepath.Join(parent, ".unfinished-one-1", "x")).To(BeARegularFile())
}

// Claim: A release that is told to end ends what it has started, and leaves nothing. Broken: the signal reaches the first process alone; the work is left.
func TestAReleaseThatIsInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			g, parent := NewWithT(t), t.TempDir()
			started, out := filepath.Join(t.TempDir(), "started"), filepath.Join(parent, "out")
			repository := smallRepository(t, "sleep 600 &\necho $! >"+started+".new\nmv "+started+".new "+started+"\nwait\n")
			own, err := os.Executable()
			g.Expect(err).NotTo(HaveOccurred())
			program := exec.CommandContext(t.Context(), own, pluginOf(repository, out)...)
			program.Env = append(os.Environ(), asProgram+"=1")
			g.Expect(program.Start()).To(Succeed())
			ended := make(chan error, 1)
			go func() { ended <- program.Wait() }()
			g.Eventually(started, 30*time.Second).Should(BeARegularFile())
			child, err := strconv.Atoi(strings.TrimSpace(read(t, started)))
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })

			g.Expect(program.Process.Signal(signal)).To(Succeed())
			g.Eventually(ended, 30*time.Second).Should(Receive(MatchError("exit status 1")))
			g.Eventually(func() error { return syscall.Kill(child, 0) }, 10*time.Second).Should(MatchError(syscall.ESRCH), "what the compiler has started")
			g.Expect(contents(t, parent)).To(BeEmpty())
		})
	}
}
