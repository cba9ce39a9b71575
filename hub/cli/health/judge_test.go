package health

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func is(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "message of " + reason, LastTransitionTime: ago(time.Minute)}
}

var (
	ready       = is(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	available   = is(v1alpha1.AvailableCondition, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)
	unavailable = is(v1alpha1.AvailableCondition, metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable)
)

var unreached = is(v1alpha1.AvailableCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingRollout)

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "c1", Name: name, Generation: 2, CreationTimestamp: ago(time.Hour)}
}

func deployment(conditions ...metav1.Condition) *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{ObjectMeta: objectMeta("workers"), Status: v1alpha1.MachineDeploymentStatus{ObservedGeneration: 2, Conditions: conditions}}
}

func machineSet(conditions ...metav1.Condition) *v1alpha1.MachineSet {
	return &v1alpha1.MachineSet{ObjectMeta: objectMeta("workers-1"), Status: v1alpha1.MachineSetStatus{ObservedGeneration: 2, Conditions: conditions}}
}

func fleet(conditions ...metav1.Condition) *v1alpha1.MachineFleet {
	object := objectMeta("fleet")
	object.Namespace = ""
	return &v1alpha1.MachineFleet{ObjectMeta: object, Status: v1alpha1.MachineFleetStatus{ObservedGeneration: 2, Conditions: conditions}}
}

func cluster(conditions ...metav1.Condition) *v1alpha1.Cluster {
	object := objectMeta("c1")
	object.Namespace = ""
	return &v1alpha1.Cluster{ObjectMeta: object, Status: v1alpha1.ClusterStatus{ObservedGeneration: 2, Conditions: conditions}}
}

func machine(phase v1alpha1.MachinePhase, conditions ...metav1.Condition) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: objectMeta("m1"), Status: v1alpha1.MachineStatus{ObservedGeneration: 2, Phase: phase, Conditions: conditions}}
}

func change[T client.Object](object T, by func(T)) T {
	by(object)
	return object
}

func deleted[T client.Object](object T, d time.Duration) T {
	at := ago(d)
	object.SetDeletionTimestamp(&at)
	object.SetFinalizers([]string{"hollowfleet.io/agent"})
	return object
}

// Claim: `status` exits 1 for anything unhealthy, 4 for what it may not see. Broken: each of its checks left out. Also: hub/cli TestStatusNamesWhatIsNotHealthyOfEveryKind, TestStatusOfAUserWithoutRightsIsNotHealthy, TestStatusSaysThatAHubThatIsStoppedDoesNotWork.
// Claim: `status` calls healthy only what was seen for the current spec. Broken: a later generation counts as seen; Available of another spec counts; orphans, and paused disruptions that still act, are left out; a Lease of the future counts as renewed. Also: hub/cli TestStatusOfAnAPIServerThatDoesNotAnswerIsNotKnown, TestStatusWithoutTheRightToOneKind, TestALookThatTookTooLongIsNoProof; hub/cli/cmdutil TestStateOfTheHub.
// Edge case: `status` gave the all-clear.
func TestJudgement(t *testing.T) {
	rolling := is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonRollingOut)
	old := is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonScalingUp)
	old.LastTransitionTime = ago(time.Hour)
	for name, c := range map[string]struct {
		object client.Object
		state  State
		reason string
		next   string
	}{
		"a deployment that is ready":   {deployment(ready, available), Healthy, "", ""},
		"a deployment without status":  {change(deployment(), func(d *v1alpha1.MachineDeployment) { d.Status.ObservedGeneration = 0 }), Problem, ReasonNotObserved, "kubectl describe"},
		"a deployment looked at early": {change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) { d.Generation = 3 }), Problem, ReasonNotObserved, ""},
		"a restored, older spec":       {change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) { d.Generation = 1 }), Problem, ReasonNotObserved, ""},
		"a deployment that is stalled": {
			deployment(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, "Scaled"), available,
				is(v1alpha1.StalledCondition, metav1.ConditionTrue, v1alpha1.ErrorMachineClassNotFound)),
			Problem, v1alpha1.ErrorMachineClassNotFound, "kubectl describe machinedeployment workers -n c1",
		},
		"stalled although Ready says True":     {deployment(ready, available, is(v1alpha1.StalledCondition, metav1.ConditionTrue, "X")), Problem, "X", ""},
		"a deployment that is not available":   {deployment(rolling, unavailable), Problem, v1alpha1.ReasonMinimumReplicasUnavailable, ""},
		"no word of whether it is available":   {deployment(ready), Problem, ReasonNotObserved, ""},
		"a rollout that keeps it available":    {deployment(rolling, available), InProgress, v1alpha1.ReasonRollingOut, ""},
		"scaling for an hour":                  {deployment(old, available), Problem, ReasonTakesLong + ": " + v1alpha1.ReasonScalingUp, ""},
		"a reason that nobody knows":           {deployment(is(v1alpha1.ReadyCondition, metav1.ConditionUnknown, "New"), available), Problem, "New", ""},
		"a rollout that waits for a user":      {deployment(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingRequest), available), Waiting, v1alpha1.ReasonAwaitingRequest, ""},
		"a paused rollout":                     {change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }), Paused, v1alpha1.ReasonPaused, "kubectl hollow rollout resume machinedeployment workers -n c1"},
		"a paused rollout that is unavailable": {change(deployment(ready, unavailable), func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }), Problem, v1alpha1.ReasonMinimumReplicasUnavailable, ""},
		"frozen by a user": {deployment(ready, available, is(v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonManualFreeze)), Problem, v1alpha1.ReasonManualFreeze,
			"kubectl hollow unfreeze machinedeployment workers -n c1"},
		"machines that cannot be made":     {deployment(rolling, available, is(v1alpha1.ReplicaFailureCondition, metav1.ConditionTrue, v1alpha1.ReasonCreateFailed)), Problem, v1alpha1.ReasonCreateFailed, ""},
		"an undecodable deployment":        {change(deployment(), func(d *v1alpha1.MachineDeployment) { d.DecodeError = "no" }), Problem, v1alpha1.ReasonUndecodable, "kubectl edit machinedeployment workers -n c1"},
		"a deployment without its Cluster": {change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) { d.Namespace = "c2" }), Problem, v1alpha1.ReasonClusterNotFound, "kubectl hollow cluster join c2"},
		"a simulated cluster without its host": {
			&v1alpha1.SimulatedCluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Generation: 1},
				Status:     v1alpha1.SimulatedClusterStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{is(v1alpha1.StalledCondition, metav1.ConditionTrue, v1alpha1.ReasonNoHost)}},
			},
			Problem, v1alpha1.ReasonNoHost, "kubectl describe simulatedcluster s -n default",
		},
		"a deployment in deletion":         {deleted(deployment(ready, available), time.Minute), InProgress, v1alpha1.ReasonDeleting, ""},
		"a deployment stuck in deletion":   {deleted(deployment(ready, available), time.Hour), Problem, ReasonStuckDeletion, ""},
		"a set of a deployment in rollout": {change(machineSet(ready, unavailable), ownedByWorkers), Healthy, "", ""},
		"a set whose selector overlaps another's": {
			machineSet(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonSelectorOverlap), available,
				is(v1alpha1.ReplicaFailureCondition, metav1.ConditionTrue, v1alpha1.ReasonSelectorOverlap),
				is(v1alpha1.StalledCondition, metav1.ConditionTrue, v1alpha1.ReasonSelectorOverlap)),
			Problem, v1alpha1.ReasonSelectorOverlap, "kubectl describe machineset workers-1 -n c1",
		},
		"a set of its own, not available":  {machineSet(ready, unavailable), Problem, v1alpha1.ReasonMinimumReplicasUnavailable, ""},
		"a cluster that is ready":          {cluster(ready), Healthy, "", ""},
		"a cluster that is not":            {cluster(is(v1alpha1.ReadyCondition, metav1.ConditionUnknown, v1alpha1.ReasonNeverSeen)), Problem, v1alpha1.ReasonNeverSeen, "kubectl hollow cluster list c1 -o wide"},
		"a cluster that is being removed":  {deleted(cluster(ready), time.Second), Problem, ReasonBeingRemoved, ""},
		"a cluster without status":         {cluster(), Problem, ReasonNotObserved, ""},
		"a cluster with undecodable parts": {cluster(ready, is(v1alpha1.ClusterObjectsDecodedCondition, metav1.ConditionFalse, v1alpha1.ReasonUndecodable)), Problem, v1alpha1.ReasonUndecodable, "kubectl hollow cluster list"},
		"a restored hub":                   {cluster(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonHubRestored)), Problem, v1alpha1.ReasonHubRestored, "kubectl hollow cluster acknowledge c1"},
		"a fleet that is ready":            {fleet(ready, available), Healthy, "", ""},
		"a fleet with a failed cluster":    {change(fleet(ready, available), func(f *v1alpha1.MachineFleet) { f.Status.Clusters.Failed = 1 }), Problem, ReasonClusters, "kubectl hollow fleet status fleet"},
		"a fleet with a blocked cluster":   {change(fleet(rolling, available), func(f *v1alpha1.MachineFleet) { f.Status.Clusters.Blocked = 1 }), Problem, ReasonClusters, ""},
		"a fleet that waits for approval":  {fleet(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingApproval), available), Waiting, v1alpha1.ReasonAwaitingApproval, "kubectl hollow rollout approve machinefleet fleet"},
		"a first rollout that waits for approval": {
			change(fleet(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingApproval), unreached), func(f *v1alpha1.MachineFleet) { f.Status.AwaitingApproval = []string{"rest"} }),
			Waiting, v1alpha1.ReasonAwaitingApproval, "kubectl hollow rollout approve machinefleet fleet --group rest",
		},
		"a first rollout in which a cluster is down": {fleet(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingApproval), unavailable), Problem, v1alpha1.ReasonMinimumReplicasUnavailable, ""},
		"a first rollout with a frozen cluster": {
			change(fleet(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingApproval), unreached), func(f *v1alpha1.MachineFleet) { f.Status.Clusters.Held = 1 }),
			Problem, ReasonClusters, "",
		},
		"a first rollout that continues":             {fleet(rolling, unreached), InProgress, v1alpha1.ReasonRollingOut, ""},
		"a fleet that is ready and not reached":      {fleet(ready, unreached), Problem, v1alpha1.ReasonAwaitingRollout, ""},
		"a fleet without clusters":                   {fleet(is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNoClusterSelected), available), Problem, v1alpha1.ReasonNoClusterSelected, ""},
		"a machine that is ready":                    {machine(v1alpha1.MachineRunning, ready), Healthy, "", ""},
		"a stale machine":                            {machine(v1alpha1.MachineRunning, ready, is(v1alpha1.MachineStaleCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)), Problem, "Stale: " + v1alpha1.ReasonAgentSilent, ""},
		"a machine that starts":                      {machine(v1alpha1.MachinePending, is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonPodPending)), InProgress, v1alpha1.ReasonPodPending, ""},
		"a machine that starts for an hour":          {machine(v1alpha1.MachinePending, old), Problem, ReasonTakesLong + ": " + v1alpha1.ReasonScalingUp, ""},
		"a machine whose node fails":                 {machine(v1alpha1.MachineRunning, is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady)), Problem, v1alpha1.ReasonNodeNotReady, ""},
		"a machine that has failed":                  {machine(v1alpha1.MachineFailed, is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ErrorCreationTimeout)), Problem, v1alpha1.ErrorCreationTimeout, ""},
		"a machine in an unknown phase":              {machine(v1alpha1.MachineUnknown, ready), Problem, v1alpha1.ReasonReady, ""},
		"a machine without a phase":                  {machine("", ready), Problem, ReasonNotObserved, ""},
		"a cordoned machine":                         {machine(v1alpha1.MachineRunning, ready, is(v1alpha1.MachineSchedulableCondition, metav1.ConditionFalse, v1alpha1.ReasonCordoned)), Waiting, v1alpha1.ReasonCordoned, ""},
		"a drain that a budget forbids":              {deleted(machine(v1alpha1.MachineTerminating, ready, is(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonMisconfiguredBudget)), time.Minute), Problem, v1alpha1.ReasonMisconfiguredBudget, ""},
		"an approval":                                {&v1alpha1.FleetApproval{ObjectMeta: objectMeta("pool-production-x")}, Healthy, "", ""},
		"an approval that is not decoded":            {&v1alpha1.FleetApproval{ObjectMeta: objectMeta("pool-production-x"), DecodeError: "x"}, Problem, v1alpha1.ReasonUndecodable, ""},
		"a class":                                    {&v1alpha1.MachineClass{ObjectMeta: objectMeta("small"), Spec: v1alpha1.MachineClassSpec{Provider: "hollow"}}, Healthy, "", ""},
		"a load test that passed":                    {loadTest(v1alpha1.LoadTestPhaseCompleted, v1alpha1.LoadPassed, 0), Healthy, "", ""},
		"a load test that missed":                    {loadTest(v1alpha1.LoadTestPhaseCompleted, v1alpha1.LoadMissed, 0), Problem, "VerdictFailed", "kubectl hollow loadtest report load"},
		"a load test that is invalid":                {loadTest(v1alpha1.LoadTestPhaseCompleted, v1alpha1.LoadInvalid, 0), Problem, "VerdictInvalid", ""},
		"a load test that runs":                      {loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), InProgress, "Running", ""},
		"a load test with failed clusters":           {loadTest(v1alpha1.LoadTestPhaseRunning, "", 1), Problem, ReasonFailed, ""},
		"a load test that failed":                    {loadTest(v1alpha1.LoadTestPhaseFailed, "", 0), Problem, ReasonFailed, ""},
		"a run that nobody looked at":                {&v1alpha1.LoadTestRun{ObjectMeta: objectMeta("run")}, Problem, ReasonNotObserved, ""},
		"a Ready of a later spec":                    {change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) { d.Status.Conditions[0].ObservedGeneration = 3 }), Problem, ReasonNotObserved, ""},
		"an Available of another spec":               {change(deployment(ready, available), func(d *v1alpha1.MachineDeployment) { d.Status.Conditions[1].ObservedGeneration = 1 }), Problem, ReasonNotObserved, ""},
		"a ready machine with an error":              {change(machine(v1alpha1.MachineRunning, ready), func(m *v1alpha1.Machine) { m.Status.ErrorMessage = "no" }), Problem, ReasonFailed, ""},
		"a cluster with orphans":                     {change(cluster(ready), func(c *v1alpha1.Cluster) { c.Status.Orphans = &v1alpha1.Orphans{Nodes: 1} }), Waiting, ReasonOrphans, "kubectl hollow cluster list"},
		"a cluster without orphans":                  {change(cluster(ready), func(c *v1alpha1.Cluster) { c.Status.Orphans = &v1alpha1.Orphans{} }), Healthy, "", ""},
		"a load test that does not start":            {loadTest(v1alpha1.LoadTestPhasePreparing, "", 0, old), Problem, ReasonTakesLong + ": Preparing", ""},
		"a load test that waits":                     {loadTest(v1alpha1.LoadTestPhasePending, "", 0, old), Problem, ReasonTakesLong + ": Pending", ""},
		"a disruption that waits":                    {disruption(v1alpha1.NodeDisruptionPending, false), Waiting, "Pending", ""},
		"a disruption that runs":                     {disruption(v1alpha1.NodeDisruptionRunning, false), InProgress, "Running", ""},
		"a paused disruption":                        {disruption(v1alpha1.NodeDisruptionPaused, true), Paused, v1alpha1.ReasonPaused, "kubectl hollow disrupt resume"},
		"a paused disruption whose Nodes still fail": {disruption(v1alpha1.NodeDisruptionRunning, true), InProgress, v1alpha1.ReasonPaused, ""},
		"a paused fleet whose rollout has failed":    {change(fleet(rolling, available), func(f *v1alpha1.MachineFleet) { f.Spec.Paused, f.Status.Clusters.Failed = true, 1 }), Problem, ReasonClusters, ""},
		"a disruption run that is not yet":           {&v1alpha1.NodeDisruptionRun{ObjectMeta: objectMeta("run")}, Problem, ReasonNotObserved, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			judge := &Judge{Now: now, Clusters: map[string]bool{"c1": true}}
			s := subjectOf(c.object)
			found := judge.judgeSubject(s)
			g.Expect(found.state).To(Equal(c.state), found.reason+": "+found.message)
			g.Expect(found.reason).To(Equal(c.reason))
			if c.state == Problem {
				g.Expect(found.message).NotTo(BeEmpty())
				g.Expect(nextCommand(s, found)).To(HavePrefix("kubectl "))
			}
			g.Expect(nextCommand(s, found)).To(ContainSubstring(c.next))
		})
	}
}

func ownedByWorkers(set *v1alpha1.MachineSet) {
	set.OwnerReferences = []metav1.OwnerReference{{Kind: MachineDeployment, Name: "workers", Controller: new(true)}}
}

func loadTest(phase v1alpha1.LoadTestPhase, verdict v1alpha1.LoadVerdict, failed int32, conditions ...metav1.Condition) *v1alpha1.LoadTest {
	object := objectMeta("load")
	object.Namespace = ""
	return &v1alpha1.LoadTest{ObjectMeta: object, Status: v1alpha1.LoadTestStatus{
		ObservedGeneration: 2, Phase: phase, Verdict: verdict, Clusters: 2, Failed: failed, Message: "what is to be said", Conditions: append(conditions, ready),
	}}
}

func disruption(phase v1alpha1.NodeDisruptionRunPhase, paused bool) *v1alpha1.NodeDisruption {
	object := objectMeta("outage")
	object.Namespace = ""
	timing := v1alpha1.DisruptionTiming{StartAfter: metav1.Duration{Duration: 2 * time.Hour}, Duration: metav1.Duration{Duration: time.Hour}}
	return &v1alpha1.NodeDisruption{ObjectMeta: object, Spec: v1alpha1.NodeDisruptionSpec{Paused: paused, Disruption: v1alpha1.Disruption{Timing: timing}}, Status: v1alpha1.NodeDisruptionStatus{
		ObservedGeneration: 2, Phase: phase, Message: "what is to be said", Conditions: []metav1.Condition{ready},
	}}
}

func TestATableNamesWhatHasNoClusterOnceAndLeavesChildrenOut(t *testing.T) {
	g := NewWithT(t)
	judge, report := &Judge{Now: now, Clusters: map[string]bool{"c1": true}}, &Report{}
	lost := &v1alpha1.MachineList{}
	for range 3 {
		lost.Items = append(lost.Items, *change(machine(v1alpha1.MachineRunning, ready), func(m *v1alpha1.Machine) { m.Namespace = "c2" }))
	}
	for range 12 {
		lost.Items = append(lost.Items, *machine(v1alpha1.MachineRunning, is(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady)))
	}
	stalled := is(v1alpha1.StalledCondition, metav1.ConditionTrue, "X")
	g.Expect(judge.Add(report, Machine, lost)).To(Succeed())
	g.Expect(judge.Add(report, MachineSet, &v1alpha1.MachineSetList{Items: []v1alpha1.MachineSet{*change(machineSet(stalled), ownedByWorkers)}})).To(Succeed())
	g.Expect(judge.Add(report, MachineDeployment, &v1alpha1.MachineDeploymentList{Items: []v1alpha1.MachineDeployment{*deployment(stalled)}})).To(Succeed())
	report.Sort()
	rows, more := report.Rows(10)
	var names []string
	for _, row := range rows {
		names = append(names, row.Kind+" "+row.Name)
	}
	g.Expect(names).To(Equal(append([]string{"Cluster c2", "MachineDeployment workers"}, strings.Split(strings.Repeat("Machine m1,", 9)+"Machine m1", ",")...)))
	g.Expect(rows[0].Message).To(ContainSubstring("3 Machines without an agent"))
	g.Expect(more).To(Equal([]string{"2 Machines"}))
	g.Expect(report.Findings).To(HaveLen(17), "JSON has all")
}
