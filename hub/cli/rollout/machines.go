package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
)

// machinesKind is the name of the kind Machine among those that are followed.
const machinesKind = "Machine"

// kindOfMachines are the Machines of the rollout, as the hub labels them.
func (s *subject) kindOfMachines() live.Kind {
	options := []client.ListOption{client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: s.clientObject().GetName()}}
	if s.deployment != nil {
		options = append(options, client.InNamespace(s.deployment.Namespace))
	}
	return live.Kind{Name: machinesKind, List: &v1alpha1.MachineList{}, Options: options}
}

// machineStep is a Machine of the rollout with what it does now.
type machineStep struct {
	namespace, name string
	health.Step
}

// listSteps are the Machines of a list that are not simply Ready, by namespace: first those that a person may have to look at, the longest
// first.
func listSteps(list client.ObjectList, minReady time.Duration, now time.Time) map[string][]machineStep {
	steps := map[string][]machineStep{}
	machines, ok := list.(*v1alpha1.MachineList)
	if !ok {
		return steps
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		if step := health.StepOf(machine, minReady, now); step.Doing != health.Working {
			steps[machine.Namespace] = append(steps[machine.Namespace], machineStep{machine.Namespace, machine.Name, step})
		}
	}
	for _, of := range steps {
		slices.SortFunc(of, func(a, b machineStep) int {
			return cmp.Or(cmp.Compare(a.Doing.Rank(), b.Doing.Rank()), a.Since.Compare(b.Since.Time), cmp.Compare(a.name, b.name))
		})
	}
	return steps
}

// minReady is how long a Machine has to be Ready to be available.
func (s *subject) minReady() time.Duration {
	switch {
	case s.fleet != nil:
		return time.Duration(s.fleet.Spec.Template.Spec.MinReadySeconds) * time.Second
	case s.set != nil:
		return 0
	}
	return time.Duration(s.deployment.Spec.MinReadySeconds) * time.Second
}

// text is a machine's step without its name.
func (m *machineStep) text(now time.Time) string {
	text := string(m.Doing)
	if !m.Since.IsZero() {
		text += " for " + duration.HumanDuration(max(now.Sub(m.Since.Time), 0))
	}
	if m.Reason != "" && m.Reason != string(m.Doing) {
		text += " (" + m.Reason + ")"
	}
	if m.Message != "" {
		text += ": " + m.Message
	}
	return text
}

// line is the step where there is no screen.
func (m *machineStep) line() string {
	since := ""
	if !m.Since.IsZero() {
		since = " since " + m.Since.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("  %s/%s: %s%s (%s): %s", m.namespace, m.name, m.Doing, since, m.Reason, cmp.Or(m.Message, "-"))
}

// isWorthALine reports whether a step is printed where there is no screen: what waits, and not what only takes its time.
func (m *machineStep) isWorthALine() bool { return m.Doing == health.Draining || m.NeedsAPerson() }

// startPrintingMachines prints, until the caller calls what it returns, what Machines of the rollout wait for, each again when it waits for
// another reason.
func (s *subject) startPrintingMachines(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	store, minReady := live.NewStore(s.client, []live.Kind{s.kindOfMachines()}), s.minReady()
	var running sync.WaitGroup
	running.Go(func() { store.Run(ctx) })
	running.Go(func() { printSteps(ctx, s.hub, store, minReady) })
	return func() {
		cancel()
		running.Wait()
	}
}

func printSteps(ctx context.Context, hub *cmdutil.Hub, store *live.Store, minReady time.Duration) {
	last, refused := map[string]string{}, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-store.Changed():
		}
		known := store.Snapshots()[machinesKind]
		if apierrors.IsForbidden(known.Err) && !refused {
			refused = true
			hub.Note("What Machines wait for is not shown: you may not list or watch them")
		}
		seen := map[string]string{}
		for _, steps := range listSteps(known.List, minReady, time.Now()) {
			for i := range steps {
				step := &steps[i]
				key := step.namespace + "/" + step.name
				if seen[key] = string(step.Doing) + step.Reason; step.isWorthALine() && last[key] != seen[key] {
					hub.Say("%s", step.line())
				}
			}
		}
		last = seen
	}
}
