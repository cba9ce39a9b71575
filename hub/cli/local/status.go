//go:build linux

package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// askTimeout bounds the question to a hub that may be away.
const askTimeout = 5 * time.Second

type format string

const (
	formatJSON format = "json"
	formatYAML format = "yaml"
	formatWide format = "wide"
)

var formats = []format{formatJSON, formatYAML, formatWide}

func newStatus(hub *cmdutil.Hub, dir *string) *cobra.Command {
	var output format
	command := &cobra.Command{
		Use: "status", Short: "Show the processes and clusters of a fleet on this machine",
		Long: `Show the processes and clusters of a fleet on this machine. The exit code is 3 if there is no fleet, and 1 if one of its
processes is not running or does not answer, the command that started it was killed before everything was there, a control plane is out of
space, or the file system of its directory is full. It is 4 while the fleet starts. -o wide adds the agents' versions and why a cluster is not ready.`,
		Example: `  kubectl hollow local status

  # The hub's kubeconfig, for a script
  export KUBECONFIG=$(kubectl hollow local status -o json | jq -r .hub.kubeconfig)`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			report, err := readReport(*dir)
			if err != nil {
				return err
			}
			if err := showReport(command.Context(), hub.Out, report, output); err != nil {
				return err
			}
			return errors.Join(processError(report, *dir), planeError(report), checkDisk(report.Dir))
		},
	}
	cmdutil.ChoiceP(command, &output, "output", "o", cmdutil.OutputUsage(formats...), formats...)
	return command
}

func showReport(ctx context.Context, out io.Writer, report localfleet.Report, output format) error {
	if output.isStructured() {
		return printStructured(out, report, output)
	}
	return showTables(ctx, out, report, output == formatWide)
}

// isStructured reports whether the format is one for programs.
func (f format) isStructured() bool { return f == formatJSON || f == formatYAML }

func printStructured(out io.Writer, object any, output format) error {
	content, err := yaml.Marshal(object)
	if output == formatJSON {
		content, err = json.MarshalIndent(object, "", "  ")
		content = append(content, '\n')
	}
	if err == nil {
		_, err = out.Write(content)
	}
	return err
}

func showTables(ctx context.Context, out io.Writer, report localfleet.Report, wide bool) error {
	fmt.Fprintf(out, "Fleet in %s\n", report.Dir)
	if report.NodesPerPack > 0 {
		fmt.Fprintf(out, "Up to %s of a cluster to a process\n", plural.Count(report.NodesPerPack, "node"))
	}
	fmt.Fprintln(out)
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(processTable(report), out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(clusterTable(report, askHub(ctx, report)), out); err != nil {
		return err
	}
	showMonitoring(out, report)
	for _, group := range report.Groups {
		clusters := plural.Count(len(group.Clusters), "cluster")
		showShared(out, group.Name+": the process of its "+clusters, group.Process, group.Unanswered, group.Log)
		showShared(out, group.Name+": the process of podhosts of its "+clusters, group.Podhosts.SharedProcess, group.Podhosts.Unanswered, group.Podhosts.Log)
	}
	return nil
}

// showMonitoring tells what Prometheus and Grafana read.
func showMonitoring(out io.Writer, report localfleet.Report) {
	if report.Monitoring != nil {
		fmt.Fprintf(out, "\nPrometheus: %s\nDashboards: %s\n", report.Monitoring.Prometheus, strings.Join(report.Monitoring.Dashboards, ", "))
	}
}

// showShared tells of a process that clusters share what is not as it should be.
func showShared(out io.Writer, title string, shared process.SharedProcess, unanswered int, log string) {
	if unanswered > 0 {
		fmt.Fprintf(out, "\n%s, %d, has not answered the last %s\n", title, shared.PID, plural.Count(unanswered, "check"))
	}
	if shared.Restarts > 0 {
		fmt.Fprintf(out, "\n%s was started again %s; it ended last with %s, and its log is %s\n", title, plural.Count(shared.Restarts, "time"), shared.LastExit, log)
	}
}

func processTable(report localfleet.Report) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Process", "PID", "State", "Health", "Metrics", "Log")}
	for _, process := range report.Processes {
		state := "runs"
		if process.SilentPID != 0 {
			state = "does not answer"
		}
		if !process.Alive {
			state = "ENDED"
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{process.Name, process.PID, state, cmp.Or(process.Health, "-"), cmp.Or(process.Metrics, "-"), process.Log}})
	}
	return table
}

func clusterTable(report localfleet.Report, clusters map[string]v1alpha1.Cluster) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Cluster", "Kubernetes", "Ready", "Machines", "Node processes", "Isolation", "Server", "Kubeconfig", "+Agent", "+Message")}
	for _, plane := range shownPlanes(report) {
		ready, machines, nodes, agent, message := "-", "-", "-", "-", ""
		if plane.NodeProcesses > 0 {
			nodes = strconv.Itoa(plane.NodeProcesses)
		}
		if cluster, known := clusters[plane.Name]; known {
			if condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ReadyCondition); condition != nil {
				ready = string(condition.Status)
				if condition.Status != metav1.ConditionTrue {
					message = condition.Message
				}
			}
			agent = cmp.Or(cluster.Status.AgentVersion, agent)
			if counts := cluster.Status.Machines; counts != nil {
				machines = fmt.Sprintf("%d/%d", counts.Ready, counts.Total)
			}
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			plane.Name, cmp.Or(plane.Version, "-"), ready, machines, nodes, cmp.Or(plane.Group, string(localfleet.IsolationProcess)), cmp.Or(plane.Server, "-"), cmp.Or(plane.Kubeconfig, "-"), agent, message,
		}})
	}
	return table
}

// shownPlanes are the rows of the table: those of the report, and the hub's once more as the host of simulated clusters.
func shownPlanes(report localfleet.Report) []localfleet.ControlPlane {
	planes := report.Planes()
	if report.Host == "" {
		return planes
	}
	host := report.Hub
	host.Name = report.Host
	return slices.Insert(planes, 1, host)
}

// askHub returns the Clusters as the hub knows them; none if it does not answer, which the processes explain.
func askHub(ctx context.Context, report localfleet.Report) map[string]v1alpha1.Cluster {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	known := map[string]v1alpha1.Cluster{}
	list := &v1alpha1.ClusterList{}
	if report.Hub.Kubeconfig == "" {
		return known
	}
	c, err := hubClient(report.Hub.Kubeconfig)
	if err != nil || c.List(ctx, list) != nil {
		return known
	}
	for _, cluster := range list.Items {
		known[cluster.Name] = cluster
	}
	return known
}

// processError is the error of a fleet of which a process does not run, or does not answer.
func processError(report localfleet.Report, dir string) error {
	for _, process := range report.Processes {
		if !process.Alive && report.Interrupted && !report.Ready {
			return interruptedError("before it was up, and "+process.Name+" is not running (its log: "+process.Log+")", dir)
		}
		if !process.Alive && report.Resumable {
			return fmt.Errorf("%s is not running (its log: %s), and nothing is started again: start the fleet again with its data with %s, or end it with %s",
				process.Name, process.Log, writtenCommand("up", dir), writtenCommand("down", dir))
		}
		if !process.Alive {
			return fmt.Errorf("%s is not running (its log: %s): end the fleet with %s", process.Name, process.Log, writtenCommand("down", dir))
		}
		if process.SilentPID == process.PID {
			return fmt.Errorf("%s does not answer (its log: %s): let it continue with kill -CONT %d", process.Name, process.Log, process.PID)
		}
		if process.SilentPID != 0 {
			return fmt.Errorf("the shared process of %s does not answer (its log: %s): if it is suspended, let it continue with kill -CONT %d; else it is started again after about 3 minutes",
				process.Name, process.Log, process.SilentPID)
		}
	}
	switch {
	case report.Interrupted && report.Ready:
		return interruptedError("before all of its clusters and machines were there", dir)
	case report.Interrupted:
		return interruptedError("before the fleet was up", dir)
	case !report.Ready:
		return cmdutil.Refusal("the fleet is still starting")
	}
	return nil
}

// interruptedError is the error of a fleet whose start was interrupted.
func interruptedError(when, dir string) error {
	return fmt.Errorf("the command that starts the fleet has ended %s: continue with %s, or end the fleet with %s", when, writtenCommand("up", dir), writtenCommand("down", dir))
}

// planeError is the error of a fleet with a control plane that cannot do all of its job.
func planeError(report localfleet.Report) error {
	var problems []error
	for _, plane := range report.Planes() {
		for _, problem := range plane.Problems {
			problems = append(problems, fmt.Errorf("control plane of %s: %s", plane.Name, problem))
		}
	}
	return errors.Join(problems...)
}

// printSummary tells what the fleet offers.
func (o *upOptions) printSummary() error {
	report, err := localfleet.ReadReport(o.dir)
	if err != nil {
		return err
	}
	say := o.hub.Say
	say("\nThe fleet is up. Its kubeconfigs:\n")
	for _, plane := range report.Planes() {
		say("  %-7s %s", plane.Name, plane.Kubeconfig)
	}
	say("\nTry:\n\n  export KUBECONFIG=%s", joining.ShellQuote(report.Hub.Kubeconfig))
	say("  kubectl hollow cluster list\n  kubectl get fleet -A")
	if len(report.Clusters) > 0 {
		first := report.Clusters[0]
		if o.workers.machines > 0 {
			say("  kubectl -n %s scale machinedeployment %s --replicas %d", first.Name, localfleet.WorkersName, o.workers.machines+2)
		}
		say("  kubectl --kubeconfig %s get nodes -o wide", joining.ShellQuote(first.Kubeconfig))
	}
	if report.Host != "" {
		say("\nMore workload clusters, or fewer:\n\n  kubectl scale simulatedclusterset %s --replicas %d\n  kubectl get simulatedclusters -A", localfleet.SetName, len(report.Clusters)+2)
	}
	if report.Monitoring != nil {
		say("\nSee it in Prometheus:\n\n  prometheus --config.file=%s --storage.tsdb.path=prometheus-data", joining.ShellQuote(report.Monitoring.Prometheus))
	}
	say("\nEnd it:\n\n  %s", writtenCommand("down", o.dir))
	return nil
}

const followPoll = 100 * time.Millisecond

// followKeeper shows the keeper's progress until the fleet is up or the keeper has ended. Its log starts at an offset.
func followKeeper(ctx context.Context, keeper runningKeeper, dir string, offset int64, out io.Writer) error {
	// A keeper that fails removes the fleet's directory with its log: an open file can be read all the same.
	file, err := os.Open(keeper.logFile)
	if err != nil {
		return fmt.Errorf("following the start of the fleet: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("following the start of the fleet: %w", err)
	}
	log := &tail{file: file, out: out}
	ticker := time.NewTicker(followPoll)
	defer ticker.Stop()
	for {
		// First the state: what the log says after that is complete.
		state, stateErr := localfleet.ReadState(dir)
		if err := log.showNews(); err != nil {
			return err
		}
		if stateErr == nil && state.Ready && state.Keeper != nil && state.Keeper.PID == keeper.pid {
			return nil
		}
		select {
		case <-keeper.done:
			return errors.Join(log.showNews(), fmt.Errorf("starting the fleet: %s", log.lastFailure()))
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// tail passes the lines of a growing log on, and keeps the error at its end.
type tail struct {
	file io.Reader
	out  io.Writer
	rest string
	bad  []string
}

func (t *tail) showNews() error {
	content, err := io.ReadAll(t.file)
	if err != nil {
		return fmt.Errorf("following the start of the fleet: %w", err)
	}
	lines := strings.Split(t.rest+string(content), "\n")
	t.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		message, failed := strings.CutPrefix(line, "error: ")
		if failed || len(t.bad) > 0 {
			t.bad = append(t.bad, message)
			continue
		}
		fmt.Fprintf(t.out, "  %s\n", line)
	}
	return nil
}

func (t *tail) lastFailure() string {
	if len(t.bad) == 0 {
		return "its supervisor ended without an error message"
	}
	return strings.Join(t.bad, "\n")
}
