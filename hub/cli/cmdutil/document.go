package cmdutil

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// DocumentVersion is the apiVersion of what commands print with -o json that is no object of the API: Status, Version and Tree. Scripts may
// rely on it: fields and values of enums may be added; none changes its name, type or meaning, or is removed, without another version.
// docs/cli.md describes them.
const DocumentVersion = "cli.hollowfleet.io/v1"

// documentFormats are those of documents.
var documentFormats = []string{"json", "yaml"}

// DocumentOutput is the flag -o of a command whose result is a document and no object of the API.
type DocumentOutput struct {
	// Format is empty for text.
	Format string
}

// AddFlag adds -o to command.
func (o *DocumentOutput) AddFlag(command *cobra.Command) {
	command.Flags().StringVarP(&o.Format, "output", "o", "", "output format: json, yaml")
	completeFlag(command, "output", documentFormats)
}

// CheckFormat finds a format that does not exist before anything is done.
func (o *DocumentOutput) CheckFormat() error {
	switch o.Format {
	case "", "json", "yaml":
		return nil
	}
	return Usage("-o: unknown format %q: want one of json, yaml", o.Format)
}

// PrintNext prints a document that follows others: as a line of JSON, or as a document of a YAML stream.
func (o *DocumentOutput) PrintNext(out io.Writer, document any) error {
	if o.Format == "yaml" {
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		return o.Print(out, document)
	}
	if err := json.NewEncoder(out).Encode(document); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// Print prints a document.
func (o *DocumentOutput) Print(out io.Writer, document any) error {
	text, err := json.MarshalIndent(document, "", "  ")
	if err == nil && o.Format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err == nil {
		if text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		_, err = out.Write(text)
	}
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
