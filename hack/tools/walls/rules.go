package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// root is the path of the root module; apis and the simulator have paths below it.
const root = "github.com/hollowfleet/hollowfleet"

const (
	apis      = root + "/apis"
	simulator = root + "/agent/simulator"
	owneddir  = root + "/internal/owneddir"
)

// planner matches the packages that decide without doing: last or inner path elements ending so.
var planner = regexp.MustCompile(`/\w*(plan|planner|policy)(/|$)`)

// rule is one wall.
type rule struct {
	name string
	// binds selects the packages that the rule is about.
	binds func(pkg string) bool
	// only, if set, selects what such a package may import directly, besides the standard library. Its tests
	// may import more.
	only func(importPath string) bool
	// never, if set, selects what neither such a package nor its tests may reach through any chain of imports.
	never func(importPath string) bool
}

// rules are the walls of the design, each with the reason in its name.
var rules = []rule{
	{
		name:  "apis stays light: it imports only the standard library, k8s.io/apimachinery, k8s.io/api and open-cluster-management.io/api",
		binds: in(apis),
		only:  in(apis, "k8s.io/apimachinery", "k8s.io/api", "open-cluster-management.io/api"),
	},
	{
		name:  "internal is below hub and agent and imports neither",
		binds: in(root + "/internal"),
		never: in(root+"/hub", root+"/agent"),
	},
	{
		name:  "hub never imports agent",
		binds: in(root + "/hub"),
		never: in(root + "/agent"),
	},
	{
		name:  "agent never imports hub",
		binds: func(pkg string) bool { return in(root+"/agent")(pkg) && !in(simulator)(pkg) },
		never: in(root + "/hub"),
	},
	{
		name:  "planners and policies import only apis, the APIs of Kubernetes and Open Cluster Management, and the standard library",
		binds: func(pkg string) bool { return in(root)(pkg) && planner.MatchString(strings.TrimPrefix(pkg, root)) },
		only:  in(apis, "k8s.io/api", "k8s.io/apimachinery", "open-cluster-management.io/api"),
	},
	{
		name:  "only the simulator links k8s.io/kubernetes",
		binds: func(pkg string) bool { return in(root)(pkg) && !in(simulator)(pkg) },
		never: in("k8s.io/kubernetes", simulator),
	},
	{
		name:  "the simulator never imports the root module",
		binds: in(simulator),
		never: func(importPath string) bool {
			return in(root)(importPath) && !in(apis, simulator, owneddir)(importPath)
		},
	},
}

// in matches the given packages and all below them.
func in(prefixes ...string) func(string) bool {
	return func(importPath string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool {
			return importPath == prefix || strings.HasPrefix(importPath, prefix+"/")
		})
	}
}

// breach is one forbidden import and how it is reached.
type breach struct {
	rule  string
	chain []string
}

// String shows the wall and the chain of imports that goes through it.
func (b breach) String() string {
	return fmt.Sprintf("%s:\n\t%s", b.rule, strings.Join(b.chain, "\n\t  imports "))
}

// check holds every package of the module against every rule.
func check(g graph, rules []rule) []breach {
	var breaches []breach
	for _, pkg := range g.own {
		for _, r := range rules {
			if !r.binds(pkg) {
				continue
			}
			if r.only != nil {
				for _, imported := range g.nodes[pkg].Imports {
					if !g.standard(imported) && !r.only(imported) {
						breaches = append(breaches, breach{r.name, []string{pkg, imported}})
					}
				}
			}
			if r.never != nil {
				for _, chain := range g.reach(pkg, true, r.never) {
					breaches = append(breaches, breach{r.name, chain})
				}
			}
		}
	}
	return breaches
}

// standard reports whether a package belongs to the standard library.
func (g graph) standard(importPath string) bool {
	return g.nodes[importPath].Standard || importPath == "C" || importPath == "unsafe"
}
