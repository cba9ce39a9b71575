package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	// answerTimeout is how long an agent may take by default: it reads a log for ten seconds at most.
	answerTimeout = 20 * time.Second
	// cleanTimeout bounds the deletion of a request. The hub deletes it otherwise.
	cleanTimeout = 3 * time.Second
	mostLines    = 1000
	longestSince = 7 * 24 * time.Hour
)

const logsLong = `Print the end of the log of a Machine's node, read by its cluster's agent and handed on through the hub: at most 1000 lines and 64 KiB.
You need ClusterRole hollowfleet-log-reader, because a log may contain secrets. What looks like a token, a password or a private key
is replaced by [redacted], and control characters are escaped.

With --follow, the command asks again every 5 seconds, for longer when answers take long, and prints what is new, until it is interrupted
(exit code 130) or --for is over. It says when the agent does not answer, and continues to ask. Each request costs the hub three writes: to
follow a log for long, or line by line, use the kubectl command that it prints at the end.

A frozen agent answers too. Where the log cannot be had in this way, the command prints the kubectl command that reads it in the cluster
where the Machine's pod runs, and exits with

  1  the agent has answered that it cannot read the log, or the hub does not know such requests
  4  you may not ask for it, or the Machine's provider has no logs
  5  the agent is silent, or has not answered within --timeout, such as one of an earlier release`

// logsOptions are the flags of "machine logs".
type logsOptions struct {
	tail     int32
	since    time.Duration
	previous bool
	timeout  time.Duration
	follow   bool
	// longest is how long to follow.
	longest time.Duration
}

func newLogs(hub *cmdutil.Hub) *cobra.Command {
	var options logsOptions
	command := &cobra.Command{
		Use: "logs NAME", Aliases: []string{"log"}, Short: "Print the end of the log of a Machine's node", Long: logsLong,
		Example: `  kubectl hollow machine logs workers-7c9d4-x2x8z -n c1
  kubectl hollow machine logs workers-7c9d4-x2x8z -n c1 --tail 500 --since 10m

  # What is added, for ten minutes
  kubectl hollow machine logs workers-7c9d4-x2x8z -n c1 -f

  # Why its container was restarted
  kubectl hollow machine logs workers-7c9d4-x2x8z -n c1 --previous`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.MachineKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			if err := options.check(); err != nil {
				return err
			}
			return printLog(command.Context(), hub, args[0], options)
		},
	}
	command.Flags().Int32Var(&options.tail, "tail", 100, "lines from the end of the log: 1 to 1000")
	command.Flags().DurationVar(&options.since, "since", 0, "only what is not older, such as 10m; at most 168h")
	command.Flags().BoolVarP(&options.previous, "previous", "p", false, "the log of the container's run before the current one")
	command.Flags().DurationVar(&options.timeout, "timeout", answerTimeout, "longest time to wait for the agent; with --follow, for each answer")
	command.Flags().BoolVarP(&options.follow, "follow", "f", false, "continue to print what is added to the log")
	command.Flags().DurationVar(&options.longest, "for", followTime, "with --follow: longest time to continue, at most 1h")
	return command
}

func (o *logsOptions) check() error {
	switch {
	case o.tail < 1 || o.tail > mostLines:
		return cmdutil.Usage("--tail: want 1 to %d lines, got %d", mostLines, o.tail)
	case o.since < 0 || o.since > longestSince || o.since > 0 && o.since < time.Second:
		return cmdutil.Usage("--since: want a second to %s, got %s", formatLimit(longestSince), o.since)
	case o.timeout <= 0:
		return cmdutil.Usage("--timeout: want a time of more than 0s")
	case o.follow && o.previous:
		return cmdutil.Usage("--follow, --previous: only one of them: nothing is added to the log of an earlier run")
	case o.longest <= 0 || o.longest > longestFollow:
		return cmdutil.Usage("--for: want a time of more than 0s, at most %s, got %s", formatLimit(longestFollow), o.longest)
	}
	return nil
}

// printLog prints the end of a log, and follows it if the options say so.
func printLog(ctx context.Context, hub *cmdutil.Hub, name string, options logsOptions) error {
	var (
		c       client.WithWatch
		machine *v1alpha1.Machine
		answer  *v1alpha1.MachineLogRequestStatus
	)
	asked := time.Now()
	err := withinTime(ctx, longestReading+options.timeout, func(ctx context.Context) (err error) {
		if c, err = hub.Client(); err != nil {
			return err
		}
		if machine, err = getMachine(ctx, hub, c, name); err != nil {
			return err
		}
		asked = time.Now()
		if answer, err = AskForLog(ctx, c, machine, options.query()); err != nil && !isWithoutLog(err) && ctx.Err() == nil {
			hub.Note("To read the log without the hub: %s", logCommand(hub, machine, options))
		}
		return err
	})
	if err != nil {
		return err
	}
	if answer.Truncated {
		hub.Note("Earlier lines are left out: all have no room.")
	}
	if answer.Log == "" {
		hub.Note("The log of pod %s has no such lines.", oneLine(answer.Pod))
	} else if _, err := fmt.Fprintln(hub.Out, strings.TrimSuffix(answer.Log, "\n")); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if !options.follow {
		return nil
	}
	err = followLog(ctx, &logFollower{hub: hub, client: c, machine: machine, query: options.query(), period: followPeriod}, answer, asked, options.longest)
	hub.Note("To follow the log without the hub: %s", logCommand(hub, machine, options))
	return err
}

// Query is how much of a log is asked for, and how long its answer is waited for.
type Query struct {
	Lines    int32
	Since    time.Duration
	Previous bool
	Timeout  time.Duration
}

func (o *logsOptions) query() Query {
	return Query{Lines: o.tail, Since: o.since, Previous: o.previous, Timeout: o.timeout}
}

// withoutLogError is that a Machine's provider has no logs: there is no other way to read one either.
type withoutLogError struct{ error }

func (e withoutLogError) Unwrap() error { return e.error }

func isWithoutLog(err error) bool {
	_, is := err.(withoutLogError) //nolint:errorlint // It is never wrapped.
	return is
}

// AskForLog has the agent of a Machine's cluster read the end of its log. The error's exit code is as "machine logs --help" says.
func AskForLog(ctx context.Context, c client.WithWatch, machine *v1alpha1.Machine, query Query) (*v1alpha1.MachineLogRequestStatus, error) {
	if err := checkAnswerable(ctx, c, machine); err != nil {
		return nil, err
	}
	request := &v1alpha1.MachineLogRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, GenerateName: machine.Name[:min(len(machine.Name), 50)] + "-"},
		Spec: v1alpha1.MachineLogRequestSpec{
			MachineName: machine.Name, MachineUID: machine.UID, TailLines: query.Lines, SinceSeconds: int32(query.Since.Seconds()), Previous: query.Previous,
		},
	}
	switch err := c.Create(ctx, request); {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("asking for the log: %w: you need ClusterRole hollowfleet-log-reader in namespace %s", err, machine.Namespace)
	case err != nil:
		return nil, fmt.Errorf("asking for the log: %w", err)
	}
	defer func() { // It may have secrets, and nobody else needs it.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		_ = c.Delete(bounded, request, client.Preconditions{UID: &request.UID})
	}()
	answered := &request.Status
	err := cmdutil.Within(ctx, query.Timeout, func(ctx context.Context) error {
		err := cmdutil.Until(ctx, c, &v1alpha1.MachineLogRequestList{}, client.ObjectKeyFromObject(request), request, func(seen *v1alpha1.MachineLogRequest) (bool, error) {
			answered = &seen.Status
			return seen.Status.Phase == v1alpha1.MachineLogAnswered || seen.Status.Phase == v1alpha1.MachineLogFailed, nil
		})
		if cmdutil.Code(err) == cmdutil.Missing {
			return cmdutil.Refusal("the hub has deleted the request: namespace %s has more than it may have: try again in a minute", machine.Namespace)
		}
		return err
	}, func() error {
		return cmdutil.Timeout("the agent of cluster %s has not answered within %s: it is of an earlier release, suspended, or cannot reach the hub", machine.Namespace, query.Timeout)
	})
	if err != nil {
		return nil, err
	}
	return answered, failedAnswer(answered)
}

// checkAnswerable finds what nobody would answer, as far as the user may read it.
func checkAnswerable(ctx context.Context, c client.Reader, machine *v1alpha1.Machine) error {
	provider := machine.Spec.ProviderConfig.Provider
	if reference := machine.Spec.ProviderConfig.ValueRef; reference != nil {
		class := &v1alpha1.MachineClass{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: reference.Name}, class); err == nil {
			provider = class.Spec.Provider
		}
	}
	if provider == v1alpha1.ProviderKwok {
		return withoutLogError{cmdutil.Refusal("machine %s is of provider kwok: nothing runs for it that would write a log", machine.Name)}
	}
	cluster := &v1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: machine.Namespace}, cluster)
	if apierrors.IsNotFound(err) {
		return cmdutil.Timeout("Cluster %s does not exist: no agent answers", machine.Namespace)
	}
	if err != nil { // The agent may answer all the same.
		return nil //nolint:nilerr // What the user may not read is not needed.
	}
	if connected := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition); connected == nil {
		return cmdutil.Timeout("no agent of cluster %s has ever reported", machine.Namespace)
	} else if connected.Status != metav1.ConditionTrue {
		return cmdutil.Timeout("the agent of cluster %s is silent: %s", machine.Namespace, oneLine(connected.Message))
	}
	return nil
}

// failedAnswer is the error of an agent that could not read the log.
func failedAnswer(answer *v1alpha1.MachineLogRequestStatus) error {
	if answer.Phase != v1alpha1.MachineLogFailed {
		return nil
	}
	message := oneLine(answer.Message)
	switch answer.Reason {
	case v1alpha1.LogReasonMachineNotFound:
		return cmdutil.NotFound("%s", message)
	case v1alpha1.LogReasonNoLog:
		return withoutLogError{cmdutil.Refusal("%s", message)}
	}
	return fmt.Errorf("the agent cannot read the log: %s: %s", oneLine(answer.Reason), message)
}

// logCommand is the command that reads a log in the cluster where the Machine's pod runs.
func logCommand(hub *cmdutil.Hub, machine *v1alpha1.Machine, options logsOptions) string {
	kubeconfig, hint := hub.WorkloadKubeconfig(machine.Namespace), ""
	if kubeconfig == "" {
		kubeconfig = "WORKLOAD-KUBECONFIG"
		hint = "\n(WORKLOAD-KUBECONFIG is that of the cluster where the pods of cluster " + machine.Namespace + " run; hollowfleet is the default of its agent's --host-namespace)"
	}
	command := fmt.Sprintf("kubectl --kubeconfig %s logs %s -n hollowfleet -c hollow-node --tail %d", quote(kubeconfig), machine.Name, options.tail)
	if options.since > 0 {
		command += " --since " + options.since.String()
	}
	if options.previous {
		command += " --previous"
	}
	if options.follow {
		command += " --follow"
	}
	return command + hint
}

// quote writes a path so that a shell reads it as one word.
func quote(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
