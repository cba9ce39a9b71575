package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// ReasonNoProgress is that of a run whose status has not changed for longer than one of its phases lasts.
const ReasonNoProgress = "NoProgress"

const (
	// slack is by how much what has a time of its own may be late: hub and agents look every few seconds.
	slack = 5 * time.Minute
	// longestPreparation is the longest prepareTimeout that a LoadTest may have, and longestLoad the longest timeout of its load.
	longestPreparation, longestLoad = time.Hour, 24 * time.Hour
	// longestRemoval is how long a run may remove what it made: the hub waits for 10 minutes.
	longestRemoval = 15 * time.Minute
	// longestSilence is how long the status of a run may stay as it is, beside its longest phase: its agent writes it every few seconds.
	longestSilence = 10 * time.Minute
)

// lifetime is how long an object may be in its phase, by its own spec.
type lifetime struct {
	// since is when it got there; zero if that is not known.
	since metav1.Time
	// most is how long it may take; 0 without a bound.
	most time.Duration
	// remedy says what to do about one that takes longer, and next is the command for it; empty for the usual one.
	remedy, next string
}

// from is a lifetime that started at the first of some times that is set.
func lasts(most time.Duration, since ...*metav1.Time) lifetime {
	for _, at := range since {
		if !at.IsZero() {
			return lifetime{since: *at, most: most}
		}
	}
	return lifetime{most: most}
}

func (l lifetime) orElse(next, format string, args ...any) lifetime {
	l.next, l.remedy = next, fmt.Sprintf(format, args...)
	return l
}

func lifetimeOfLoadTest(o *v1alpha1.LoadTest) lifetime {
	created := new(o.CreationTimestamp)
	next, remedy := "kubectl hollow loadtest stop "+o.Name, "end it, which keeps what was measured"
	if o.Spec.Stopped {
		next, remedy = "kubectl get loadtestruns -A -l "+v1alpha1.LoadTestNameLabel+"="+o.Name, "it was already stopped: check which runs are not over, and the agents of their clusters"
	}
	switch s := &o.Status; s.Phase {
	case v1alpha1.LoadTestPhasePending, v1alpha1.LoadTestPhasePreparing:
		return lasts(o.Spec.PrepareTimeout.Duration+slack, s.PrepareTime, created).orElse(next, "the hub should have started or abandoned it by now: %s", remedy)
	case v1alpha1.LoadTestPhaseRunning:
		most := longestLoad // That of a preset is in its runs.
		if o.Spec.Load != nil {
			most = o.Spec.Load.Timeout.Duration
		}
		return lasts(most+slack, s.StartTime, s.PrepareTime, created).orElse(next, "%s", remedy)
	case v1alpha1.LoadTestPhaseCleaningUp:
		next = "kubectl get loadtestruns -A -l " + v1alpha1.LoadTestNameLabel + "=" + o.Name
		return lasts(longestRemoval, s.EndTime, s.StartTime, created).orElse(next, "the messages of its runs say what is still there")
	case v1alpha1.LoadTestPhaseCompleted, v1alpha1.LoadTestPhaseFailed:
	}
	return lifetime{}
}

func lifetimeOfLoadTestRun(o *v1alpha1.LoadTestRun) lifetime {
	created, stop := new(o.CreationTimestamp), "end it: kubectl patch loadtestrun "+o.Name+" -n "+o.Namespace+` --type merge -p '{"spec":{"stopped":true}}'`
	switch s := &o.Status; s.Phase {
	case v1alpha1.LoadTestRunPhasePending, v1alpha1.LoadTestRunPhasePreparing:
		return lasts(longestScaling, created).orElse("", "check the log of the agent of Cluster %s, or %s", o.Namespace, stop)
	case v1alpha1.LoadTestRunPhasePrepared:
		if o.Spec.StartTime != nil {
			return lasts(slack, o.Spec.StartTime).orElse("", "it should have started: check the log of the agent of Cluster %s, or %s", o.Namespace, stop)
		}
		return lasts(longestPreparation+slack, created).orElse("", "its spec.startTime was never set: set it, or %s", stop)
	case v1alpha1.LoadTestRunPhaseRunning:
		return lasts(o.Spec.Timeout.Duration+slack, s.StartTime, o.Spec.StartTime, created).orElse("",
			"its agent should have ended it: check the log of the agent of Cluster %s, or %s", o.Namespace, stop)
	case v1alpha1.LoadTestRunPhaseCleaningUp:
		return lasts(longestRemoval, s.EndTime, s.StartTime, created).orElse("",
			"check in the workload cluster what is not deleted: kubectl get namespaces -l %s=%s", v1alpha1.LoadTestRunUIDLabel, o.UID)
	case v1alpha1.LoadTestRunPhaseCompleted, v1alpha1.LoadTestRunPhaseFailed:
	}
	return lifetime{}
}

func lifetimeOfDisruption(o *v1alpha1.NodeDisruption) lifetime {
	created, next := new(o.CreationTimestamp), "kubectl hollow disrupt stop "+o.Name
	timing, s := &o.Spec.Timing, &o.Status
	switch s.Phase {
	case v1alpha1.NodeDisruptionRunning:
		return lasts(timing.StartAfter.Duration+timing.Duration.Duration+slack, s.LastScheduleTime, created).orElse(next,
			"it should be over: the faults end on their own, and the messages of its runs say which agent has not reported that; restore the Nodes and delete it")
	case v1alpha1.NodeDisruptionPending:
		switch {
		case o.Spec.DryRun && s.Clusters == 0:
			return lifetime{} // A user starts it.
		case s.Clusters == 0 && s.NextScheduleTime != nil:
			return lasts(slack, s.NextScheduleTime).orElse(next, "its runs were due then: check the hub's log")
		case s.Clusters == 0 && o.Spec.Schedule != "":
			return lifetime{}
		}
		return lasts(timing.StartAfter.Duration+slack, s.LastScheduleTime, created).orElse(next, "it should have started: check the logs of the agents, or delete it")
	case v1alpha1.NodeDisruptionPaused, v1alpha1.NodeDisruptionCompleted, v1alpha1.NodeDisruptionFailed:
	}
	return lifetime{}
}

func lifetimeOfDisruptionRun(o *v1alpha1.NodeDisruptionRun) lifetime {
	created, timing, s := new(o.CreationTimestamp), &o.Spec.Timing, &o.Status
	switch s.Phase {
	case v1alpha1.NodeDisruptionRunning:
		return lasts(timing.Duration.Duration+slack, s.StartTime, created).orElse("",
			"it should be over: the faults end on their own, and its agent has not reported that: check the log of the agent of Cluster %s", o.Namespace)
	case v1alpha1.NodeDisruptionPending:
		return lasts(timing.StartAfter.Duration+slack, created).orElse("", "it should have started: check the log of the agent of Cluster %s", o.Namespace)
	case v1alpha1.NodeDisruptionPaused, v1alpha1.NodeDisruptionCompleted, v1alpha1.NodeDisruptionFailed:
	}
	return lifetime{}
}

// Observe notes of a list what the judgement of other objects needs: which Clusters there are, whose agents are silent, and how long the
// runs of a test may take. It comes before Add of any list.
func (j *Judge) Observe(list client.ObjectList) {
	switch list := list.(type) {
	case *v1alpha1.ClusterList:
		j.Clusters, j.silent = map[string]bool{}, map[string]string{}
		for i := range list.Items {
			cluster := &list.Items[i]
			j.Clusters[cluster.Name] = true
			if connected := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition); connected != nil && connected.Status != metav1.ConditionTrue {
				j.silent[cluster.Name] = cmp.Or(connected.Message, connected.Reason)
			}
		}
	case *v1alpha1.MachineDeploymentList:
		j.deployments = map[string][]*v1alpha1.MachineDeployment{}
		for i := range list.Items {
			deployment := &list.Items[i]
			j.deployments[deployment.Name] = append(j.deployments[deployment.Name], deployment)
		}
	case *v1alpha1.MachineList:
		j.observeMachines(list)
	case *v1alpha1.LoadTestRunList:
		j.timeouts = map[string]time.Duration{}
		for i := range list.Items {
			run := &list.Items[i]
			if owner := metav1.GetControllerOf(run); owner != nil {
				j.timeouts[string(owner.UID)] = max(j.timeouts[string(owner.UID)], run.Spec.Timeout.Duration)
			}
		}
	}
}

// judgePhase is for what is carried out once. It is over when its phase says so and its condition Ready too.
func (j *Judge) judgePhase(s *subject) *judgement {
	ready := meta.FindStatusCondition(s.conditions, v1alpha1.ReadyCondition)
	found := &judgement{state: InProgress, reason: s.phase, message: s.message, since: s.lifetime.since}
	if found.since.IsZero() {
		found.since = ready.LastTransitionTime
	}
	switch s.phase {
	case string(v1alpha1.LoadTestPhaseCompleted): // The phases of all four kinds have this word.
		if ready.Status == metav1.ConditionTrue {
			return nil
		}
		return judgementFrom(Problem, ready)
	case string(v1alpha1.NodeDisruptionPending):
		if strings.HasPrefix(s.kind, NodeDisruption) {
			found.state = Waiting
		}
	}
	if why, is := j.silent[s.cluster]; is && s.cluster != "" {
		return s.newProblem(v1alpha1.ReasonAgentSilent, fmt.Sprintf("%s when the agent of Cluster %s last reported, and it is silent now: %s", s.phase, s.cluster, why))
	}
	if overdue := j.overdue(s, found); overdue != nil {
		return overdue
	}
	if quiet := j.Now.Sub(s.reported.Time); s.mostQuiet > 0 && !s.reported.IsZero() && quiet > s.mostQuiet {
		return &judgement{Problem, ReasonNoProgress, fmt.Sprintf("its status has not changed for %s, and none of its phases lasts that long: %s; check the log of the agent of Cluster %s",
			duration.HumanDuration(quiet), s.message, s.cluster), s.reported}
	}
	return found
}

// overdue makes a problem of what is in its phase for longer than its own spec allows; nil if it is not.
func (j *Judge) overdue(s *subject, found *judgement) *judgement {
	most := s.lifetime.most
	if s.kind == LoadTest && s.phase == string(v1alpha1.LoadTestPhaseRunning) && j.timeouts[string(s.GetUID())] > 0 {
		most = j.timeouts[string(s.GetUID())] + slack
	}
	age := j.Now.Sub(found.since.Time)
	if most == 0 || age <= most {
		return nil
	}
	return &judgement{Problem, ReasonTakesLong + ": " + found.reason, fmt.Sprintf("for %s, at most %s by its spec: %s; %s",
		duration.HumanDuration(age), duration.HumanDuration(most), cmp.Or(found.message, s.phase), s.lifetime.remedy), found.since}
}

// lastReport is when the status of an object was last changed; zero if that is not known.
func lastReport(o client.Object) (last metav1.Time) {
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "status" && entry.Time != nil && entry.Time.After(last.Time) {
			last = *entry.Time
		}
	}
	return last
}

// longestPhase is the longest time of one of the phases of a load.
func longestPhase(load *v1alpha1.Load) (longest time.Duration) {
	for i := range load.Steps {
		for _, phase := range load.Steps[i].Phases {
			if phase.Duration != nil {
				longest = max(longest, phase.Duration.Duration)
			}
		}
	}
	return longest
}
