package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

// ParsePodhost reads the command line of a podhost, and the socket on which one that is a process serves its health.
func ParsePodhost(args []string) (options podhost.Options, socket string, err error) {
	flags := pflag.NewFlagSet("podhost", pflag.ContinueOnError)
	text := flags.String("options", "{}", "what comes from the command line of a start, as JSON")
	name := flags.String("node-name", "", "the name of the Node")
	kubeconfig := flags.String("kubeconfig", "", "the kubeconfig with the identity of the Node")
	dataDir := flags.String("data-dir", "", "the podhost's own directory")
	lastExit := flags.String("last-exit", "", "how the podhost ended before")
	flags.StringVar(&socket, "health-socket", "", "the unix socket to serve health on")
	if err := flags.Parse(args); err != nil {
		return options, "", err
	}
	if err := json.Unmarshal([]byte(*text), &options); err != nil {
		return options, "", fmt.Errorf("--options: %w", err)
	}
	options.Name, options.Kubeconfig, options.DataDir, options.LastExit = *name, *kubeconfig, *dataDir, *lastExit
	return options, socket, nil
}

// runPodhost runs a podhost. All its hollow nodes have ended when it returns.
func runPodhost(ctx context.Context, run *Run) error {
	options, _, err := ParsePodhost(run.component.Args)
	if err != nil {
		return err
	}
	options.Ready = func() { run.setHealth(func(context.Context) error { return nil }) }
	if err := podhost.Run(ctx, options); err != nil {
		return err
	}
	return errors.New("it ended by itself")
}
