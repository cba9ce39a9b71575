package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// documentVersion is the version of the documents below. Fields may be added to them; none changes its meaning or goes without
// another version. docs/cli.md describes them.
const documentVersion = "cli.hollowfleet.io/v1"

// notLooked opens the problem of a hub whose Lease the user may not read.
const notLooked = "not checked: "

// hubDocument is what is known of the hub.
type hubDocument struct {
	Healthy bool   `json:"healthy"`
	Version string `json:"version,omitempty"`
	Holder  string `json:"holder,omitempty"`
	// Problem says why it does not work, or why that is not known.
	Problem string `json:"problem,omitempty"`
}

// statusDocument is what "status -o json" prints.
type statusDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is when the fleet was looked at.
	Time metav1.Time `json:"time"`
	// Healthy: no object is a problem, and all was looked at.
	Healthy bool `json:"healthy"`
	// Problem is what the error says that the command ends with; empty for none.
	Problem string      `json:"problem,omitempty"`
	Hub     hubDocument `json:"hub"`
	// RemovedKinds are those that are being deleted with all their objects.
	RemovedKinds []string         `json:"removedKinds,omitempty"`
	Kinds        []health.Count   `json:"kinds"`
	Objects      []health.Finding `json:"objects"`
}

// versionDocument is what "version -o json" prints.
type versionDocument struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Client     string       `json:"client"`
	Hub        *hubDocument `json:"hub,omitempty"`
	APIServer  string       `json:"apiServer,omitempty"`
}

func (f *fleet) newDocument() statusDocument {
	document := statusDocument{
		APIVersion: documentVersion, Kind: "Status", Time: metav1.NewTime(f.now), Hub: documentOfHub(f.hub, f.hubUnread),
		RemovedKinds: f.removed, Kinds: append([]health.Count{}, f.report.Counts...), Objects: append([]health.Finding{}, f.report.Findings...),
	}
	if err := f.verdictError(); err != nil {
		document.Problem = err.Error()
	}
	document.Healthy = document.Problem == ""
	return document
}

// documentOfHub describes a hub whose Lease was read, or was not because of unread.
func documentOfHub(state cmdutil.HubState, unread string) hubDocument {
	document := hubDocument{Healthy: state.Problem == "" && unread == "", Version: state.Version, Holder: state.Holder, Problem: state.Problem}
	if unread != "" {
		document.Problem = notLooked + unread
	}
	return document
}

func newVersionDocument() versionDocument {
	return versionDocument{APIVersion: documentVersion, Kind: "Version", Client: version.Here()}
}

// documentOutput is the flag -o of a command whose result is a document and no object of the API.
type documentOutput struct{ format string }

func (o *documentOutput) addFlag(command *cobra.Command) {
	command.Flags().StringVarP(&o.format, "output", "o", "", "output format: json, yaml")
	command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) //nolint:errcheck // It fails for a flag that does not exist.
}

func (o *documentOutput) checkFormat() error {
	switch o.format {
	case "", "json", "yaml":
		return nil
	}
	return cmdutil.Usage("-o: unknown format %q: want one of json, yaml", o.format)
}

func (o *documentOutput) printDocument(out io.Writer, document any) error {
	text, err := json.MarshalIndent(document, "", "  ")
	if err == nil && o.format == "yaml" {
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
