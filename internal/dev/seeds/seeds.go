// Package seeds sets how many seeds properties are tried with.
package seeds

import (
	"flag"
	"strconv"
	"testing"
)

// UseMany has rapid try the properties of a test with 10,000 seeds where long tests run. Where they do not it is a fifth of short.
func UseMany(t *testing.T, short int) {
	t.Helper()
	seeds := 10_000
	if testing.Short() {
		seeds = short // Of which rapid takes a fifth.
	}
	before := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", strconv.Itoa(seeds)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
}
