package machinedeployment

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/clustermetrics"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func createdEvent(set *v1alpha1.MachineSet, d decision) reconciler.Event {
	return reconciler.NormalEvent("MachineSetCreated", "Create", fmt.Sprintf(
		"Created MachineSet %s with %s for revision %d", set.Name, plural.Count(d.NewReplicas, "replica"), d.revision)).With(aboutSet(set))
}

// scaledEvent tells of what a user has asked for: the steps of a rollout are not told.
func scaledEvent(c change, s *scope, rolling bool) reconciler.Event {
	why := fmt.Sprintf("spec.replicas of the MachineDeployment is %d", ptr.Deref(s.deployment.Spec.Replicas, 1))
	switch {
	case s.deployment.Spec.Paused:
		why += ", and its rollout is paused"
	case rolling:
		why += ", and a rollout is in progress"
	}
	reason := "MachineSetScaledUp"
	if c.replicaChange() < 0 {
		reason = "MachineSetScaledDown"
	}
	return reconciler.NormalEvent(reason, "Scale", fmt.Sprintf(
		"Scaled MachineSet %s from %d to %s: %s", c.after.Name, setReplicas(c.before), plural.Count(setReplicas(c.after), "replica"), why)).With(aboutSet(c.after))
}

func adoptedEvent(set *v1alpha1.MachineSet) reconciler.Event {
	return reconciler.NormalEvent("MachineSetAdopted", "Adopt", "Adopted MachineSet "+set.Name).With(aboutSet(set))
}

func collisionEvent(set *v1alpha1.MachineSet) reconciler.Event {
	return reconciler.WarningEvent("TemplateHashCollision", "Create", fmt.Sprintf(
		"MachineSet %s has the name of the next MachineSet but another template: using another name", set.Name)).With(aboutSet(set))
}

func failedEvent(err error) reconciler.Event {
	return reconciler.WarningEvent("RolloutFailed", "Reconcile", err.Error())
}

// rolloutEvent tells of a new revision and its set; one whose template is that of an older revision is told as that.
func rolloutEvent(s *scope, d decision) reconciler.Event {
	note := fmt.Sprintf("Rolling out revision %d with strategy %s", d.revision, s.deployment.Spec.Strategy.Type)
	if d.renewed > 0 {
		note = fmt.Sprintf("Rolling back to the template of revision %d, as revision %d, with strategy %s", d.renewed, d.revision, s.deployment.Spec.Strategy.Type)
	}
	if s.current != nil {
		note += ", to MachineSet " + s.current.Name
	}
	return reconciler.NormalEvent("RolloutStarted", "Rollout", note).With(aboutSet(s.current))
}

// progressEvent tells of a turn of the Progressing condition; nil if there is nothing to tell.
func progressEvent(before, after *metav1.Condition) *reconciler.Event {
	if before == nil && after.Reason != v1alpha1.ReasonSelectorOverlap || before != nil && before.Reason == after.Reason {
		return nil
	}
	switch after.Reason {
	case v1alpha1.ReasonNewMachineSetAvailable:
		return new(reconciler.NormalEvent("RolloutCompleted", "Rollout", "All machines have the current template and are available"))
	case v1alpha1.ReasonPaused:
		return new(reconciler.NormalEvent("RolloutPaused", "Rollout", after.Message))
	case v1alpha1.ReasonAwaitingRequest:
		return new(reconciler.NormalEvent("RolloutAwaitsRequest", "Rollout", after.Message))
	case v1alpha1.ReasonAwaitingSurge:
		return new(reconciler.NormalEvent("RolloutAwaitsSurge", "Rollout", after.Message))
	case v1alpha1.ReasonAwaitingControlPlane:
		return new(reconciler.NormalEvent("RolloutAwaitsControlPlane", "Rollout", after.Message))
	case v1alpha1.ReasonProgressDeadlineExceeded, v1alpha1.ReasonUnsupportedKubeletVersion, v1alpha1.ReasonConfigSourceUnavailable, v1alpha1.ReasonSelectorOverlap:
		return new(reconciler.WarningEvent(after.Reason, "Rollout", after.Message))
	}
	if before.Reason == v1alpha1.ReasonPaused {
		return new(reconciler.NormalEvent("RolloutResumed", "Rollout", "spec.paused is unset: "+after.Message))
	}
	return nil
}

func frozenEvent(condition metav1.Condition) reconciler.Event {
	if condition.Status == metav1.ConditionTrue {
		return reconciler.WarningEvent("Frozen", "Freeze", "Nothing is created, moved or deleted: "+condition.Message)
	}
	return reconciler.NormalEvent("Thawed", "Freeze", "Unfrozen: reconciliation has resumed")
}

func movedEvent(machine *v1alpha1.Machine, set *v1alpha1.MachineSet) reconciler.Event {
	return reconciler.NormalEvent("InPlaceUpdateStarted", "Update", fmt.Sprintf(
		"Moved Machine %s to MachineSet %s for an update in place", machine.Name, set.Name)).With(&v1alpha1.Machine{ObjectMeta: objectName(machine)})
}

func replacedEvent(namespace string, pick plan.Pick) reconciler.Event {
	return reconciler.NormalEvent("MachineReplaced", "Delete", fmt.Sprintf(
		"Deleted Machine %s: its provider cannot update it in place, so MachineSet %s replaces it", pick.Name, pick.Set)).With(aboutPick(namespace, pick))
}

func removedEvent(namespace string, pick plan.Pick) reconciler.Event {
	return reconciler.NormalEvent("MachineRemoved", "Delete", fmt.Sprintf(
		"Deleted Machine %s of MachineSet %s, which is not available: a scale-down would have deleted an available one", pick.Name, pick.Set)).With(aboutPick(namespace, pick))
}

// emitEvent sends an event about a deployment. Events that have reason and related object in common are one event with a
// count: of each set's scaling there is one, of each Machine's update another. They are counted as one only if they
// regard equal references, so without a resource version.
func emitEvent(recorder events.EventRecorder, deployment *v1alpha1.MachineDeployment, e reconciler.Event) {
	e.Send(recorder, &v1alpha1.MachineDeployment{ObjectMeta: objectName(deployment)})
}

func objectName(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}

func aboutSet(set *v1alpha1.MachineSet) runtime.Object {
	if set == nil {
		return nil
	}
	return &v1alpha1.MachineSet{ObjectMeta: objectName(set)}
}

func aboutPick(namespace string, pick plan.Pick) runtime.Object {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pick.Name, UID: pick.UID}}
}

// reachedMemory is how long a deployment is remembered that is not looked at. It is gone then, or at rest.
const reachedMemory = 24 * time.Hour

// milestones remembers how far the rollout of each deployment has come at best. A Machine that fails, is replaced and
// fails again raises the counts over and over, and gets the rollout no further. The zero value is ready for use. A hub
// that starts over continues from what it finds.
type milestones struct {
	mu  sync.Mutex
	all map[types.UID]*milestone
}

type milestone struct {
	generation int64
	best       standings
	// at is when the rollout came as far as best; zero if this process has not seen it. used is for forgetting.
	at, used time.Time
}

// standings are the numbers of Machines by which a rollout is measured: those of the current template, and how many the
// sets of older templates are to have.
type standings struct {
	updated, ready, available, old int
}

// currentStandings returns where the rollout of s stands.
func (s *scope) currentStandings() standings {
	now := standings{updated: s.countUpdated()}
	if s.current != nil {
		counts := s.machines[s.current.UID]
		now.ready, now.available = counts.Ready, counts.Available
	}
	for _, set := range s.sets {
		if set != s.current && set.DeletionTimestamp == nil {
			now.old += setReplicas(set)
		}
	}
	return now
}

// recordProgress takes in where the rollout of s stands, and returns when it last came further than ever before; zero if this
// process has not seen it. A change of the deployment's spec changes what the numbers mean, so they are taken as they are
// then; a new template is a step of its own.
func (m *milestones) recordProgress(s *scope, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[types.UID]*milestone{}
	}
	reached, known := s.currentStandings(), m.all[s.deployment.UID]
	if known == nil {
		for uid, other := range m.all {
			if now.Sub(other.used) > reachedMemory {
				delete(m.all, uid)
			}
		}
		known = &milestone{generation: s.deployment.Generation, best: reached}
		m.all[s.deployment.UID] = known
	}
	known.used = now
	switch {
	case s.renumbered:
		known.best, known.at = reached, now
	case known.generation != s.deployment.Generation:
		known.best = reached
	case reached.isBeyond(known.best):
		known.best, known.at = reached.bestOf(known.best), now
	}
	known.generation = s.deployment.Generation
	return known.at
}

// isBeyond reports whether there is more of what is wanted, or less of what is to go, than at best.
func (s standings) isBeyond(best standings) bool { return s.bestOf(best) != best }

// bestOf is the best of both.
func (s standings) bestOf(best standings) standings {
	return standings{
		updated: max(s.updated, best.updated), ready: max(s.ready, best.ready),
		available: max(s.available, best.available), old: min(s.old, best.old),
	}
}

var setsScaled = clustermetrics.NewCounter("hollowfleet_hub_machine_sets_scaled_total",
	"Changes of a MachineSet's replicas by the hub, by cluster.")
