package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

func newStatus(hub *cmdutil.Hub) *cobra.Command {
	var (
		follow  bool
		timeout time.Duration
	)
	c := newReportingCommand(hub, &cobra.Command{
		Use: "status", Short: "Follow a rollout until it is complete",
		Long: `Follow a rollout until every Machine has the current template and is available. Interrupting the command does not
stop the rollout.

On a terminal, one screen has each cluster that has started and what each Machine there that is not Ready does, since when, and what it
waits for, such as a pod and the PodDisruptionBudget that keeps it; of a SimulatedClusterSet it has the waves, and in each the clusters
that are not updated. Otherwise a line is printed for each step of a cluster, and for each
Machine that waits.

The exit code is 5 if the rollout makes no progress for longer than spec.progressDeadlineSeconds, if more clusters of a
MachineFleet have failed than its strategy allows, if it was aborted or rolled back, or if it is not complete after --timeout. It
is 4 if it cannot continue until a user changes something: the object is Stalled or paused, for example because a cluster does not
support the kubelet version or a MachineClass is missing.

A rollout that is frozen, or waiting for an approval, a maintenance window or a cluster, is not over: the command says why
immediately, and keeps waiting until --timeout or until you interrupt it. It also reports when the hub does not work; the exit code
is then 1 for a rollout that was complete when the hub last checked, with --watch=false, and, without --timeout, as soon as no hub
has worked for two minutes.`,
		Example: `  kubectl hollow rollout status machinefleet workers
  kubectl hollow rollout status machinedeployment workers -n c1 --timeout 10m
  kubectl hollow rollout status simulatedclusterset simulated

  # Show the state now, and do not wait
  kubectl hollow rollout status machinedeployment workers -n c1 --watch=false`,
	}, all, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		if !follow {
			progress := s.currentProgress()
			s.printf("%s", progress.progressLine())
			if progress.err != nil {
				return nil, progress.err
			}
			return nil, s.hub.ProveHub(ctx, s.client, s.fullName()+" "+progress.text)
		}
		return nil, s.followRollout(ctx, timeout)
	})
	c.Flags().BoolVarP(&follow, "watch", "w", true, "wait until the rollout is complete")
	c.Flags().DurationVar(&timeout, "timeout", 0, "longest time to wait (default for as long as the rollout makes progress)")
	return c
}

// progress is how a rollout is.
type progress struct {
	// text is made of fixed words, reasons and counts: it may be written to a terminal as it is.
	text string
	// why is a message of the object, if there is more to say.
	why  string
	done bool
	// err ends the waiting.
	err error
}

// progressLine is the progress with its reason.
func (p progress) progressLine() string {
	if p.why == "" {
		return p.text
	}
	return p.text + ": " + p.why
}

func (s *subject) currentProgress() progress {
	switch {
	case s.fleet != nil:
		return progressOfFleet(s.fleet)
	case s.set != nil:
		return progressOfSet(s.set)
	}
	return progressOf(s.deployment)
}

// followRollout shows every step until the rollout is complete or has failed.
func (s *subject) followRollout(ctx context.Context, timeout time.Duration) error {
	if live.HasScreen(s.hub) {
		return s.followOnBoard(ctx, timeout)
	}
	limited, stop := s.hub.BoundWait(ctx, s.client, timeout, 0)
	defer stop()
	if s.set == nil {
		defer s.startPrintingMachines(limited)()
	}
	var err error
	switch {
	case s.fleet != nil:
		err = s.followFleet(limited)
	case s.set != nil:
		err = s.followSet(limited)
	default:
		err = s.followDeployment(limited)
	}
	switch {
	case err == nil, cmdutil.GoneHub(limited) != nil && s.currentProgress().done:
		return s.hub.ProveHub(ctx, s.client, s.fullName()+" "+s.currentProgress().text)
	case cmdutil.GoneHub(limited) != nil:
		return cmdutil.GoneHub(limited)
	case limited.Err() == nil:
		return err
	case ctx.Err() != nil:
		s.hub.Note("The rollout continues. To follow it again: kubectl hollow rollout status %s", s.commandArguments())
		return err
	}
	return cmdutil.Timeout("%s has not rolled out within %s: %s", s.fullName(), timeout, s.withReason(s.currentProgress().progressLine()))
}

func (s *subject) followDeployment(ctx context.Context) error {
	last := ""
	return cmdutil.Until(ctx, s.client, &v1alpha1.MachineDeploymentList{}, client.ObjectKeyFromObject(s.deployment), s.deployment,
		func(deployment *v1alpha1.MachineDeployment) (bool, error) {
			s.deployment = deployment
			now := progressOf(deployment)
			if line := now.progressLine(); line != last {
				s.printf("%s", line)
				last = line
			}
			return now.done, now.err
		})
}

// notObserved is how a rollout is that the hub has not looked at.
const notObserved = "waiting for the hub to observe the current spec"

// progressOf reads it from the status; a status that is older than the spec says nothing.
func progressOf(deployment *v1alpha1.MachineDeployment) progress {
	status := &deployment.Status
	if status.ObservedGeneration != deployment.Generation {
		return progress{text: notObserved}
	}
	want := int32(1)
	if deployment.Spec.Replicas != nil {
		want = *deployment.Spec.Replicas
	}
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ProgressingCondition)
	if stalled != nil && stalled.Status == metav1.ConditionFalse && stalled.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		return progress{
			text: "makes no progress",
			err:  cmdutil.Timeout("machinedeployment %s exceeded its progress deadline: %s", deployment.Name, stalled.Message),
		}
	}
	updated := fmt.Sprintf("%d of %d machines updated", status.UpdatedReplicas, want)
	if refused := refusalOf("machinedeployment "+deployment.Name, status.Conditions); refused != nil {
		return progress{text: "is stalled, " + updated, err: refused}
	}
	if deployment.Spec.Paused && status.UpdatedReplicas < want {
		return progress{text: "is paused, " + updated, err: cmdutil.Refusal("machinedeployment %s cannot roll out while it is paused: kubectl hollow rollout resume machinedeployment %s -n %s",
			deployment.Name, deployment.Name, deployment.Namespace)}
	}
	return progressOfMachines(deployment, want, updated)
}

// progressOfMachines is how a rollout is that nothing stops.
func progressOfMachines(deployment *v1alpha1.MachineDeployment, want int32, updated string) progress {
	status := &deployment.Status
	switch held, why := explainWaiting(deployment, updated); {
	case status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want:
		if unknown := unknownNow(deployment); unknown != "" {
			return progress{text: updated + ", whether they are available is unknown", why: unknown}
		}
		return progress{text: "has rolled out: " + updated + ", all available", done: true}
	case held != "":
		return progress{text: held, why: why}
	case status.UpdatedReplicas < want:
		return progress{text: updated}
	case status.Replicas > status.UpdatedReplicas:
		return progress{text: fmt.Sprintf("%s, %s still to delete", updated, plural.Count(int(status.Replicas-status.UpdatedReplicas), "old machine"))}
	}
	return progress{text: fmt.Sprintf("%s, %d available", updated, status.AvailableReplicas)}
}

// explainWaiting says what keeps a rollout from continuing; empty if nothing does.
func explainWaiting(deployment *v1alpha1.MachineDeployment, updated string) (text, why string) {
	conditions := deployment.Status.Conditions
	frozen := meta.FindStatusCondition(conditions, v1alpha1.FrozenCondition)
	progressing := meta.FindStatusCondition(conditions, v1alpha1.ProgressingCondition)
	switch {
	case frozen != nil && frozen.Status == metav1.ConditionTrue:
		return fmt.Sprintf("is frozen (%s), %s", frozen.Reason, updated), frozen.Message
	case progressing != nil && slices.Contains(awaited, progressing.Reason):
		return fmt.Sprintf("waits (%s), %s", progressing.Reason, updated), progressing.Message
	}
	return "", ""
}

// awaited are the reasons for which a rollout waits for somebody, by their condition Progressing.
var awaited = []string{
	v1alpha1.ReasonAwaitingSurge, v1alpha1.ReasonAwaitingRequest, v1alpha1.ReasonAwaitingApproval, v1alpha1.ReasonOutsideMaintenanceWindow,
	v1alpha1.ReasonAwaitingControlPlane,
}

// unknownNow says why the status, which is what was known last, may not be how the Machines are; empty if it is.
func unknownNow(deployment *v1alpha1.MachineDeployment) string {
	ready := meta.FindStatusCondition(deployment.Status.Conditions, v1alpha1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionUnknown {
		return ""
	}
	return ready.Reason + ": " + ready.Message
}
