package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// State is how an object is. The words are part of the JSON that "status -o json" prints.
type State string

// The states. Only Problem makes a fleet unhealthy.
const (
	// Healthy: the object is as its spec says, and whoever is responsible has seen that.
	Healthy State = "Healthy"
	// Problem: a person has to look.
	Problem State = "Problem"
	// InProgress: Hollowfleet is at work on it, within the usual time.
	InProgress State = "InProgress"
	// Waiting: it waits for what a user arranged: an approval, a maintenance window, a schedule, deletions by hand.
	Waiting State = "Waiting"
	// Paused: a user has paused it.
	Paused State = "Paused"
)

// Reasons of findings that are none of an object's own.
const (
	ReasonNotObserved   = "NotObserved"
	ReasonBeingRemoved  = "BeingRemoved"
	ReasonStuckDeletion = "StuckDeletion"
	ReasonTakesLong     = "TakesLong"
	ReasonClusters      = "ClustersNotHealthy"
	ReasonFailed        = "Failed"
	ReasonOrphans       = "Orphans"
)

const (
	// longestDeletion and longestStart are how long a Machine may take before a person should look.
	longestDeletion, longestStart = 10 * time.Minute, 10 * time.Minute
	// longestScaling is the same for the scaling of a MachineSet or MachineDeployment.
	longestScaling = 30 * time.Minute
)

// Finding is what is to be said of one object that is not healthy. It is part of the JSON that "status -o json" prints.
type Finding struct {
	// kind, namespace and name of the object; namespace is absent for a kind without.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// state is Problem, InProgress, Waiting or Paused.
	State State `json:"state"`
	// reason is a word for programs: that of a condition, or one of this package's.
	Reason string `json:"reason"`
	// message is for people.
	Message string `json:"message,omitempty"`
	// since is when it came to be so; absent if that is not known.
	Since *metav1.Time `json:"since,omitempty"`
	// next is the command that shows more or mends it.
	Next string `json:"next"`

	parentKind, parentName string
}

// Judge is what judges objects.
type Judge struct {
	Now time.Time
	// Clusters are the names of the Clusters that exist; nil if they could not be listed.
	Clusters map[string]bool

	// silent has what is known of the agents that are not connected, by Cluster, and timeouts the longest of the runs of a LoadTest, by its
	// UID.
	silent map[string]string
	// classes are what happened to the Machines of MachineClasses, by their namespace and name.
	classes  map[string]*machinesOfClass
	timeouts map[string]time.Duration
	// deployments are those of fleets, by their name, which is the fleet's.
	deployments map[string][]*v1alpha1.MachineDeployment
}

// judgement is a state with its reasons.
type judgement struct {
	state           State
	reason, message string
	since           metav1.Time
}

func (s *subject) newProblem(reason, message string) *judgement {
	return &judgement{state: Problem, reason: reason, message: message, since: s.GetCreationTimestamp()}
}

func judgementFrom(state State, condition *metav1.Condition) *judgement {
	message := condition.Message
	if message == "" {
		message = fmt.Sprintf("%s is %s", condition.Type, condition.Status)
	}
	return &judgement{state: state, reason: condition.Reason, message: message, since: condition.LastTransitionTime}
}

// checks are the questions that a judgement asks, in order: the first one with an answer explains the object best.
var checks = []func(*Judge, *subject) *judgement{
	checkDecoded, checkCluster, checkStale, checkDeletion, checkStalled, checkObserved, checkFrozen, checkConditions, checkFailed, checkPaused,
	checkProgress,
}

func (j *Judge) judgeSubject(s *subject) judgement {
	for _, check := range checks {
		if found := check(j, s); found != nil {
			return *found
		}
	}
	return judgement{state: Healthy}
}

func checkDecoded(_ *Judge, s *subject) *judgement {
	if s.undecodable == "" {
		return nil
	}
	return s.newProblem(v1alpha1.ReasonUndecodable, "cannot be decoded, so its state is unknown and it is left unchanged: "+s.undecodable)
}

func checkCluster(j *Judge, s *subject) *judgement {
	// A simulated cluster says itself that its host is missing, and may be in any namespace.
	if s.cluster == "" || s.kind == MachineClass || s.kind == SimulatedCluster || j.Clusters == nil || j.Clusters[s.cluster] {
		return nil
	}
	return s.newProblem(v1alpha1.ReasonClusterNotFound, fmt.Sprintf("Cluster %s does not exist: no agent manages this object, and its status is the last known one", s.cluster))
}

func checkStale(_ *Judge, s *subject) *judgement {
	if stale := meta.FindStatusCondition(s.conditions, v1alpha1.MachineStaleCondition); stale != nil && stale.Status != metav1.ConditionFalse && s.kind == Machine {
		found := judgementFrom(Problem, stale)
		found.reason = "Stale: " + stale.Reason
		return found
	}
	return nil
}

func checkDeletion(j *Judge, s *subject) *judgement {
	at := s.GetDeletionTimestamp()
	if at == nil {
		return nil
	}
	if s.kind == Cluster {
		return &judgement{Problem, ReasonBeingRemoved, "the Cluster is being removed: its Machines stay, and no agent will manage them", *at}
	}
	held := "finalizers: " + strings.Join(s.GetFinalizers(), ", ")
	if drained := meta.FindStatusCondition(s.conditions, v1alpha1.MachineDrainedCondition); drained != nil && drained.Status != metav1.ConditionTrue {
		held = cmp.Or(drained.Message, held)
		if drained.Reason == v1alpha1.ReasonMisconfiguredBudget || drained.Reason == v1alpha1.ReasonDrainTimedOut {
			return judgementFrom(Problem, drained)
		}
	}
	if frozen := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition); frozen != nil && frozen.Reason == v1alpha1.ReasonAwaitingThaw {
		return judgementFrom(Problem, frozen)
	}
	if age := j.Now.Sub(at.Time); age > longestDeletion {
		return &judgement{Problem, ReasonStuckDeletion, fmt.Sprintf("has been in deletion for %s; %s", duration.HumanDuration(age), held), *at}
	}
	return &judgement{InProgress, v1alpha1.ReasonDeleting, held, *at}
}

func checkStalled(_ *Judge, s *subject) *judgement {
	if stalled := meta.FindStatusCondition(s.conditions, v1alpha1.StalledCondition); stalled != nil && stalled.Status == metav1.ConditionTrue {
		return judgementFrom(Problem, stalled)
	}
	return nil
}

// checkObserved finds a status that is about another spec, or about none.
func checkObserved(j *Judge, s *subject) *judgement {
	who := "the hub"
	switch s.kind {
	case MachineClass, FleetApproval:
		return nil
	case Machine, NodeDisruptionRun, LoadTestRun:
		who = "the agent of Cluster " + s.cluster
	}
	ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition)
	switch {
	case s.tracked && s.observed == 0 || ready == nil || s.needsPhase() && s.phase == "":
		return j.judgeUnobserved(s, who+" has not reported on it yet")
	case s.tracked && s.observed != s.GetGeneration():
		return j.judgeUnobserved(s, fmt.Sprintf("%s has not observed its current spec yet: generation %d, observed %d", who, s.GetGeneration(), s.observed))
	case ready.Status == metav1.ConditionTrue && s.tracked && s.isAboutAnotherSpec(ready):
		return j.judgeUnobserved(s, "its condition Ready is not about the current spec")
	}
	return nil
}

// isAboutAnotherSpec reports whether a condition was found for a spec that the object does not have (any more): a restored object has an
// earlier one.
func (s *subject) isAboutAnotherSpec(condition *metav1.Condition) bool {
	return condition.ObservedGeneration != 0 && condition.ObservedGeneration != s.GetGeneration()
}

func (s *subject) needsPhase() bool {
	return slices.Contains([]string{Machine, NodeDisruption, NodeDisruptionRun, LoadTest, LoadTestRun}, s.kind)
}

func checkFrozen(_ *Judge, s *subject) *judgement {
	if frozen := meta.FindStatusCondition(s.conditions, v1alpha1.FrozenCondition); frozen != nil && frozen.Status != metav1.ConditionFalse {
		return judgementFrom(Problem, frozen)
	}
	return nil
}

// required are conditions that no object is healthy without, by the status that they have then. Absent is fine but for Available.
var required = []struct {
	kind   string
	wanted metav1.ConditionStatus
}{
	{v1alpha1.ReplicaFailureCondition, metav1.ConditionFalse},
	{v1alpha1.RemediationAllowedCondition, metav1.ConditionTrue},
	{v1alpha1.AvailableCondition, metav1.ConditionTrue},
	{v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue},
	{v1alpha1.ClusterMirroredCondition, metav1.ConditionTrue},
	{v1alpha1.ClusterObjectsDecodedCondition, metav1.ConditionTrue},
}

func checkConditions(_ *Judge, s *subject) *judgement {
	parent, _ := s.parentOf()
	for _, part := range required {
		found := meta.FindStatusCondition(s.conditions, part.kind)
		isAvailable := part.kind == v1alpha1.AvailableCondition
		switch {
		case isAvailable && s.isAvailableElsewhere(parent, found):
			continue
		case found == nil && isAvailable && slices.Contains([]string{MachineFleet, MachineDeployment, MachineSet}, s.kind):
			return s.newProblem(ReasonNotObserved, "its condition Available is missing")
		case found != nil && found.Status != part.wanted:
			return judgementFrom(Problem, found)
		case found != nil && isAvailable && s.tracked && s.isAboutAnotherSpec(found):
			return s.newProblem(ReasonNotObserved, "its condition Available is not about the current spec")
		}
	}
	return nil
}

// isAvailableElsewhere reports whether something else than the condition Available counts for an object: the MachineDeployment's for its
// sets, since a rollout takes the Machines of one set for another, and Ready for a fleet that has nothing yet that could be unavailable.
func (s *subject) isAvailableElsewhere(parent string, available *metav1.Condition) bool {
	return s.kind == MachineSet && parent == MachineDeployment || s.kind == MachineFleet && s.awaitsRollout(available)
}

// awaitsRollout reports whether a fleet is only unavailable because its current rollout has not reached clusters that have nothing yet.
func (s *subject) awaitsRollout(available *metav1.Condition) bool {
	ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition)
	return available != nil && available.Reason == v1alpha1.ReasonAwaitingRollout && !s.isAboutAnotherSpec(available) &&
		ready != nil && ready.Status != metav1.ConditionTrue
}

// checkFailed finds what has failed, or has no proof that it has not.
func checkFailed(_ *Judge, s *subject) *judgement {
	message := cmp.Or(s.message, s.failed)
	if s.isRolledInWaves() && s.failed != "" {
		message = s.failed + "; " + s.message
	}
	found := &judgement{state: Problem, message: message, since: s.GetCreationTimestamp()}
	if ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition); ready != nil {
		found.since = ready.LastTransitionTime
	}
	switch {
	case s.phase == string(v1alpha1.MachineFailed): // The phases of all kinds have this word.
		found.reason = ReasonFailed
		if ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition); ready != nil && s.kind == Machine {
			found.reason, found.message = ready.Reason, ready.Message
		}
	case s.verdict != "" && s.verdict != string(v1alpha1.LoadPassed):
		found.reason = "Verdict" + s.verdict
	case s.failed != "" && s.isRolledInWaves():
		found.reason = ReasonClusters
	case s.failed != "":
		found.reason = ReasonFailed
	default:
		return nil
	}
	return found
}

func checkPaused(j *Judge, s *subject) *judgement {
	if !s.paused {
		return nil
	}
	if strings.HasPrefix(s.kind, NodeDisruption) && s.phase == string(v1alpha1.NodeDisruptionRunning) {
		ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition) // checkObserved wants it.
		return j.boundWaiting(longestStart, &judgement{InProgress, v1alpha1.ReasonPaused, "spec.paused is set, and its Nodes are not restored yet: " + s.message, ready.LastTransitionTime})
	}
	found := &judgement{state: Paused, reason: v1alpha1.ReasonPaused, message: "spec.paused is set"}
	if ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition); ready != nil {
		found.message, found.since = cmp.Or(ready.Message, found.message), ready.LastTransitionTime
		if ready.Status == metav1.ConditionUnknown && ready.Reason == v1alpha1.ReasonUnknown {
			return judgementFrom(Problem, ready)
		}
	}
	return found
}
