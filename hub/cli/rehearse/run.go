package rehearse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/report"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

// rehearsal is one that runs.
type rehearsal struct {
	*command
	*prepared
	watcher *watcher
	course  report.Course
	start   time.Time
	before  map[string]observe.WorkloadPods
}

// rehearse makes the simulated cluster, upgrades it, reports, and removes it.
func (r *command) rehearse(ctx context.Context, p *prepared) error {
	r.noteLeftovers(ctx, p.client)
	one := &rehearsal{command: r, prepared: p, start: time.Now()}
	one.course.Skew, one.course.RehearsalStart = p.skew, one.start
	r.hub.Note("Rehearsing %s as SimulatedCluster %s/%s: %s in %s, %s", describeSource(p), p.host, p.name,
		plural.Count(countNodes(p.shape.Groups), "Node"), plural.Count(len(p.shape.Groups), "group"), plural.Count(len(p.shape.Workloads), "workload"))
	if err := p.client.Create(ctx, p.shape.Cluster); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return cmdutil.Refusal("--name: SimulatedCluster %s exists in namespace %s: choose another name, or leave it out", p.name, p.host)
		}
		if !isAnswer(err) {
			r.hub.Note("SimulatedCluster %s/%s may have been created. To remove it: kubectl delete simulatedcluster -n %s %s", p.host, p.name, p.host, p.name)
		}
		return fmt.Errorf("creating SimulatedCluster %s in namespace %s: %w", p.name, p.host, err)
	}
	err := one.runSteps(ctx)
	result := one.judge(err)
	cleaned := one.cleanUp(ctx)
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), cleaned)
	}
	return errors.Join(r.writeReport(result), exitError(result, err), cleaned)
}

// isAnswer reports whether an error is one of an API server that has decided not to do what it was asked for.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

func describeSource(p *prepared) string {
	if p.inventory.NamesHashed {
		return "a cluster with hashed names, " + p.inventory.ControlPlane
	}
	return "a cluster of " + p.inventory.ControlPlane
}

func countNodes(groups []shape.Group) (nodes int) {
	for _, group := range groups {
		nodes += group.Nodes
	}
	return nodes
}

// runSteps bounds the steps by --timeout, and by how long a hub may be gone.
func (o *rehearsal) runSteps(ctx context.Context) error {
	limited, stop := o.hub.BoundWait(ctx, o.client, o.timeout, 0)
	defer stop()
	err := o.runAll(limited)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case cmdutil.GoneHub(limited) != nil:
		return cmdutil.GoneHub(limited)
	case limited.Err() != nil:
		return cmdutil.Timeout("--timeout: the rehearsal was not over within %s: %w", o.timeout, err)
	}
	return err
}

func (o *rehearsal) runAll(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	o.watcher = newWatcher(watching, o.client, o.name, o.findKubeconfig)
	defer func() {
		stop()
		<-ended
	}()
	started := false
	startWatching := func() {
		started = true
		go func() {
			defer close(ended)
			o.watcher.run(watching)
		}()
	}
	defer func() {
		if !started {
			close(ended)
		}
	}()
	steps := []step{
		{"simulated cluster of " + o.versions.From, o.awaitControlPlane(o.versions.From)},
		{"connect to it", func(ctx context.Context) error {
			startWatching()
			return o.watcher.await(ctx, func(s *observe.Sample) (bool, error) { return s.Answered, nil })
		}},
		{"create " + plural.Count(countNodes(o.shape.Groups), "Node"), o.createNodes},
		{"create " + plural.Count(len(o.shape.Workloads), "workload"), o.createWorkloads},
	}
	if err := o.carryOut(ctx, steps); err != nil {
		return err
	}
	if err := o.noteBefore(); err != nil {
		return err
	}
	steps = nil
	if o.versions.To != o.versions.From {
		steps = append(steps, step{"control plane to " + o.versions.To, o.upgradeControlPlane}, step{settledName, o.settleAfterControlPlane})
	}
	for index := range o.shape.Groups {
		if group := &o.shape.Groups[index]; group.Kubelet != o.versions.Kubelet {
			steps = append(steps, step{fmt.Sprintf("kubelets of %s (%s) to %s", group.Name, plural.Count(group.Nodes, "Node"), o.versions.Kubelet), o.upgradeKubelets(group.Name)})
		}
	}
	steps = append(steps, step{settledName, o.awaitPods})
	return o.carryOut(ctx, steps)
}

// step is one that is timed.
type step struct {
	name string
	do   func(context.Context) error
}

func (o *rehearsal) carryOut(ctx context.Context, steps []step) error {
	for _, one := range steps {
		o.hub.Note("  %s …", one.name)
		start := time.Now()
		err := one.do(ctx)
		phase := report.Phase{Name: one.name, Start: metav1.NewTime(start), Duration: metav1.Duration{Duration: time.Since(start).Round(100 * time.Millisecond)}}
		if err != nil {
			phase.Failure = err.Error()
		}
		o.course.Phases = append(o.course.Phases, phase)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		o.hub.Note("  %s: %s", one.name, phase.Duration.Duration)
	}
	return nil
}

// noteBefore keeps how the pods stand before the upgrade.
func (o *rehearsal) noteBefore() error {
	if err := o.watcher.startTimeline(); err != nil {
		return err
	}
	o.watcher.mutex.Lock()
	defer o.watcher.mutex.Unlock()
	o.course.Before, o.before = o.watcher.last.ListUnscheduled(), o.watcher.last.CountPods()
	return nil
}

// judge makes the report.
func (o *rehearsal) judge(err error) *report.Report {
	start, end := metav1.NewTime(o.start), metav1.Now()
	result := &report.Report{Name: o.name, Start: &start, End: &end, Versions: o.versions, Groups: o.shape.Groups, Differences: o.shape.Notes}
	result.Source = report.Source{
		Taken: o.inventory.Taken, ControlPlane: o.inventory.ControlPlane, Nodes: countNodes(o.shape.Groups), Workloads: len(o.shape.Workloads), Budgets: len(o.inventory.Budgets),
	}
	o.course.ReadyInSource, o.course.ReadyBefore = map[string]int{}, map[string]int{}
	for index := range o.shape.Workloads {
		workload := &o.shape.Workloads[index]
		result.Source.Pods += int(workload.Ready)
		o.course.ReadyInSource[workload.ID()] = int(workload.Ready)
	}
	for id, pods := range o.before {
		result.Source.RehearsedPods += pods.Ready
		o.course.ReadyBefore[id] = pods.Ready
	}
	result.Strategy = o.describeStrategy()
	if err != nil {
		o.course.Failure = err.Error()
	}
	if o.watcher != nil {
		if last, timeline := o.watcher.endTimeline(); timeline != nil {
			o.course.Timeline, o.course.After = timeline, last.ListUnscheduled()
		}
	}
	result.Judge(&o.course)
	return result
}

func (o *rehearsal) describeStrategy() report.Strategy {
	s := o.shape.MachineDeployments[0].Spec.Strategy
	described := report.Strategy{Type: string(s.Type), DrainTimeout: metav1.Duration{Duration: o.drainTimeout}, Order: o.order}
	if s.RollingUpdate != nil {
		described.MaxSurge, described.MaxUnavailable = s.RollingUpdate.MaxSurge.String(), s.RollingUpdate.MaxUnavailable.String()
	}
	if s.InPlace != nil {
		described.MaxUnavailable = s.InPlace.MaxUnavailable.String()
	}
	return described
}

// exitError is the error that the command ends with.
func exitError(result *report.Report, err error) error {
	switch {
	case err != nil && result.Verdict == report.Incomplete:
		return err
	case result.Verdict == report.Passed:
		return nil
	}
	return cmdutil.Timeout("the verdict is %s: %s", result.Verdict, result.Message)
}

// writeReport writes the report as it was asked for, and as text to standard output if that is not taken.
func (r *command) writeReport(result *report.Report) error {
	var content bytes.Buffer
	if err := encodeReport(&content, result, r.form); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if r.outputFile != "" && r.form != asText {
		if err := result.WriteText(r.hub.Out); err != nil {
			return err
		}
	}
	return r.writeOutput(content.Bytes())
}

// findKubeconfig is that of the simulated cluster; empty if there is none yet.
func (o *rehearsal) findKubeconfig() string {
	if o.simulatedKubeconfig != "" || o.fleet == nil {
		return o.simulatedKubeconfig
	}
	return o.fleet.kubeconfigOf(o.name)
}

// noteLeftovers names rehearsals that were not removed.
func (r *command) noteLeftovers(ctx context.Context, c client.Client) {
	left := &metav1.PartialObjectMetadataList{}
	left.SetGroupVersionKind(simulatedClusterLists)
	if err := c.List(ctx, left, client.MatchingLabels{shape.ManagedByLabel: shape.ManagedBy}); err != nil {
		return // It is a hint only.
	}
	for _, one := range left.Items {
		if one.DeletionTimestamp == nil {
			r.hub.Note("note: SimulatedCluster %s/%s of another rehearsal is there. If that is over: kubectl delete simulatedcluster -n %s %s", one.Namespace, one.Name, one.Namespace, one.Name)
		}
	}
}
