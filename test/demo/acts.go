package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
)

// act is a part of the demo that shows one promise of Hollowfleet.
type act struct {
	title, promise string
	steps          []step
}

func (d *demo) acts() []act {
	return []act{
		{
			title:   "Machines become Nodes",
			promise: "Each Machine on the hub becomes a real Node of its cluster, and goes with it.",
			steps:   []step{d.join, d.create, d.scale},
		},
		{
			title:   "Nodes die",
			promise: "A Machine whose Node dies says so, and the Node comes back by itself.",
			steps:   []step{d.kill},
		},
		{
			title:   "An API server hangs",
			promise: "While a cluster does not answer, it is frozen: no Machine comes or goes.",
			steps:   []step{d.freeze},
		},
		{
			title:   "A fleet is upgraded, and an agent hangs",
			promise: "A silent cluster waits, the others continue, and each workload keeps its pods.",
			steps:   []step{d.adopt, d.upgrade},
		},
		{
			title:   "All clusters are loaded",
			promise: "One load test measures all clusters, and removes what it has made.",
			steps:   []step{d.loadTest},
		},
	}
}

// show prints what a command of the plugin says about the hub now, as a user would see it. Such a command ends with 1 if not all is
// well, as in the middle of an act.
func (d *demo) show(ctx context.Context, args ...string) error {
	var output bytes.Buffer
	err := d.fleet.run(ctx, &output, append(slices.Clone(args), "--kubeconfig", d.fleet.hub.Kubeconfig)...)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 || output.Len() == 0) {
		return err
	}
	d.say("kubectl hollow %s\n\n%s\n", strings.Join(args, " "), indent(output.String()))
	return nil
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
