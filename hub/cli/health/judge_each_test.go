package health

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func notReady(reason string) metav1.Condition {
	return is(v1alpha1.ReadyCondition, metav1.ConditionFalse, reason)
}

func judged(object client.Object) judgement {
	return (&Judge{Now: now, Clusters: map[string]bool{"c1": true}}).judgeSubject(subjectOf(object))
}

// find matches a judgement. What is empty is not looked at.
func find(state State, reason, message string) types.GomegaMatcher {
	return WithTransform(func(found judgement) judgement {
		if found.since = (metav1.Time{}); state == "" {
			found.state = ""
		}
		if reason == "" {
			found.reason = ""
		}
		if message == "" {
			found.message = ""
		}
		return found
	}, Equal(judgement{state: state, reason: reason, message: message}))
}

// Each condition without which nothing is healthy is asked for, and the other status of it is not.
func TestEachRequiredConditionIsJudged(t *testing.T) {
	g := NewWithT(t)
	for _, kind := range []string{
		v1alpha1.RemediationAllowedCondition, v1alpha1.ClusterTargetReachableCondition, v1alpha1.ClusterMirroredCondition, v1alpha1.ClusterObjectsDecodedCondition,
	} {
		for status, want := range map[metav1.ConditionStatus]State{metav1.ConditionTrue: Healthy, metav1.ConditionFalse: Problem, metav1.ConditionUnknown: Problem} {
			g.Expect(judged(cluster(ready, is(kind, status, "X"))).state).To(Equal(want), "%s %s", kind, status)
		}
	}
	for _, kind := range []string{v1alpha1.StalledCondition, v1alpha1.FrozenCondition, v1alpha1.ReplicaFailureCondition} {
		g.Expect(judged(deployment(ready, available, is(kind, metav1.ConditionFalse, "X"))).state).To(Equal(Healthy), kind)
		g.Expect(judged(deployment(ready, available, is(kind, metav1.ConditionTrue, "X"))).state).To(Equal(Problem), kind)
	}
	for _, kind := range []string{v1alpha1.FrozenCondition, v1alpha1.ReplicaFailureCondition, v1alpha1.AvailableCondition} {
		g.Expect(judged(change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) {
			d.Status.Conditions = append(d.Status.Conditions[:1:1], is(v1alpha1.AvailableCondition, metav1.ConditionTrue, "X"))
			if kind == v1alpha1.AvailableCondition {
				d.Status.Conditions = d.Status.Conditions[:1]
			}
			d.Status.Conditions = append(d.Status.Conditions, is(kind, metav1.ConditionUnknown, "X"))
		})).state).To(Equal(Problem), "%s Unknown", kind)
	}
	for status, want := range map[metav1.ConditionStatus]State{metav1.ConditionTrue: Problem, metav1.ConditionFalse: Healthy, metav1.ConditionUnknown: Problem} {
		g.Expect(judged(machine(v1alpha1.MachineRunning, ready, is(v1alpha1.MachineStaleCondition, status, "X"))).state).To(Equal(want), "Stale %s", status)
	}
	g.Expect(judged(fleet(ready)).reason).To(Equal(ReasonNotObserved), "Available is missing")
	g.Expect(judged(machineSet(ready)).reason).To(Equal(ReasonNotObserved), "Available is missing")
	g.Expect(judged(change(machineSet(ready), ownedByWorkers)).state).To(Equal(Healthy), "the deployment's counts")
	g.Expect(judged(change(machineSet(ready, is(v1alpha1.ReplicaFailureCondition, metav1.ConditionTrue, "X")), ownedByWorkers)).state).To(Equal(Problem))

	about := func(generation int64, kinds ...metav1.Condition) []metav1.Condition {
		for i := range kinds {
			kinds[i].ObservedGeneration = generation
		}
		return kinds
	}
	g.Expect(judged(deployment(about(2, ready, available)...)).state).To(Equal(Healthy))
	g.Expect(judged(deployment(about(1, notReady(v1alpha1.ReasonScalingUp), available)...)).reason).To(Equal(ReasonNotObserved), "Available is of another spec")
	g.Expect(judged(deployment(about(1, notReady(v1alpha1.ReasonScalingUp))[0], available)).state).To(Equal(InProgress), "only a Ready that is True has to be of this spec")
	g.Expect(judged(&v1alpha1.LoadTestRun{ObjectMeta: objectMeta("run"), Status: v1alpha1.LoadTestRunStatus{Phase: v1alpha1.LoadTestRunPhaseCompleted, Conditions: about(1, ready)}}).state).
		To(Equal(Healthy), "a run has no observedGeneration")
	g.Expect(judged(deployment(ready, available, about(1, is(v1alpha1.ReplicaFailureCondition, metav1.ConditionFalse, "X"))[0])).state).To(Equal(Healthy))
}

// Each reason that an object may have for a while has its state; what is in no list is a problem.
func TestEachReasonForWhichAnObjectMayNotBeReadyIsJudged(t *testing.T) {
	g := NewWithT(t)
	for reason, want := range map[string]State{
		v1alpha1.ReasonScalingUp: InProgress, v1alpha1.ReasonScalingDown: InProgress, v1alpha1.ReasonMinimumReplicasUnavailable: InProgress,
		v1alpha1.ReasonRollingOut: InProgress, v1alpha1.ReasonRollingBack: InProgress, v1alpha1.ReasonDeleting: InProgress,
		v1alpha1.ReasonAwaitingApproval: Waiting, v1alpha1.ReasonOutsideMaintenanceWindow: Waiting, v1alpha1.ReasonAwaitingRequest: Waiting, v1alpha1.ReasonAwaitingSurge: Waiting,
		v1alpha1.ReasonAwaitingControlPlane: Waiting,
		v1alpha1.ReasonClustersBlocked:      Problem, v1alpha1.ReasonGroupWithoutCluster: Problem, v1alpha1.ReasonFieldsContested: Problem, v1alpha1.ReasonTooManyFailures: Problem, "": Problem,
	} {
		g.Expect(judged(deployment(notReady(reason), available)).state).To(Equal(want), reason)
		late := notReady(reason)
		late.LastTransitionTime = ago(longestScaling + time.Minute)
		switch found := judged(deployment(late, available)); reason {
		case v1alpha1.ReasonScalingUp, v1alpha1.ReasonScalingDown, v1alpha1.ReasonMinimumReplicasUnavailable:
			g.Expect(found.state).To(Equal(Problem), "%s for too long", reason)
			g.Expect(found.message).To(HavePrefix("for 31m: message of "))
		default:
			g.Expect(found.state).To(Equal(want), reason)
		}
		g.Expect(judged(deployment(notReady(reason), available, is(v1alpha1.ProgressingCondition, metav1.ConditionTrue, "X"))).state).To(Equal(want), reason)
		g.Expect(judged(deployment(notReady(reason), available, is(v1alpha1.ProgressingCondition, metav1.ConditionFalse, "X")))).To(find(Problem, "X", ""), reason)
	}
	g.Expect(judged(change(cluster(notReady(v1alpha1.ReasonDenied)), func(c *v1alpha1.Cluster) { c.Status.Orphans = &v1alpha1.Orphans{Nodes: 1} })).reason).To(Equal(v1alpha1.ReasonDenied))
	silent := is(v1alpha1.ReadyCondition, metav1.ConditionUnknown, v1alpha1.ReasonUnknown)
	silent.Message = ""
	g.Expect(judged(cluster(silent)).message).To(Equal("Ready is Unknown"))
	paused := func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }
	g.Expect(judged(change(deployment(silent, available), paused)).state).To(Equal(Problem), "nothing is known of it")
	g.Expect(judged(change(deployment(is(v1alpha1.ReadyCondition, metav1.ConditionUnknown, v1alpha1.ReasonPaused), available), paused)).state).To(Equal(Paused))
	found := judged(change(deployment(notReady(v1alpha1.ReasonUnknown), available), paused))
	g.Expect(found).To(Equal(judgement{Paused, v1alpha1.ReasonPaused, "message of Unknown", ago(time.Minute)}))
}

func TestEachPhaseOfAMachineIsJudged(t *testing.T) {
	g := NewWithT(t)
	for phase, want := range map[v1alpha1.MachinePhase]State{
		v1alpha1.MachinePending: InProgress, v1alpha1.MachineProvisioning: InProgress, v1alpha1.MachineUpdating: InProgress,
		v1alpha1.MachineRunning: Problem, v1alpha1.MachineUnknown: Problem, v1alpha1.MachineFailed: Problem, v1alpha1.MachineTerminating: Problem, "Another": Problem,
	} {
		g.Expect(judged(machine(phase, notReady("X"))).state).To(Equal(want), string(phase))
	}
	updated := func(status metav1.ConditionStatus) metav1.Condition {
		return is(v1alpha1.MachineUpdatedCondition, status, v1alpha1.ReasonAwaitingUpdate)
	}
	schedulable := is(v1alpha1.MachineSchedulableCondition, metav1.ConditionTrue, "X")
	g.Expect(judged(machine(v1alpha1.MachineRunning, ready, updated(metav1.ConditionTrue), schedulable)).state).To(Equal(Healthy))
	g.Expect(judged(machine(v1alpha1.MachineRunning, ready, updated(metav1.ConditionFalse), schedulable))).To(find(InProgress, v1alpha1.ReasonAwaitingUpdate, ""))
	for _, object := range []client.Object{machine("", ready), &v1alpha1.LoadTestRun{ObjectMeta: objectMeta("run")}, &v1alpha1.NodeDisruptionRun{ObjectMeta: objectMeta("run")}} {
		g.Expect(judged(object).message).To(Equal("the agent of Cluster c1 has not reported on it yet"))
	}
	g.Expect(judged(change(deployment(ready), func(d *v1alpha1.MachineDeployment) { d.Status.ObservedGeneration = 0 })).message).To(Equal("the hub has not reported on it yet"))
}

func TestEachDeletionIsJudged(t *testing.T) {
	g := NewWithT(t)
	drain := func(status metav1.ConditionStatus, reason string) *v1alpha1.Machine {
		return deleted(machine(v1alpha1.MachineTerminating, is(v1alpha1.MachineDrainedCondition, status, reason)), time.Minute)
	}
	for reason, want := range map[string]State{v1alpha1.ReasonDraining: InProgress, v1alpha1.ReasonMisconfiguredBudget: Problem, v1alpha1.ReasonDrainTimedOut: Problem} {
		g.Expect(judged(drain(metav1.ConditionFalse, reason))).To(find(want, "", "message of "+reason))
		g.Expect(judged(drain(metav1.ConditionTrue, reason))).To(find(InProgress, "", "finalizers: hollowfleet.io/agent"))
	}
	g.Expect(judged(deleted(machine(v1alpha1.MachineTerminating), time.Minute)).state).To(Equal(InProgress), "without a condition")
	g.Expect(judged(deleted(machine(v1alpha1.MachineTerminating, notReady(v1alpha1.ReasonAwaitingThaw)), time.Minute))).To(find(Problem, v1alpha1.ReasonAwaitingThaw, ""))
	g.Expect(judged(deleted(machine(v1alpha1.MachineTerminating), longestDeletion+time.Minute)).message).To(Equal("has been in deletion for 11m; finalizers: hollowfleet.io/agent"))
}

// What a user lets happen to a fleet is healthy when it is over and passed, in each of the four kinds.
func TestEachTestAndItsRunIsJudged(t *testing.T) {
	g := NewWithT(t)
	type state struct {
		phase, verdict string
		failed         bool
		ready          metav1.Condition
	}
	kinds := map[string]func(state) client.Object{
		LoadTest: func(s state) client.Object {
			return change(loadTest(v1alpha1.LoadTestPhase(s.phase), v1alpha1.LoadVerdict(s.verdict), int32(countIf(s.failed))), func(t *v1alpha1.LoadTest) {
				t.Status.Conditions = []metav1.Condition{s.ready}
			})
		},
		LoadTestRun: func(s state) client.Object {
			run := &v1alpha1.LoadTestRun{ObjectMeta: objectMeta("run")}
			run.Status.Phase, run.Status.Verdict, run.Status.Conditions = v1alpha1.LoadTestRunPhase(s.phase), v1alpha1.LoadVerdict(s.verdict), []metav1.Condition{s.ready}
			run.Status.Failure = strings.Repeat("why", countIf(s.failed))
			run.Status.Message = "what is to be said"
			return run
		},
		NodeDisruption: func(s state) client.Object {
			return change(disruption(v1alpha1.NodeDisruptionRunPhase(s.phase), false), func(d *v1alpha1.NodeDisruption) {
				d.Status.Verdict, d.Status.Failed, d.Status.Clusters = v1alpha1.DisruptionVerdict(s.verdict), int32(countIf(s.failed)), 2
				d.Status.Conditions = []metav1.Condition{s.ready}
			})
		},
		NodeDisruptionRun: func(s state) client.Object {
			run := &v1alpha1.NodeDisruptionRun{ObjectMeta: objectMeta("run")}
			run.Status.Phase, run.Status.Verdict, run.Status.Conditions = v1alpha1.NodeDisruptionRunPhase(s.phase), v1alpha1.DisruptionVerdict(s.verdict), []metav1.Condition{s.ready}
			run.Status.Message = "what is to be said"
			return run
		},
	}
	for kind, of := range kinds {
		g.Expect(judged(of(state{"Completed", "Passed", false, ready})).state).To(Equal(Healthy), kind)
		g.Expect(judged(of(state{"Completed", "", false, ready})).state).To(Equal(Healthy), kind)
		g.Expect(judged(of(state{"Completed", "Passed", false, notReady("X")})).reason).To(Equal("X"), kind)
		g.Expect(judged(of(state{"Completed", "Failed", false, ready}))).To(find("", "VerdictFailed", "what is to be said"), kind)
		g.Expect(judged(of(state{"Failed", "", false, ready})).reason).To(Equal(ReasonFailed), kind)
		g.Expect(judged(of(state{"", "Passed", false, ready})).reason).To(Equal(ReasonNotObserved), kind)
		running := of(state{"Running", "", false, ready}) // How long it may is in lifetime_test.go.
		running.SetCreationTimestamp(ago(time.Minute))
		g.Expect(judged(running)).To(find(InProgress, "", "what is to be said"), kind)
		if kind != NodeDisruptionRun { // Its failure is its verdict.
			g.Expect(judged(of(state{"Completed", "Passed", true, ready})).reason).To(Equal(ReasonFailed), kind)
		}
	}
}

// A fleet with a cluster that is not well is not, whatever its conditions say, and the message has both.
func TestEachCountOfAFleetIsJudged(t *testing.T) {
	g := NewWithT(t)
	for what, count := range map[string]func(*v1alpha1.MachineFleetStatus){
		"1 failed":        func(s *v1alpha1.MachineFleetStatus) { s.Clusters.Failed = 1 },
		"1 blocked":       func(s *v1alpha1.MachineFleetStatus) { s.Clusters.Blocked = 1 },
		"1 held":          func(s *v1alpha1.MachineFleetStatus) { s.Clusters.Held = 1 },
		"1 rolled back":   func(s *v1alpha1.MachineFleetStatus) { s.Clusters.RolledBack = 1 },
		"1 with failures": func(s *v1alpha1.MachineFleetStatus) { s.Failures = []v1alpha1.MachineFleetFailure{{}} },
		"2 failed, 1 held": func(s *v1alpha1.MachineFleetStatus) {
			s.Clusters.Failed, s.Clusters.Held, s.Failures = 2, 1, []v1alpha1.MachineFleetFailure{{}}
		},
	} {
		found := judged(change(fleet(ready, available), func(f *v1alpha1.MachineFleet) {
			f.Status.Clusters.Selected, f.Status.Message = 3, "how it is"
			count(&f.Status)
		}))
		g.Expect(found).To(Equal(judgement{Problem, ReasonClusters, "of 3 clusters: " + what + "; how it is", ago(time.Minute)}))
	}
	found := judged(change(machine(v1alpha1.MachineRunning, ready), func(m *v1alpha1.Machine) { m.Status.ErrorMessage = "no disk" }))
	g.Expect(found.message).To(Equal("no disk"))
}

func TestWhatHasNoClusterIsNotJudgedWhereClustersAreNotKnown(t *testing.T) {
	g := NewWithT(t)
	lost := deployment(ready, available)
	lost.Namespace = "c2"
	g.Expect(judged(lost).reason).To(Equal(v1alpha1.ReasonClusterNotFound))
	g.Expect((&Judge{Now: now}).judgeSubject(subjectOf(lost)).state).To(Equal(Healthy))
	g.Expect(judged(&v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "c2", Name: "small"}, Spec: v1alpha1.MachineClassSpec{Provider: builtIn}}).state).To(Equal(Healthy), "a class needs no agent")
	g.Expect((&Judge{}).Add(&Report{}, "Secret", &corev1.SecretList{Items: make([]corev1.Secret, 1)})).To(MatchError(ContainSubstring("unknown kind *v1.Secret")))
}

// The next command is one that there is, for each object and reason.
func TestTheNextCommandOfEachReason(t *testing.T) {
	g := NewWithT(t)
	frozen := is(v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonManualFreeze)
	for command, object := range map[string]client.Object{
		"kubectl hollow unfreeze cluster c1":                 cluster(ready, frozen),
		"kubectl hollow unfreeze machinefleet fleet":         fleet(ready, frozen),
		"kubectl hollow unfreeze machineset workers-1 -n c1": machineSet(ready, frozen),
		"kubectl describe machine m1 -n c1":                  machine(v1alpha1.MachineRunning, ready, frozen),
		"kubectl hollow rollout resume machinefleet fleet":   change(fleet(ready, available), func(f *v1alpha1.MachineFleet) { f.Spec.Paused = true }),
		"kubectl describe fleetapproval pool-x":              &v1alpha1.FleetApproval{ObjectMeta: objectMeta("pool-x")},
		"kubectl edit fleetapproval pool-x -n c1":            &v1alpha1.FleetApproval{ObjectMeta: objectMeta("pool-x"), DecodeError: "x"},
		"kubectl describe nodedisruption outage":             disruption(v1alpha1.NodeDisruptionFailed, false),
		"kubectl hollow loadtest report load":                loadTest(v1alpha1.LoadTestPhaseFailed, "", 0),
		"kubectl describe machineset workers-1 -n c1":        machineSet(notReady(v1alpha1.ReasonDenied), available),
	} {
		s := subjectOf(object)
		g.Expect(nextCommand(s, judged(object))).To(Equal(command))
	}
	for _, kind := range []client.Object{cluster(notReady(v1alpha1.ReasonAgentSilent)), cluster(notReady("X"))} {
		g.Expect(nextCommand(subjectOf(kind), judged(kind))).To(Equal("kubectl hollow cluster list c1 -o wide"))
	}
	silent := machine(v1alpha1.MachineRunning, notReady(v1alpha1.ReasonAgentSilent))
	g.Expect(nextCommand(subjectOf(silent), judged(silent))).To(Equal("kubectl describe machine m1 -n c1"))
	for reason, command := range map[string]string{
		v1alpha1.ReasonAwaitingAcceptance: "kubectl hollow cluster accept c1", v1alpha1.ReasonDenied: "kubectl hollow cluster accept c1",
		v1alpha1.ReasonHubChanged: "kubectl hollow cluster acknowledge c1", v1alpha1.ReasonHubRestored: "kubectl hollow cluster acknowledge c1",
		v1alpha1.ReasonHubEmpty: "kubectl hollow cluster acknowledge c1", v1alpha1.ReasonNamespaceDeleting: "kubectl hollow cluster remove-finalizers c1",
	} {
		g.Expect(nextCommand(subjectOf(cluster()), judged(cluster(notReady(reason))))).To(Equal(command))
	}
}

// passing are kinds that are not judged: a request for a log is a question, and gone after minutes.
var passing = []string{"MachineLogRequest"}

// Every kind of the API is judged, or passing: one that is new has to come here.
func TestKindsAreThoseOfTheAPI(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	judgedKinds := map[string]reflect.Type{}
	for _, kind := range Kinds {
		judgedKinds[kind.Kind] = reflect.TypeOf(kind.List()).Elem()
	}
	for kind, list := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		if kind, is := strings.CutSuffix(kind, "List"); is && kind != "" && !slices.Contains(passing, kind) {
			g.Expect(judgedKinds).To(HaveKeyWithValue(kind, list))
			object, is := reflect.New(scheme.KnownTypes(v1alpha1.GroupVersion)[kind]).Interface().(client.Object)
			g.Expect(is).To(BeTrue())
			g.Expect(subjectOf(object).kind).To(Equal(kind))
			delete(judgedKinds, kind)
		}
	}
	g.Expect(judgedKinds).To(BeEmpty(), "there are no such kinds")
}

// A report counts each object in its state, and has those that are not healthy: first those of which it is not known since when, then the longest.
func TestAReportCountsEachState(t *testing.T) {
	g := NewWithT(t)
	report := &Report{}
	list := &v1alpha1.MachineDeploymentList{}
	for i, after := range []time.Duration{time.Minute, time.Hour, 0} {
		late := is(v1alpha1.StalledCondition, metav1.ConditionTrue, "X")
		if late.LastTransitionTime = ago(after); after == 0 {
			late.LastTransitionTime = metav1.NewTime(time.Unix(0, 0)) // The schema's default: it is not known.
		}
		list.Items = append(list.Items, *change(deployment(late), func(d *v1alpha1.MachineDeployment) { d.Name = string(rune('a' + i)) }))
	}
	list.Items = append(list.Items, *deployment(ready, available), *deployment(ready, available), *deployment(notReady(v1alpha1.ReasonRollingOut), available),
		*deployment(notReady(v1alpha1.ReasonAwaitingSurge), available), *change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }))
	g.Expect((&Judge{Now: now}).Add(report, MachineDeployment, list)).To(Succeed())
	report.NotLooked(Machine, "why", true)
	g.Expect(report.Counts).To(Equal([]Count{
		{Kind: MachineDeployment, Total: 8, Healthy: 2, InProgress: 1, Waiting: 1, Paused: 1, Problems: 3}, {Kind: Machine, NotLookedAt: "why", Forbidden: true},
	}))
	report.Sort()
	var names []string
	for _, f := range report.Findings {
		names = append(names, f.Name+" "+string(f.State))
	}
	g.Expect(names).To(Equal([]string{"c Problem", "b Problem", "a Problem", "workers Paused", "workers Waiting", "workers InProgress"}))
	g.Expect(report.Findings[1].Since).To(HaveValue(Equal(ago(time.Hour))))
	g.Expect(report.Findings[0].Since).To(BeNil())
}

// A Machine is shown beside the set that has the same trouble: it is the one to look at.
func TestATableShowsMachinesBesideTheirSet(t *testing.T) {
	g := NewWithT(t)
	report := &Report{}
	judge := &Judge{Now: now, Clusters: map[string]bool{"c1": true}}
	owned := change(machine(v1alpha1.MachineRunning, notReady(v1alpha1.ReasonNodeNotReady)), func(m *v1alpha1.Machine) {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: MachineSet, Name: "workers-1", Controller: new(true)}}
	})
	g.Expect(judge.Add(report, MachineSet, &v1alpha1.MachineSetList{Items: []v1alpha1.MachineSet{*machineSet(ready, unavailable)}})).To(Succeed())
	g.Expect(judge.Add(report, Machine, &v1alpha1.MachineList{Items: []v1alpha1.Machine{*owned}})).To(Succeed())
	rows, _ := report.Rows(10)
	g.Expect(rows).To(HaveExactElements(HaveField("Kind", MachineSet), HaveField("Kind", Machine)))
	for _, name := range []string{"c3", "c2", "c7", "c5", "c6", "c4"} {
		lost := deployment(ready, available)
		lost.Namespace = name
		g.Expect(judge.Add(report, MachineDeployment, &v1alpha1.MachineDeploymentList{Items: []v1alpha1.MachineDeployment{*lost}})).To(Succeed())
	}
	rows, _ = report.Rows(10)
	for i, name := range []string{"c2", "c3", "c4", "c5", "c6", "c7"} {
		g.Expect(rows[i].Name).To(Equal(name))
	}
}
