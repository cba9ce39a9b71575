package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// modules are the directories of the repository's modules whose imports have rules. hack/tools is left out:
// nothing imports it and it may import what it likes.
var modules = []string{".", "apis", "agent/simulator"}

// node is one package as go list describes it.
type node struct {
	ImportPath   string
	Standard     bool
	DepOnly      bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// graph is the import graph below one module.
type graph struct {
	nodes map[string]node
	// own are the packages of the module itself, sorted.
	own []string
}

// load reads the import graph of the module in dir/module. The workspace is switched off, since the simulator
// is outside it and the others mean the same without it.
func load(ctx context.Context, dir, module string) (graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps",
		"-json=ImportPath,Standard,DepOnly,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = filepath.Join(dir, module)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return graph{}, fmt.Errorf("listing the packages of module %s: %w\n%s", module, err, stderr.Bytes())
	}
	g, err := parse(bytes.NewReader(out))
	if err != nil {
		return graph{}, fmt.Errorf("reading the packages of module %s: %w", module, err)
	}
	return g, nil
}

// parse reads what go list -json printed.
func parse(r io.Reader) (graph, error) {
	g := graph{nodes: map[string]node{}}
	for decoder := json.NewDecoder(r); ; {
		var n node
		switch err := decoder.Decode(&n); {
		case errors.Is(err, io.EOF):
			slices.Sort(g.own)
			return g, nil
		case err != nil:
			return graph{}, fmt.Errorf("decoding the output of go list: %w", err)
		}
		g.nodes[n.ImportPath] = n
		if !n.DepOnly {
			g.own = append(g.own, n.ImportPath)
		}
	}
}

// reach finds the shortest chain of imports from a package to each one for which hit is true, and does not
// look behind such a package. Tests of the package count with withTests; tests of what it imports never do.
func (g graph) reach(from string, withTests bool, hit func(importPath string) bool) [][]string {
	direct := slices.Clone(g.nodes[from].Imports)
	if withTests {
		direct = slices.Concat(direct, g.nodes[from].TestImports, g.nodes[from].XTestImports)
	}
	var found [][]string
	seen := map[string]bool{from: true}
	queue := make([][]string, 0, len(direct))
	enqueue := func(chain []string, imports []string) {
		for _, next := range imports {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, append(slices.Clone(chain), next))
			}
		}
	}
	enqueue([]string{from}, direct)
	for ; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		last := chain[len(chain)-1]
		if hit(last) {
			found = append(found, chain)
			continue
		}
		enqueue(chain, g.nodes[last].Imports)
	}
	return found
}
