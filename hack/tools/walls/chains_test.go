// Package walls tests the walls between the parts of the repository: who may import whom. Depguard, in .golangci.yml, keeps
// them import by import, and what its rules allow in no file, no chain of imports between files can bring in. Two ways
// round it remain, through packages that are under none of its rules, and the go command sees those here.
package walls

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the path of the root module; the others have paths below it.
const (
	root      = "github.com/hollowfleet/hollowfleet"
	apis      = root + "/apis"
	simulator = root + "/agent/simulator"
)

// modules are the directories of the modules whose imports have rules.
var modules = []string{".", "apis", "agent/simulator"}

// chains are what no package below a directory of the root module reaches, tests included.
var chains = []struct {
	packages string
	never    []string
}{
	{"./hub/...", []string{root + "/agent"}},
	{"./agent/...", []string{root + "/hub"}},
	{"./internal/...", []string{root + "/hub", root + "/agent"}},
	{"./...", []string{"k8s.io/kubernetes", simulator}},
}

// reached returns what packages below dir reach of what they must not.
func reached(t *testing.T, dir, packages string, never []string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", packages)
	command.Dir, command.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("listing what %s imports: %v", packages, err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(path string) bool {
		return !slices.ContainsFunc(never, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
	})
}

func TestNoChainOfImportsGoesRoundAWall(t *testing.T) {
	for _, chain := range chains {
		if found := reached(t, "../../..", chain.packages, chain.never); len(found) > 0 {
			t.Errorf("%s reaches %v", chain.packages, found)
		}
	}
}

func TestAChainOfImportsIsSeen(t *testing.T) {
	dir := writeTree(t)
	for _, chain := range chains {
		if found := reached(t, dir, chain.packages, chain.never); len(found) > 0 {
			t.Errorf("%s reaches %v in a tree that keeps every wall", chain.packages, found)
		}
	}
	writePackage(t, dir, "hub/internal/planted", "planted.go", []string{root + "/test/support"}, "")
	writePackage(t, dir, "agent/internal/planted", "planted_test.go", []string{root + "/test/hubsupport"}, "")
	writePackage(t, dir, "test/hubsupport", "lawful.go", []string{root + "/hub"}, "")
	writePackage(t, dir, "internal/planted", "planted.go", []string{root + "/test/support"}, "")
	writePackage(t, filepath.Clean(dir), "test/demo", "planted.go", []string{"example.com/wrapper/kubelet"}, "")
	for _, chain := range chains {
		if found := reached(t, dir, chain.packages, chain.never); len(found) == 0 {
			t.Errorf("%s: the planted breach was not seen", chain.packages)
		}
	}
}
