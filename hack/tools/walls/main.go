// Walls checks which package may reach which other one, along whole chains of imports.
//
// The linter (depguard in .golangci.yml) refuses a forbidden import on the line that has it. It cannot see
// that hub imports a helper that imports the agent; walls can, because it walks the import graph that the
// go command reports. It reads every module of the repository and prints each breach with its chain.
//
//	walls [-C repository]
//
// It exits with 1 if a wall is breached, and with 2 if it could not look.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("C", ".", "root of the repository")
	flag.Parse()
	breaches, packages, err := checkRepository(context.Background(), *dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "walls: %v\n", err)
		os.Exit(2)
	}
	for _, b := range breaches {
		fmt.Println(b)
	}
	if len(breaches) > 0 {
		fmt.Printf("walls: %d breached\n", len(breaches))
		os.Exit(1)
	}
	fmt.Printf("walls: %d rules hold for %d packages\n", len(rules), packages)
}

// checkRepository checks every module below dir and returns the breaches and the number of packages checked.
func checkRepository(ctx context.Context, dir string) ([]breach, int, error) {
	var breaches []breach
	packages := 0
	for _, module := range modules {
		g, err := load(ctx, dir, module)
		if err != nil {
			return nil, 0, err
		}
		packages += len(g.own)
		breaches = append(breaches, check(g, rules)...)
	}
	return breaches, packages, nil
}
