package agent_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makers are the functions that make a client of an API server, by the end of their package's path. Those of
// clientsets are the same in all of them.
var makers = map[string][]string{
	"controller-runtime":             {"NewManager"},
	"controller-runtime/pkg/manager": {"New"},
	"controller-runtime/pkg/cluster": {"New"},
	"controller-runtime/pkg/client":  {"New", "NewWithWatch", "NewNamespacedClient"},
	"client-go/rest": {
		"RESTClientFor", "RESTClientForConfigAndClient", "UnversionedRESTClientFor", "UnversionedRESTClientForConfigAndClient",
		"NewRESTClient", "HTTPClientFor", "TransportFor",
	},
	"client-go/transport": {"New"},
}

// clientsets are what every clientset is made with.
var clientsets = []string{"New", "NewForConfig", "NewForConfigOrDie", "NewForConfigAndClient", "NewSimpleClientset"}

// allowed is the one package that may make clients.
const allowed = "internal/clients"

// exceptions are what other files may use. That those of the caches are gated is another test's.
var exceptions = map[string][]string{"work.go": {"cluster.New", "manager.New"}}

// A client that was made elsewhere would go past the freeze gate.
func TestOnlyOnePackageMakesClients(t *testing.T) {
	files := 0
	walk(t, func(path string) {
		files++
		uses := clientsIn(t, path)
		slices.Sort(uses)
		if slices.Equal(uses, exceptions[filepath.ToSlash(path)]) {
			return
		}
		for _, use := range uses {
			t.Errorf("%s: makes a client with %s: only %s may, so that every change passes the freeze gate", path, use, allowed)
		}
	})
	if files < 30 {
		t.Errorf("looked at %d files only: the test looks in the wrong place", files)
	}
	if len(clientsIn(t, filepath.FromSlash(allowed+"/config.go"))) == 0 {
		t.Error("no client is found even where one is made: the test is blind")
	}
}

// The clients of the caches are made with a configuration that passes the freeze gate, and so are the events that they send.
func TestTheClientsOfCachesAreGated(t *testing.T) {
	gates := map[string][]string{}
	walk(t, func(path string) {
		for maker, gate := range cacheGates(parse(t, path)) {
			gates[maker] = append(gates[maker], gate)
		}
	})
	want := map[string][]string{"manager.New": {"w.hub HubRoundTripper"}, "cluster.New": {"config RoundTripper"}}
	if !maps.EqualFunc(gates, want, slices.Equal) {
		t.Errorf("caches are made with the gates %v, want %v", gates, want)
	}
}

// What goes past the freeze gate is allowed in this package alone, and by name: no other package may do it.
func TestWritesPastTheGateAreAllowedInOnePlace(t *testing.T) {
	uses, named := 0, 0
	walk(t, func(path string) {
		ast.Inspect(parse(t, path), func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok && selector.Sel.Name == "Ungated" {
				if uses++; filepath.Base(path) != path {
					t.Errorf("%s: uses Ungated", path)
				}
			}
			if call, ok := n.(*ast.CallExpr); ok && allows(call) {
				named++
			}
			return true
		})
	})
	if uses != named || uses < 4 {
		t.Errorf("%d of %d uses of Ungated are given what package clients allows: want all, and the store, the credential, the hub identity and the reports among them", named, uses)
	}
}

// allows reports whether call is Ungated(clients.Something(...)).
func allows(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Ungated" || len(call.Args) != 1 {
		return false
	}
	allowance, ok := call.Args[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	function, ok := allowance.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := function.X.(*ast.Ident)
	return ok && from.Name == "clients" && slices.Contains([]string{"Reports", "Credentials", "Keeping", "Identity"}, function.Sel.Name)
}

// walk visits all of the agent's own files that are no tests, outside of what makes the clients.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == "simulator" || path == filepath.FromSlash(allowed) || path == filepath.FromSlash("internal/agenttest")):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// cacheGates returns what the caches of a file are made with: the configuration and the gate that it passes, by maker.
func cacheGates(file *ast.File) map[string]string {
	gates := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		maker := types.ExprString(call.Fun)
		if maker != "manager.New" && maker != "cluster.New" {
			return true
		}
		gates[maker] = "none"
		if config, ok := call.Args[0].(*ast.CallExpr); ok && types.ExprString(config.Fun) == "clients.Gated" {
			_, gate, _ := strings.Cut(types.ExprString(config.Args[1]), "gate.")
			gates[maker] = types.ExprString(config.Args[0]) + " " + gate
		}
		return true
	})
	return gates
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func clientsIn(t *testing.T, path string) []string {
	t.Helper()
	file := parse(t, path)
	imported := map[string]string{}
	for _, spec := range file.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		local := name[strings.LastIndex(name, "/")+1:]
		if local == "controller-runtime" {
			local = "controllerruntime"
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imported[local] = name
	}
	var uses []string
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		local, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		if slices.Contains(makersOf(imported[local.Name]), selector.Sel.Name) {
			uses = append(uses, local.Name+"."+selector.Sel.Name)
		}
		return true
	})
	return uses
}

// makersOf are the functions of a package that make clients.
func makersOf(path string) []string {
	_, inner, found := strings.Cut(path, "k8s.io/")
	switch {
	case !found:
		return nil
	case strings.HasPrefix(inner, "client-go/kubernetes"), inner == "client-go/dynamic", inner == "client-go/metadata":
		return clientsets
	}
	return makers[inner]
}

func TestMakersAreRecognised(t *testing.T) {
	for path, want := range map[string]string{
		"sigs.k8s.io/controller-runtime": "NewManager", "sigs.k8s.io/controller-runtime/pkg/manager": "New", "sigs.k8s.io/controller-runtime/pkg/cluster": "New",
		"sigs.k8s.io/controller-runtime/pkg/client": "NewWithWatch", "k8s.io/client-go/kubernetes/typed/core/v1": "NewForConfig",
		"k8s.io/client-go/kubernetes": "NewForConfigAndClient", "k8s.io/client-go/rest": "RESTClientForConfigAndClient",
	} {
		if !slices.Contains(makersOf(path), want) {
			t.Errorf("%s of %s is not known to make a client", want, path)
		}
	}
	if got := makersOf("k8s.io/api/core/v1"); len(got) > 0 {
		t.Errorf("package %s makes %v", "k8s.io/api/core/v1", got)
	}
}

// A driver of another provider may have clients of its own, which pass no other gate than that of the drivers.
func TestEveryDriverIsGated(t *testing.T) {
	var kept []string
	ast.Inspect(parse(t, "drivers.go"), func(n ast.Node) bool {
		if assigned, ok := n.(*ast.AssignStmt); ok && types.ExprString(assigned.Lhs[0]) == "drivers[name]" {
			kept = append(kept, types.ExprString(assigned.Rhs[0]))
		}
		return true
	})
	if want := []string{"w.gate.Driver(made)"}; !slices.Equal(kept, want) {
		t.Errorf("drivers are kept as %v, want %v", kept, want)
	}
}
