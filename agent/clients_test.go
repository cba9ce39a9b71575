package agent_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// makers are the functions that make a client of an API server.
var makers = map[string][]string{
	"sigs.k8s.io/controller-runtime/pkg/client": {"New", "NewWithWatch", "NewNamespacedClient"},
	"k8s.io/client-go/kubernetes":               {"NewForConfig", "NewForConfigOrDie", "NewForConfigAndClient"},
	"k8s.io/client-go/dynamic":                  {"NewForConfig", "NewForConfigOrDie", "NewForConfigAndClient"},
	"k8s.io/client-go/metadata":                 {"NewForConfig"},
	"k8s.io/client-go/rest":                     {"RESTClientFor", "UnversionedRESTClientFor", "HTTPClientFor", "TransportFor"},
}

// allowed is the one package that may make clients.
const allowed = "internal/connect"

// A client that was made elsewhere would go past the freeze gate.
func TestOnlyOnePackageMakesClients(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == "simulator" || path == filepath.FromSlash(allowed) || path == filepath.FromSlash("internal/agenttest")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		for _, use := range clientsIn(t, path) {
			t.Errorf("%s: makes a client with %s: only %s may, so that every change passes the freeze gate", path, use, allowed)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 30 {
		t.Errorf("looked at %d files only: the test looks in the wrong place", files)
	}
	if len(clientsIn(t, filepath.FromSlash(allowed+"/config.go"))) == 0 {
		t.Error("no client is found even where one is made: the test is blind")
	}
}

// The clients of the caches go past the freeze gate, too. They may be read from; else they are the gate's.
func TestTheClientsOfCachesAreGated(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	gated := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := parse(t, path)
		all, through := cacheClients(file)
		gated += through
		if all > through {
			t.Errorf("%s: %d of %d uses of GetClient neither pass Gate.Client or Gate.HubClient nor only read", path, all-through, all)
		}
	}
	if gated < 4 {
		t.Errorf("only %d clients are gated: the test looks in the wrong place", gated)
	}
}

// cacheClients counts the calls of GetClient, and those that go into the gate or only read.
func cacheClients(file *ast.File) (all, through int) {
	isGetClient := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		return ok && selector.Sel.Name == "GetClient"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		if isGetClient(n) {
			all++
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch selector.Sel.Name {
		case "Client", "HubClient":
			if len(call.Args) == 1 && isGetClient(call.Args[0]) {
				through++
			}
		case "Get", "List":
			if isGetClient(selector.X) {
				through++
			}
		}
		return true
	})
	return all, through
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
		for _, function := range makers[imported[local.Name]] {
			if selector.Sel.Name == function {
				uses = append(uses, local.Name+"."+function)
			}
		}
		return true
	})
	return uses
}
