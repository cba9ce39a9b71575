package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
)

// quickAnswer is how long an agent may take for the log on the screen: the rest is there already.
const quickAnswer = 8 * time.Second

// firstAnswer is how long a Machine that is followed waits for the hub's API server.
const firstAnswer = 30 * time.Second

const getLong = `Show a Machine on one screen: how it is and what helps, its Cluster, MachineClass and owners, its Node and pod, its conditions
with the time since when they hold, the newest events of it and of what owns it, and the end of its node's log. No kubeconfig of the
workload cluster is needed. The log needs ClusterRole hollowfleet-log-reader, and an agent that answers: see machine logs --help. Without
it, the command that reads it is shown.

What else you may not read is left out and named; the exit code is then 4.

With --watch, the command continues until it is interrupted (exit code 130) or the Machine is deleted (3).`

func newGet(hub *cmdutil.Hub) *cobra.Command {
	var (
		output cmdutil.DocumentOutput
		watch  bool
		tail   int32
	)
	command := &cobra.Command{
		Use: "get NAME", Aliases: []string{"describe", "show"}, Short: "Show a Machine with its Node, conditions and events", Long: getLong,
		Example: `  kubectl hollow machine get workers-7c9d4-x2x8z -n c1
  kubectl hollow machine get workers-7c9d4-x2x8z -n c1 -w

  # Why it is not healthy, for a script
  kubectl hollow machine get workers-7c9d4-x2x8z -n c1 -o json | jq -r .reason`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.MachineKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			if err := output.CheckFormat(); err != nil {
				return err
			}
			if watch && output.Format != "" {
				return cmdutil.Usage("--watch prints a text: leave -o out")
			}
			if tail < 0 || tail > mostLines {
				return cmdutil.Usage("--tail: want 0 to %d lines, got %d", mostLines, tail)
			}
			if watch {
				return watchMachine(command.Context(), hub, args[0])
			}
			return withinTime(command.Context(), longestReading, func(ctx context.Context) error { return showMachine(ctx, hub, output, args[0], tail) })
		},
	}
	output.AddFlag(command)
	command.Flags().BoolVarP(&watch, "watch", "w", false, "show the Machine, without its log, again when it changes, until interrupted")
	command.Flags().Int32Var(&tail, "tail", 10, "lines from the end of its log; 0 for none")
	return command
}

// watchMachine shows a Machine whenever it changes.
func watchMachine(ctx context.Context, hub *cmdutil.Hub, name string) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	machine, err := getMachine(ctx, hub, c, name)
	if err != nil {
		return err
	}
	view := &storyView{hub: hub, machine: machine}
	err = live.Follow(ctx, hub, c, listKinds(ctx, c, machine), view, live.Options{First: firstAnswer})
	return errors.Join(view.gone, err)
}

// showMachine shows a Machine once, with the end of its log.
func showMachine(ctx context.Context, hub *cmdutil.Hub, output cmdutil.DocumentOutput, name string, tail int32) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	machine, err := getMachine(ctx, hub, c, name)
	if err != nil {
		return err
	}
	told, err := newStory(machine, live.ReadKinds(ctx, c, listKinds(ctx, c, machine)), hub.DescribeUnread, time.Now())
	if err != nil {
		return err
	}
	if problem := cmdutil.DescribeStoppedHub(ctx, c, ""); problem != "" {
		told.document.Stale = append(told.document.Stale, problem)
	}
	if tail > 0 {
		told.document.Log = readLog(ctx, hub, c, told.document.Machine, tail)
	}
	if output.Format != "" {
		err = output.Print(hub.Out, told.document)
	} else {
		for _, line := range told.formatText() {
			hub.Say("%s", line)
		}
	}
	if err == nil && len(told.forbidden) > 0 {
		err = cmdutil.Refusal("this is not complete: you may not list: %s", strings.Join(told.forbidden, ", "))
	}
	return err
}

// readLog asks for the end of the Machine's log. Why there is none is part of the story; nil if there never is one.
func readLog(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, machine *v1alpha1.Machine, tail int32) *Log {
	options := logsOptions{tail: tail, timeout: quickAnswer}
	answer, err := AskForLog(ctx, c, machine, options.query())
	switch {
	case isWithoutLog(err):
		return nil
	case err != nil:
		return &Log{Problem: err.Error(), Command: logCommand(hub, machine, options)}
	case answer.Log == "":
		return &Log{Pod: answer.Pod}
	}
	return &Log{Pod: answer.Pod, Lines: strings.Split(strings.TrimSuffix(answer.Log, "\n"), "\n"), Truncated: answer.Truncated}
}

// storyView is a story on a screen, or one below the other.
type storyView struct {
	hub *cmdutil.Hub
	// machine is what it was at first.
	machine *v1alpha1.Machine
	told    *story
	gone    error
}

// Update implements live.View.
func (v *storyView) Update(known map[string]live.Snapshot, pulse live.Pulse, now time.Time) error {
	told, err := newStory(v.machine, known, v.hub.DescribeUnread, now)
	if cmdutil.Code(err) == cmdutil.Missing && v.told != nil {
		v.gone = err
		return nil
	}
	if err != nil {
		return err
	}
	if lost := pulse.DescribeLost(now); lost != "" {
		told.document.Stale = append(told.document.Stale, lost)
	} else if pulse.Hub.Problem != "" {
		told.document.Stale = append(told.document.Stale, "the hub does not work: "+pulse.Hub.Problem)
	}
	v.told = told
	return nil
}

// Done implements live.View.
func (v *storyView) Done() bool { return v.gone != nil }

// Key implements live.View.
func (v *storyView) Key() string {
	return live.WithoutAges(strings.Join(v.told.formatText(), "\n"))
}

// Print implements live.View.
func (v *storyView) Print(now time.Time) error {
	if v.Done() {
		return nil
	}
	v.hub.Say("--- %s", now.Format(time.RFC3339))
	for _, line := range v.told.formatText() {
		v.hub.Say("%s", line)
	}
	v.hub.Say("")
	return nil
}

// Lines implements live.View.
func (v *storyView) Lines(width, _ int) []live.Line {
	lines := []live.Line{{Text: fmt.Sprintf("Machine at %s, Ctrl-C ends it", v.told.now.Format("15:04:05 MST")), Tone: live.Faint}}
	for _, line := range v.told.staleLines() {
		lines = append(lines, live.Wrap(line, 0, width, 4, live.Bad)...)
	}
	for _, line := range v.told.storyLines() {
		lines = append(lines, live.Line{Text: line})
	}
	return lines
}
