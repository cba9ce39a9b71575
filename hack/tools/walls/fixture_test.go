package walls

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// A small copy of the repository's shape: the same module paths and directories, one line per package, and
// stand-ins for the libraries that the walls name.

// libraries are the stand-ins: module path to the packages in it.
var libraries = map[string][]string{
	"k8s.io/kubernetes":              {"pkg/kubelet"},
	"k8s.io/client-go":               {"kubernetes"},
	"k8s.io/apimachinery":            {"pkg/types"},
	"k8s.io/api":                     {"core/v1"},
	"open-cluster-management.io/api": {"cluster/v1alpha1"},
	"sigs.k8s.io/controller-runtime": {"pkg/client"},
	"example.com/wrapper":            {"kubelet"},
}

// lawful are packages that stay within every wall: directory to imports. The standard library is "time".
var lawful = map[string][]string{
	"apis/v1alpha1":                    {"time", "k8s.io/apimachinery/pkg/types", "k8s.io/api/core/v1", "open-cluster-management.io/api/cluster/v1alpha1"},
	"apis/hollownode":                  {root + "/apis/v1alpha1"},
	"internal/conditions":              {root + "/apis/v1alpha1", "k8s.io/client-go/kubernetes"},
	"config":                           {"embed"},
	"hub":                              {root + "/internal/conditions", root + "/config", root + "/hub/internal/machineset"},
	"hub/internal/machineset":          {"time", root + "/hub/internal/machineset/plan", "sigs.k8s.io/controller-runtime/pkg/client"},
	"hub/internal/machineset/plan":     {"time", root + "/apis/v1alpha1", "k8s.io/apimachinery/pkg/types", "open-cluster-management.io/api/cluster/v1alpha1"},
	"hub/internal/controlplane":        {"k8s.io/client-go/kubernetes"},
	"agent/driver":                     {root + "/apis/v1alpha1"},
	"agent":                            {root + "/internal/conditions", root + "/agent/driver"},
	"agent/simulator/cmd/simcluster":   {"k8s.io/kubernetes/pkg/kubelet", root + "/apis/hollownode", root + "/agent/simulator/internal/process"},
	"agent/simulator/internal/process": {"time"},
	"test/integration":                 {root + "/hub", root + "/agent"},
}

// plant is one forbidden import or call added to the lawful tree, in a package of its own that no other imports, so that
// all of them together still compile.
type plant struct {
	name string
	// file is the name of the file. Empty: it is made from name.
	file string
	// dir is the package that gets the forbidden file.
	dir string
	// imports are those of the file; body is the rest of it.
	imports []string
	body    string
	// linter is a part of the linter's message.
	linter string
}

var plants = []plant{
	{name: "apis imports a client", dir: "apis/planted1", imports: []string{"k8s.io/client-go/kubernetes"},
		linter: "not allowed from list 'apis-stay-light'"},
	{name: "apis imports the root module", dir: "apis/planted2", imports: []string{root + "/internal/conditions"},
		linter: "not allowed from list 'apis-stay-light'"},
	{name: "internal imports hub", dir: "internal/planted1", imports: []string{root + "/hub"},
		linter: "not allowed from list 'internal-is-below-hub-and-agent'"},
	{name: "internal imports agent", dir: "internal/planted2", imports: []string{root + "/agent/driver"},
		linter: "not allowed from list 'internal-is-below-hub-and-agent'"},
	{name: "hub imports agent", dir: "hub/internal/planted1", imports: []string{root + "/agent/driver"},
		linter: "not allowed from list 'hub-without-agent'"},
	{name: "agent imports hub", dir: "agent/internal/planted1", imports: []string{root + "/hub"},
		linter: "not allowed from list 'agent-without-hub'"},
	{name: "a planner imports a client", dir: "hub/internal/planted/rolloutplan", imports: []string{"sigs.k8s.io/controller-runtime/pkg/client"},
		linter: "not allowed from list 'planners-are-pure'"},
	{name: "a policy imports a shared package", dir: "agent/internal/freezepolicy", imports: []string{root + "/internal/conditions"},
		linter: "not allowed from list 'planners-are-pure'"},
	{name: "a planner reads the clock", dir: "hub/internal/planted/planner", imports: []string{"clock time"}, body: "var now = clock.Now()",
		linter: "planners and policies read no clock"},
	{name: "a policy measures time", dir: "hub/internal/policy", imports: []string{"time"}, body: "func age(t time.Time) time.Duration { return time.Since(t) }\nvar _ = age",
		linter: "planners and policies read no clock"},
	{name: "a file of a policy imports a client", file: "policy_planted.go", dir: "hub/internal/planted3", imports: []string{"sigs.k8s.io/controller-runtime/pkg/client"},
		linter: "not allowed from list 'planners-are-pure'"},
	{name: "a file of a plan reads the clock", file: "plan.go", dir: "agent/internal/planted3", imports: []string{"clock time"}, body: "var now = clock.Now()",
		linter: "planners and policies read no clock"},
	{name: "hub links Kubernetes", dir: "hub/cmd/hub", imports: []string{"k8s.io/kubernetes/pkg/kubelet"},
		linter: "not allowed from list 'kubernetes-in-the-simulator-only'"},
	{name: "agent imports the simulator", dir: "agent/internal/planted2", imports: []string{root + "/agent/simulator/podhost"},
		linter: "not allowed from list 'kubernetes-in-the-simulator-only'"},
	{name: "the simulator imports agent", dir: "agent/simulator/internal/planted1", imports: []string{root + "/agent/driver"},
		linter: "not allowed from list 'simulator-stands-alone'"},
	{name: "the simulator imports a shared package", dir: "agent/simulator/internal/planted2", imports: []string{root + "/internal/conditions"},
		linter: "not allowed from list 'simulator-stands-alone'"},
}

// writeTree lays out the lawful tree in a new directory.
func writeTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{root: ".", apis: "apis", simulator: "agent/simulator"}
	for module, packages := range libraries {
		replace[module] = path.Join("library", module)
		for _, pkg := range packages {
			imports := []string{}
			if module == "example.com/wrapper" {
				imports = append(imports, "k8s.io/kubernetes/pkg/kubelet")
			}
			writePackage(t, dir, path.Join("library", module, pkg), "lawful.go", imports, "")
		}
	}
	for module, at := range replace {
		writeModule(t, dir, module, at, replace)
	}
	for pkg, imports := range lawful {
		writePackage(t, dir, pkg, "lawful.go", imports, "")
	}
	writePackage(t, dir, "test/support", "lawful.go", []string{root + "/agent/driver"}, "")
	writePackage(t, dir, "agent/simulator/podhost", "lawful.go", []string{"k8s.io/kubernetes/pkg/kubelet"}, "")
	return dir
}

// writeModule writes a go.mod that finds every other module of the tree in its directory.
func writeModule(t *testing.T, dir, module, at string, replace map[string]string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "module %s\n\ngo 1.26.0\n\n", module)
	for other, otherAt := range replace {
		if other == module {
			continue
		}
		relative, err := filepath.Rel(at, otherAt)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "require %s v0.0.0\nreplace %s => ./%s\n", other, other, relative)
	}
	writeFile(t, filepath.Join(dir, at, "go.mod"), b.String())
}

// writePackage writes one Go file. An import may carry a name before a space; without one it is blank, except
// where the body uses it.
func writePackage(t *testing.T, dir, pkg, file string, imports []string, body string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\n", packageName(pkg))
	for _, imported := range imports {
		name, importPath, named := strings.Cut(imported, " ")
		switch {
		case named:
			fmt.Fprintf(&b, "import %s %q\n", name, importPath)
		case body != "":
			fmt.Fprintf(&b, "import %q\n", imported)
		default:
			fmt.Fprintf(&b, "import _ %q\n", imported)
		}
	}
	b.WriteString("\n" + body + "\n")
	writeFile(t, filepath.Join(dir, pkg, file), b.String())
}

// packageName is the name for the package in a directory.
func packageName(dir string) string {
	return "x" + strings.ReplaceAll(path.Base(dir), "-", "")
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
