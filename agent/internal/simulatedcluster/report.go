package simulatedcluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func (s *scope) sayCondition(status metav1.ConditionStatus, reason, message string) {
	s.said = metav1.Condition{
		Type: v1alpha1.ControlPlaneReadyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: s.one.Generation,
	}
}

// sayPending tells what a cluster waits for of which there is nothing yet.
func (s *scope) sayPending(message string) {
	if s.found == nil {
		s.sayCondition(metav1.ConditionUnknown, v1alpha1.ReasonPending, message)
	}
}

// sayObserved tells what the driver knows of the cluster.
func (s *scope) sayObserved(now time.Time) {
	switch found := s.found; {
	case s.silent != nil:
		s.sayCondition(metav1.ConditionUnknown, v1alpha1.ReasonDriverUnreachable, "The host does not tell how it is: "+s.silent.Error())
	case found == nil:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonStarting, "The host does not run it yet")
	case s.isAnothers():
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"metadata.name: the host runs a simulated cluster of this name for another SimulatedCluster, of UID %s, and leaves it alone: choose another name, or remove that one on the host", found.UID))
	case found.Phase == clusterdriver.Removing:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonDeleting, joinMessage("It is being removed", found.Message))
	case found.Phase == clusterdriver.Failed:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonControlPlaneFailed, joinMessage("It fails, and is tried again", found.Message))
	case found.Phase != clusterdriver.Running:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonStarting, joinMessage("It is starting", found.Message))
	case !isFresh(found, now):
		s.sayCondition(metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "Its API server has not said for a while that it is ready")
	default:
		s.sayRunning()
	}
}

func joinMessage(parts ...string) string {
	return strings.TrimSuffix(strings.Join(parts, ": "), ": ")
}

// sayRunning tells of a control plane that answers. Until the driver has been asked for the current spec, it is about an earlier one.
func (s *scope) sayRunning() {
	current := s.memory.generation == s.one.Generation
	if current && !s.isReached() {
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonUpdating, joinMessage(fmt.Sprintf("It runs %s and is being brought to %s",
			s.found.Version, cmp.Or(s.one.Spec.Versions.ControlPlane, s.newestVersion())), s.waiting))
		return
	}
	s.sayCondition(metav1.ConditionTrue, v1alpha1.ReasonReady, s.found.Message)
	if known := meta.FindStatusCondition(s.before.Status.Conditions, v1alpha1.ControlPlaneReadyCondition); !current {
		s.said.ObservedGeneration = 0
		if known != nil {
			s.said.ObservedGeneration = known.ObservedGeneration
		}
	}
}

// sayRefused tells why the driver does not do what it is asked for.
func (s *scope) sayRefused(refused *clusterdriver.RefusedError) {
	switch refused.Refusal {
	case clusterdriver.VersionNotSupported:
		if len(refused.Versions) == 0 {
			s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonVersionNotSupported, refused.Problem)
			return
		}
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonVersionNotSupported, fmt.Sprintf("spec.versions.controlPlane: the host cannot run %s: choose one of %s, or leave it out",
			s.one.Spec.Versions.ControlPlane, strings.Join(refused.Versions, ", ")))
	case clusterdriver.Downgrade:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonControlPlaneDowngrade, "spec.versions.controlPlane: "+strings.TrimPrefix(refused.Problem, "spec.versions.controlPlane: "))
	case clusterdriver.NameTaken:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonNameTaken, "metadata.name: the host has another cluster of this name, and leaves it alone: "+refused.Problem)
	case clusterdriver.NoRoom:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonInsufficientResources, "The host has no room for it: "+refused.Problem)
	case clusterdriver.BeingRemoved:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonStarting, "It is started when what is being removed is gone: "+refused.Problem)
	case clusterdriver.Changing:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonUpdating, "It is still being brought to what was asked for before: "+refused.Problem)
	default:
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonControlPlaneFailed, "The host refuses it: "+refused.Problem)
	}
}

// sayTurnedOff tells that nothing is known of a cluster any more. One of which nothing was said stays as it is.
func (s *scope) sayTurnedOff() {
	if meta.FindStatusCondition(s.one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition) != nil {
		s.sayCondition(metav1.ConditionUnknown, v1alpha1.ReasonHostNotAllowed, fmt.Sprintf("The agent of Cluster %s has stopped running simulated clusters: turn it on there again", s.one.Namespace))
	}
}

// report writes the agent's part of the status, if it has changed.
func (c *Controller) report(ctx context.Context, s *scope) error {
	if s.said.Type == "" {
		return nil
	}
	conditions.Set(&s.one.Status.Conditions, s.said, c.Clock.Now())
	if s.silent == nil && s.found != nil && !s.isAnothers() && s.found.Version != "" {
		s.one.Status.Versions = &v1alpha1.ObservedControlPlaneVersions{
			ControlPlane: s.found.Version, ControllerManager: s.found.ControllerManager, Scheduler: s.found.Scheduler,
		}
	}
	if equality.Semantic.DeepEqual(s.before.Status, s.one.Status) {
		return nil
	}
	// The hub writes to the same list of conditions.
	if err := c.Hub.Status().Patch(ctx, s.one, reconciler.MergeFromWithLock(s.before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
