package execshim

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestParseIsTheInverseOfArgs(t *testing.T) {
	for _, command := range []Command{
		{Path: "/bin/a,b", Argv: []string{"a", "", "-x=1,2"}, Parent: 7},
		{Path: "/p", Argv: []string{"p"}, SwitchUser: true, UID: 65532, GID: 12, NoNewPrivileges: true, DropCapabilities: true},
	} {
		args := command.Args()
		if args[0] != word {
			t.Errorf("the first argument is %q", args[0])
		}
		parsed, err := parse(args)
		if err != nil {
			t.Fatalf("parsing %q: %v", args, err)
		}
		if !reflect.DeepEqual(parsed, command) {
			t.Errorf("%q became %+v, want %+v", args, parsed, command)
		}
	}
}

func TestParseRefusesMalformedArguments(t *testing.T) {
	for _, args := range [][]string{
		{word},
		{word, "1,false,0,0,false,false", "/path"},
		{word, "1,false,0,0,false", "/path", "argv0"},
		{word, "x,false,0,0,false,false", "/path", "argv0"},
		{word, "1,maybe,0,0,false,false", "/path", "argv0"},
	} {
		if command, err := parse(args); err == nil {
			t.Errorf("%q was accepted as %+v", args, command)
		}
	}
}

// The turn of the shim, and of the keeper of a podhost's processes, in the
// initialisation of a program comes early only as long as everything they
// import is ready early.
func TestImportsOnlyTheStandardLibrary(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source files: %v", err)
	}
	keeper, err := filepath.Glob("../podhost/keeper/*.go")
	if err != nil || len(keeper) == 0 {
		t.Fatalf("no source files of the keeper: %v", err)
	}
	files = append(files, keeper...)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}
