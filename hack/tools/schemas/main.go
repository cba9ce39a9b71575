// Command schemas writes JSON schemas with which editors complete and check what users write: one for each configuration of a provider, which
// has no CRD, made from its Go type by controller-tools as CRDs are; and one for all kinds, made from their CRDs. A field that there is not is
// an error in each of them.
//
//	schemas --apis apis --crds config/crd --out config/schema
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// schema is a JSON schema, or an OpenAPI schema that becomes one.
type schema = map[string]any

// Draft 7 is what editors know best.
const draft = "http://json-schema.org/draft-07/schema#"

const apiVersion = "hollowfleet.io/v1alpha1"

// providerKinds are the configurations of the providers.
var providerKinds = []string{"HollowNodeConfig", "KwokNodeConfig"}

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "schemas: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var apis, crds, out string
	flags := flag.NewFlagSet("schemas", flag.ContinueOnError)
	flags.StringVar(&apis, "apis", "apis", "directory of the module with the types")
	flags.StringVar(&crds, "crds", filepath.Join("config", "crd"), "directory of the CRDs")
	flags.StringVar(&out, "out", filepath.Join("config", "schema"), "directory to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	providers, err := providerSchemas(apis)
	if err != nil {
		return fmt.Errorf("reading the types in %s: %w", apis, err)
	}
	for _, kind := range providerKinds {
		if err := write(filepath.Join(out, fileName(kind)), providers[kind]); err != nil {
			return err
		}
	}
	all, err := fleetSchema(crds)
	if err != nil {
		return fmt.Errorf("reading the CRDs in %s: %w", crds, err)
	}
	return write(filepath.Join(out, "hollowfleet.json"), all)
}

func fileName(kind string) string { return strings.ToLower(kind) + ".json" }

// write writes a schema with one field a line, so that a change can be read.
func write(path string, s schema) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	return errors.Join(encoder.Encode(s), file.Close())
}
