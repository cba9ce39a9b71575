package loadtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/loadtest/kubeburner"
)

func newImport(hub *cmdutil.Hub) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Convert a configuration of kube-burner to a LoadTest",
		Long: `Read a configuration of kube-burner with its object templates, and write an equivalent LoadTest to standard output: each job
becomes a step, and its churn another one. No cluster is contacted.

Everything that the LoadTest does differently is reported on standard error, one line each, which starts with:
  left out   part of the load, or a threshold, is not carried out
  changed    it is carried out, but not as kube-burner does it
  needs      it is carried out once you have prepared the clusters
  ignored    it has no influence on the load

The exit code is 1 if something is left out; the LoadTest is still written, with the rest. It is also 1, and nothing is
written, if the file is not a configuration of kube-burner, or nothing of it can be converted. docs/load-tests.md has a table of terms.`,
		Example: `  kubectl hollow loadtest import kubelet-density.yml > loadtest.yaml
  kubectl hollow loadtest run -f loadtest.yaml`,
		Args: cmdutil.OneName,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("reading the configuration: %w", err)
			}
			result, err := kubeburner.Convert(text, os.DirFS(filepath.Dir(args[0])))
			if result != nil {
				for _, note := range result.Notes {
					hub.Note("%s", note)
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			result.Test.Spec.ClusterSelector = cmdutil.AllClusters()
			if err := printManifest(hub, result.Test); err != nil {
				return err
			}
			if left := result.LeftOut(); left > 0 {
				return fmt.Errorf("the LoadTest does not cover all of %s: %d lines above start with \"%s\"", args[0], left, kubeburner.LeftOut)
			}
			return nil
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
