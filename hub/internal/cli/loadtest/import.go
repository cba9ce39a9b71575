package loadtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/loadtest/kubeburner"
)

func newImport(hub *cmdutil.Hub) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Make a LoadTest of a configuration of kube-burner",
		Long: `Read a configuration of kube-burner with its object templates, and write a LoadTest that does the same to standard output: each job
becomes a step, and its churn another one. Each setting that a LoadTest does not have is named on standard error. No cluster is
asked. docs/load-tests.md has a table of terms.`,
		Example: `  kubectl hollow loadtest import kubelet-density.yml > loadtest.yaml
  kubectl hollow loadtest run -f loadtest.yaml`,
		Args: cmdutil.OneName,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("reading the configuration: %w", err)
			}
			test, notes, err := kubeburner.Convert(text, os.DirFS(filepath.Dir(args[0])))
			for _, note := range notes {
				hub.Note("%s", note)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printManifest(hub, test)
		},
	}
}

// printManifest writes a test as a user would, without a status.
func printManifest(hub *cmdutil.Hub, test *v1alpha1.LoadTest) error {
	spec, err := json.Marshal(test.Spec)
	if err != nil {
		return fmt.Errorf("writing the load test: %w", err)
	}
	manifest := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "LoadTest", "metadata": map[string]any{"name": test.Name}, "spec": json.RawMessage(spec),
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("writing the load test: %w", err)
	}
	_, err = hub.Out.Write(text)
	return err
}
