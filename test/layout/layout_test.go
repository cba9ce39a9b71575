// Package layout_test keeps the promises of the repository itself: what a newcomer finds, and what continuous
// integration runs.
package layout_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// command runs in the repository, and is no child of a make that runs this test.
func command(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// Claim: `make help` lists every target, and each can be made. Broken: one target not listed; one renamed.
func TestMakeHelpListsTheTargets(t *testing.T) {
	g := NewWithT(t)
	help, err := command(t, nil, "make", "help")
	g.Expect(err).NotTo(HaveOccurred(), help)
	for _, target := range []string{
		"help", "build", "generate", "manifests", "lint", "test", "test-unit", "test-integration", "bench", "verify", "test-browser", "demo", "demo-down", "e2e", "images", "images-load", "charts", "release",
	} {
		g.Expect(help).To(MatchRegexp(`(?m)^  `+target+` +\S`), "make help must list it with a line of its own")
		plan, err := command(t, nil, "make", "--dry-run", target)
		g.Expect(err).NotTo(HaveOccurred(), "make %s:\n%s", target, plan)
	}
}

// Claim: The README starts with both commands, needs and times. Broken: `make test` renamed in the README.
func TestReadmeBeginsWithBothCommands(t *testing.T) {
	g := NewWithT(t)
	readme := read(t, "README.md")
	_, rest, found := strings.Cut(readme, "```sh\n")
	g.Expect(found).To(BeTrue())
	first, after, _ := strings.Cut(rest, "```")
	g.Expect(first).To(And(ContainSubstring("make demo"), ContainSubstring("make test")), "the first commands that a reader sees")
	needs, _, _ := strings.Cut(after, "```")
	g.Expect(needs).To(And(ContainSubstring("Go 1.26"), ContainSubstring("git"), ContainSubstring("make"), ContainSubstring("minutes")),
		"with what they need and how long they take")
	g.Expect(needs).To(ContainSubstring("`kubectl`"), "and what it is good for to have")
	g.Expect(after).To(MatchRegexp(`(?s)PROMISE.*KEPT.*yes`), "the demo's real output")
}

// Claim: Apache-2.0, `.gitignore`. Broken: LICENSE removed; `bin` not ignored.
func TestLicenceAndIgnoredFiles(t *testing.T) {
	g := NewWithT(t)
	g.Expect(read(t, "LICENSE")).To(And(ContainSubstring("Apache License"), ContainSubstring("Version 2.0")))
	g.Expect(read(t, ".gitignore")).To(ContainSubstring("/bin/"))
}

// The real make and git are left out: what matters is what is called, and what happens to a failure.
// Claim: `.ci/run` runs tests, verify, an older kubelet and, with Chromium and Docker, test-browser and e2e, says what it leaves out, and fails if one fails. Broken: verify left out; a failure ignored; `make e2e` left out; `make test-minors` left out; `make test-browser` left out without a word.
// Claim: Go's own closing lines are printed. Broken: the output of go test goes to the log alone; that of make to a file. Also: TestGosClosingLinesAreShown.
func TestContinuousIntegrationTestsAndVerifies(t *testing.T) {
	for name, c := range map[string]struct {
		failing         string
		docker, browser bool
		want            string
	}{
		"all well":               {"", false, false, "test\nverify\ntest-minors\n"},
		"a test fails":           {"test", false, false, "test\nverify\ntest-minors\n"},
		"verify fails":           {"verify", false, false, "test\nverify\ntest-minors\n"},
		"an older kubelet fails": {"test-minors", false, false, "test\nverify\ntest-minors\n"},
		"there is Docker":        {"", true, false, "test\nverify\ntest-minors\ne2e\n"},
		"it fails where that is": {"e2e", true, false, "test\nverify\ntest-minors\ne2e\n"},
		"there is Chromium":      {"", false, true, "test\nverify\ntest-browser\ntest-minors\n"},
		"a page is broken":       {"test-browser", true, true, "test\nverify\ntest-browser\ntest-minors\ne2e\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			calls := filepath.Join(dir, "calls")
			scripts := map[string]string{
				"make":    "echo \"$*\" >>" + calls + "\nprintf 'ok  \\t%s\\t0.1s\\n' $*\n[ \"$*\" != \"" + c.failing + "\" ]\n",
				"docker":  fmt.Sprintf("[ %v = true ]\n", c.docker),
				"apt-get": "exit 100\n", "git": "", "go": "",
			}
			if c.browser {
				scripts["chromium"] = ""
			}
			for script, text := range scripts {
				g.Expect(os.WriteFile(filepath.Join(dir, script), []byte("#!/bin/sh\n"+text), 0o755)).To(Succeed())
			}
			for _, tool := range []string{"bash", "sh", "dirname", "mktemp", "timeout", "tail", "cat", "rm"} {
				path, err := exec.LookPath(tool)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(os.Symlink(path, filepath.Join(dir, tool))).To(Succeed())
			}
			output, err := command(t, []string{"PATH=" + dir}, "./.ci/run")
			g.Expect(err == nil).To(Equal(c.failing == ""), output)
			called, err := os.ReadFile(calls)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(called)).To(Equal(c.want), "all run, also when the first one fails")
			g.Expect(output).To(And(ContainSubstring("\nok  \ttest\t0.1s\n"), ContainSubstring("\nok  \tverify\t0.1s\n")), "what they print is shown as it is")
			_, summary, _ := strings.Cut(output, "=== summary\n")
			g.Expect(strings.Contains(summary, "left out: no Docker engine answers")).To(Equal(!c.docker), output)
			g.Expect(regexp.MustCompile(`make test-browser +left out: Chromium `).MatchString(summary)).To(Equal(!c.browser), output)
		})
	}
}

// What runs the tests is a copy of ours, with a go that is a script.
func TestGosClosingLinesAreShown(t *testing.T) {
	for name, test := range map[string]struct {
		line, code, verdict string
		passes              bool
	}{
		"all pass":   {`ok  \texample.com/%s\t0.1s`, "0", "ok    apis           1 packages passed, 0 failed", true},
		"some fail":  {`FAIL\texample.com/%s\t0.1s`, "1", "FAIL  apis           0 packages passed, 1 failed", false},
		"none found": {`?   \texample.com/%s\t[no test files]`, "0", "FAIL  apis           0 packages passed, 0 failed", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			for file, content := range map[string]string{
				"hack/test.sh":     read(t, "hack/test.sh"),
				"hack/progress.sh": read(t, "hack/progress.sh"),
				"hack/goenv.sh":    read(t, "hack/goenv.sh"),
				"path/go": "#!/bin/sh\n[ $1 = env ] && exit\n[ $1 = list ] && { echo example.com/x; exit; }\n" +
					"printf '" + test.line + "\\n' $(basename $PWD)\nexit " + test.code + "\n",
				"path/simcluster": "#!/bin/sh\n",
				"apis/.keep":      "", "internal/owneddir/.keep": "", "hack/tools/.keep": "", "hack/release/.keep": "", "agent/simulator/.keep": "",
			} {
				g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755)).To(Succeed())
				g.Expect(os.WriteFile(filepath.Join(dir, file), []byte(content), 0o755)).To(Succeed())
			}
			programs := filepath.Join(dir, "path")
			output, err := command(t, []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOLLOWFLEET_BIN=" + programs}, filepath.Join(dir, "hack/test.sh"), "unit")
			g.Expect(err == nil).To(Equal(test.passes), output)
			for _, suite := range []string{"apis", "owneddir", "tools", "release", "simulator", filepath.Base(dir)} {
				g.Expect(output).To(ContainSubstring("\n"+strings.ReplaceAll(fmt.Sprintf(test.line, suite), `\t`, "\t")+"\n"), "go's own line")
			}
			g.Expect(output).To(ContainSubstring(test.verdict))
		})
	}
}

// hub and agent must be built without waiting for Kubernetes, which the simulator's module alone requires.
func TestOnlyTheSimulatorRequiresKubernetes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(read(t, "agent/simulator/go.mod")).To(MatchRegexp(`(?m)^\s*k8s\.io/kubernetes v`))
	for _, module := range []string{"go.mod", "apis/go.mod", "internal/owneddir/go.mod"} {
		g.Expect(read(t, module)).NotTo(MatchRegexp(`k8s\.io/kubernetes\s`), module)
	}
	for _, module := range []string{".", "./apis", "./internal/owneddir"} {
		g.Expect(read(t, "go.work")).To(MatchRegexp(`(?m)^\s*` + module + `$`))
	}
}

// A join token, or an administrator's key, lands beside the code when the documentation's commands are followed there.
// Claim: Kubeconfigs are not committed by accident. Broken: the line of .gitignore removed.
func TestKubeconfigsAreIgnoredByGit(t *testing.T) {
	for _, name := range []string{"c1.kubeconfig", "charts/hub.kubeconfig"} {
		output, err := command(t, nil, "git", "check-ignore", name)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s: %s", name, output)
	}
}

// codeBlocks are the blocks of commands of README and docs, by their pages.
func codeBlocks(t *testing.T) map[string][]string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	blocks := map[string][]string{}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		name, err := filepath.Rel(root, page)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for i, part := range strings.Split(read(t, name), "```") {
			if i%2 == 1 {
				blocks[name] = append(blocks[name], part)
			}
		}
	}
	return blocks
}

// A kubeconfig that a shell writes is readable by every user, unless the shell is told otherwise.
// Claim: Docs write kubeconfigs for their owner only. Broken: no umask before the redirection.
// Edge case: A kubeconfig of system:masters had the mode 0644.
func TestDocsWriteKubeconfigsForTheirOwnerOnly(t *testing.T) {
	redirected := 0
	for page, blocks := range codeBlocks(t) {
		for _, block := range blocks {
			if writes := strings.Index(block, "> "); writes >= 0 && strings.Contains(strings.SplitN(block[writes:], "\n", 2)[0], ".kubeconfig") {
				redirected++
				NewWithT(t).Expect(block[:writes]).To(ContainSubstring("umask 077\n"), "%s: %s", page, block)
			}
		}
	}
	NewWithT(t).Expect(redirected).NotTo(BeZero(), "no page writes one any more")
}

// What a first installation on real clusters stumbled over.
// Claim: Docs say what a first installation waits for. Broken: each of its sentences left out; a wait of 30 seconds, which is kubectl's default.
func TestDocsSayWhatAnInstallationWaitsFor(t *testing.T) {
	g := NewWithT(t)
	for page, said := range map[string][]string{
		"docs/install.md":    {"`kind export kubeconfig --name c1 --kubeconfig c1.kubeconfig`", "An agent that cannot reach the hub tries again after at most 2 minutes."},
		"docs/operations.md": {"A new leader makes no Machine in a cluster until the agent has renewed its Lease twice, up to 20 seconds."},
	} {
		text := strings.Join(strings.Fields(read(t, page)), " ")
		for _, each := range said {
			g.Expect(text).To(ContainSubstring(each), page)
		}
		g.Expect(text).NotTo(ContainSubstring("has not passed"), "%s: a row that was not tried says so in the notes of a release", page)
	}
	waits := 0
	for page, blocks := range codeBlocks(t) {
		for _, block := range blocks {
			for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
				if strings.Contains(line, "kubectl wait ") {
					waits++
					g.Expect(line).To(ContainSubstring("--timeout"), page)
				}
			}
		}
	}
	g.Expect(waits).NotTo(BeZero())
}
