package walls

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// finding is what the linter says of one line.
type finding struct {
	FromLinter string
	Text       string
	Pos        struct{ Filename string }
}

// TestLinterRefusesPlantedBreach runs the real linter with the repository's configuration over a tree that
// holds every breach, each in a file of its own. "make verify" names the linter in GOLANGCI_LINT.
// Claim: apis stays light. Broken: the wall around apis removed.
// Claim: Hub and agent never import each other. Broken: the wall removed.
// Claim: Only the simulator links k8s.io/kubernetes. Broken: the wall removed. Also: test/layout TestOnlyTheSimulatorRequiresKubernetes.
func TestLinterRefusesPlantedBreach(t *testing.T) {
	linter := os.Getenv("GOLANGCI_LINT")
	if linter == "" {
		t.Skip("GOLANGCI_LINT does not name the linter; make verify does")
	}
	dir := writeTree(t)
	config, err := os.ReadFile("../../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, ".golangci.yml"), string(config))
	files := map[string]plant{}
	for _, p := range plants {
		file := p.file
		if file == "" {
			file = strings.ReplaceAll(p.name, " ", "_") + ".go"
		}
		writePackage(t, dir, p.dir, file, p.imports, p.body)
		files[file] = p
	}

	found := map[string]string{}
	for _, module := range modules {
		for _, f := range lint(t, linter, filepath.Join(dir, module)) {
			file := filepath.Base(f.Pos.Filename)
			if _, planted := files[file]; !planted {
				t.Errorf("%s: %s: %s: but this file keeps every wall", f.Pos.Filename, f.FromLinter, f.Text)
				continue
			}
			found[file] += f.Text + "\n"
		}
	}
	for file, p := range files {
		if !strings.Contains(found[file], p.linter) {
			t.Errorf("%s: the linter let it pass; it said: %q", p.name, found[file])
		}
	}
}

// lint runs the two linters that guard walls in one module.
func lint(t *testing.T, linter, dir string) []finding {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), linter, "run", "--enable-only=depguard,forbidigo",
		"--output.json.path=stdout", "--show-stats=false", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var report struct{ Issues []finding }
	if decodeErr := json.Unmarshal(stdout.Bytes(), &report); decodeErr != nil {
		t.Fatalf("running the linter in %s: %v, %v\n%s%s", dir, err, decodeErr, stdout.Bytes(), stderr.Bytes())
	}
	return report.Issues
}
