package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest/preset"
)

// longestTest is as long as a test may be followed: it lasts a day at most.
const longestTest = 25 * time.Hour

// runCommand is one "loadtest run".
type runCommand struct {
	cmdutil.Change
	hub        *cmdutil.Hub
	flags      runFlags
	file, name string
	noWait     bool
}

func newRun(hub *cmdutil.Hub) *cobra.Command {
	r := &runCommand{hub: hub}
	presets := preset.Names()
	command := &cobra.Command{
		Use: "run PRESET | -f FILE", Short: "Create a LoadTest from a preset or a file, and follow it to its end",
		Long: `Create a LoadTest and follow it to its end: with a bar for each cluster in a terminal, otherwise with a line whenever a cluster
makes progress. At the end the command prints the measurements and which thresholds are met. If you interrupt it, the test continues.

The presets are ` + strings.Join(presets, ", ") + `. Their pods run on hollow Nodes only.

The exit code is 0 if all thresholds are met, 5 if one is not met or --timeout has passed, and 1 if the test was not carried
out in full in every cluster, its measurements are invalid, or, without --timeout, no hub has worked for two minutes. The JUnit
report of the test has a failure or an error if and only if the exit code of a finished test is not 0.`,
		Example: `  # Start 20 pods in each cluster, and measure how long they take to become Ready
  kubectl hollow loadtest run pod-startup

  # More of them, in the production clusters only, with your own objective
  kubectl hollow loadtest run pod-startup --clusters stage=production --pods 200 --qps 20 --threshold 'PodReady.P99<=3s'

  # From a file
  kubectl hollow loadtest run -f config/samples/loadtest.yaml`,
		Args: cmdutil.Args(cobra.MaximumNArgs(1)), ValidArgs: presets,
		RunE: func(command *cobra.Command, args []string) error { return r.run(command.Context(), args) },
	}
	r.flags.addFlags(command)
	command.Flags().StringVarP(&r.file, "filename", "f", "", "file with the LoadTest, instead of a preset and its flags")
	command.Flags().StringVar(&r.name, "name", "", "name of the LoadTest (default: made from the name of the preset, or the name in the file)")
	r.Change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &r.Wait, true, "the test is over", 0, "to its end")
	command.Flags().BoolVar(&r.noWait, "no-wait", false, "do not follow it")
	cmdutil.KeepOldFlag(command, "no-wait", "wait=false")
	return command
}

func (r *runCommand) run(ctx context.Context, args []string) error {
	if err := r.Output.Check(); err != nil {
		return err
	}
	test, err := r.readTest(args)
	if err != nil {
		return err
	}
	c, err := r.DryRun.Client(r.hub)
	if err != nil {
		return err
	}
	err = c.Create(ctx, test)
	if apierrors.IsAlreadyExists(err) {
		return cmdutil.Refusal("loadtest %s already exists: set another name with --name, or delete it with: kubectl delete loadtest %s", test.Name, test.Name)
	}
	if err != nil {
		return fmt.Errorf("creating the load test: %w", err)
	}
	telling := r.Telling(r.hub)
	telling.Say("loadtest.hollowfleet.io/%s created", test.Name)
	if r.Waits() && !r.noWait {
		err = followTest(ctx, telling, c, test, r.Wait.Timeout)
	}
	return errors.Join(r.Output.Result(r.hub, test, cmdutil.Fact{Name: "Message", Value: test.Status.Message}), err)
}

// readTest makes the test of the flags or of the file.
func (r *runCommand) readTest(args []string) (*v1alpha1.LoadTest, error) {
	switch given := r.flags.givenFlags(); {
	case r.file == "" && len(args) == 0:
		return nil, cmdutil.Usage("give a preset, one of %s, or -f: see --help", strings.Join(preset.Names(), ", "))
	case r.file != "" && len(args) > 0:
		return nil, cmdutil.Usage("-f and %s both describe the test: use only one of them", args[0])
	case r.file != "" && len(given) > 0:
		return nil, cmdutil.Usage("-f and --%s both describe the test: use only one of them", given[0])
	case r.file != "":
		test, err := testOfFile(r.file)
		if err != nil {
			return nil, err
		}
		if r.name != "" {
			test.Name = r.name
		}
		if test.Name == "" {
			return nil, cmdutil.Usage("%s has no name: set --name", r.file)
		}
		return test, nil
	}
	spec, err := r.flags.specOf(args[0])
	if err != nil {
		return nil, err
	}
	if _, _, err := preset.Expand(spec.Preset, 1); err != nil {
		return nil, cmdutil.AsUsage(err)
	}
	test := &v1alpha1.LoadTest{Spec: spec}
	if test.Name = r.name; test.Name == "" {
		test.Name = nameOf(args[0])
	}
	return test, nil
}
