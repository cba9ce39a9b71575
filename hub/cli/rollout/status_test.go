package rollout

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/follow"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

func deployment(change func(*v1alpha1.MachineDeployment)) *v1alpha1.MachineDeployment {
	d := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "workers", Generation: 2},
		Spec:       v1alpha1.MachineDeploymentSpec{Replicas: ptr.To[int32](3)},
		Status: v1alpha1.MachineDeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
		},
	}
	change(d)
	return d
}

func set(d *v1alpha1.MachineDeployment, kind string, status metav1.ConditionStatus, reason string) {
	d.Status.Conditions = append(d.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "a message"})
}

// Claim: `rollout status` says at once why a rollout waits; unknown is not available. Broken: Ready Unknown is ignored; the Lease is not read. Also: TestProgressOfAFleet; hub/cli TestARolloutThatWaitsForAStoppedHubSaysSo.
func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.MachineDeployment)
		text   string
		done   bool
		code   int
	}{
		"complete": {func(*v1alpha1.MachineDeployment) {}, "has rolled out: 3 of 3 machines updated, all available", true, 0},
		"none wanted": {func(d *v1alpha1.MachineDeployment) {
			d.Spec.Replicas = ptr.To[int32](0)
			d.Status = v1alpha1.MachineDeploymentStatus{ObservedGeneration: 2}
		}, "has rolled out: 0 of 0 machines updated, all available", true, 0},
		"paused when it was done": {func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }, "has rolled out: 3 of 3 machines updated, all available", true, 0},
		"replicas are not set": {func(d *v1alpha1.MachineDeployment) {
			d.Spec.Replicas, d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = nil, 1, 1, 1
		}, "has rolled out: 1 of 1 machines updated, all available", true, 0},
		"an older status":   {func(d *v1alpha1.MachineDeployment) { d.Status.ObservedGeneration = 1 }, "waiting for the hub to observe the current spec", false, 0},
		"under way":         {func(d *v1alpha1.MachineDeployment) { d.Status.UpdatedReplicas = 1 }, "1 of 3 machines updated", false, 0},
		"old ones go":       {func(d *v1alpha1.MachineDeployment) { d.Status.Replicas = 5 }, "3 of 3 machines updated, 2 old machines still to delete", false, 0},
		"not yet available": {func(d *v1alpha1.MachineDeployment) { d.Status.AvailableReplicas = 2 }, "3 of 3 machines updated, 2 available", false, 0},
		"paused":            {func(d *v1alpha1.MachineDeployment) { d.Spec.Paused, d.Status.UpdatedReplicas = true, 1 }, "is paused, 1 of 3 machines updated", false, cmdutil.Refused},
		"frozen": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 1
			set(d, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		}, "is frozen (AgentSilent), 1 of 3 machines updated: a message", false, 0},
		"rolled out, as far as was known last": {func(d *v1alpha1.MachineDeployment) {
			set(d, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
			set(d, v1alpha1.ReadyCondition, metav1.ConditionUnknown, v1alpha1.ReasonAgentSilent)
		}, "3 of 3 machines updated, whether they are available is unknown: AgentSilent: a message", false, 0},
		"a restored, older spec": {func(d *v1alpha1.MachineDeployment) { d.Generation = 1 }, "waiting for the hub to observe the current spec", false, 0},
		"deletions by hand": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 1
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.ReasonAwaitingRequest)
		}, "waits (AwaitingRequest), 1 of 3 machines updated: a message", false, 0},
		"held up by a peer": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 1
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.ReasonAwaitingSurge)
		}, "waits (AwaitingSurge), 1 of 3 machines updated: a message", false, 0},
		"upgraded together with its control plane": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 0
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.ReasonAwaitingControlPlane)
		}, "waits (AwaitingControlPlane), 0 of 3 machines updated: a message", false, 0},
		"refused": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 0
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.ReasonUnsupportedKubeletVersion)
		}, "is stalled, 0 of 3 machines updated", false, cmdutil.Refused},
		"stalled": {func(d *v1alpha1.MachineDeployment) {
			d.Status.AvailableReplicas = 0
			set(d, v1alpha1.StalledCondition, metav1.ConditionTrue, "MachineClassNotFound")
		}, "is stalled, 3 of 3 machines updated", false, cmdutil.Refused},
		"deadline exceeded": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 1
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
		}, "makes no progress", false, cmdutil.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			progress := progressOf(deployment(test.change))
			g.Expect(progress.progressLine()).To(Equal(test.text))
			g.Expect(progress.done).To(Equal(test.done))
			g.Expect(cmdutil.Code(progress.err)).To(Equal(test.code))
		})
	}
}

// Edge case: `rollout status` misjudged frozen fleets. Also: TestProgress.
func TestProgressOfAFleet(t *testing.T) {
	progressing := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: status, Reason: reason, Message: "a message"}
	}
	condition := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "the remedy"}
	}
	complete := progressing(metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete)
	notFrozen := metav1.Condition{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFrozen}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		text       string
		done       bool
		code       int
	}{
		"complete":               {[]metav1.Condition{complete}, "has rolled out: 1 of 2 clusters updated", true, 0},
		"complete and stalled":   {[]metav1.Condition{complete, condition(v1alpha1.StalledCondition, "X")}, "is stalled", false, cmdutil.Refused},
		"stalled on the way":     {[]metav1.Condition{progressing(metav1.ConditionTrue, v1alpha1.ReasonRollingOut), condition(v1alpha1.StalledCondition, "X")}, "is stalled", false, cmdutil.Refused},
		"nothing known":          {nil, "waiting for the hub to observe the current spec", false, 0},
		"under way":              {[]metav1.Condition{progressing(metav1.ConditionTrue, v1alpha1.ReasonRollingOut)}, "a message", false, 0},
		"frozen":                 {[]metav1.Condition{progressing(metav1.ConditionUnknown, v1alpha1.ReasonManualFreeze), condition(v1alpha1.FrozenCondition, v1alpha1.ReasonManualFreeze)}, "is frozen (ManualFreeze), 1 of 2 clusters updated: the remedy", false, 0},
		"waits for an approval":  {[]metav1.Condition{progressing(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingApproval)}, "waits (AwaitingApproval), 1 of 2 clusters updated: a message", false, 0},
		"outside its window":     {[]metav1.Condition{progressing(metav1.ConditionUnknown, v1alpha1.ReasonOutsideMaintenanceWindow)}, "waits (OutsideMaintenanceWindow), 1 of 2 clusters updated: a message", false, 0},
		"paused":                 {[]metav1.Condition{progressing(metav1.ConditionUnknown, v1alpha1.ReasonPaused)}, "is paused, 1 of 2 clusters updated", false, cmdutil.Refused},
		"too many have failed":   {[]metav1.Condition{progressing(metav1.ConditionFalse, v1alpha1.ReasonTooManyFailures), condition(v1alpha1.StalledCondition, v1alpha1.ReasonTooManyFailures)}, "has stopped", false, cmdutil.TimedOut},
		"blocked everywhere":     {[]metav1.Condition{progressing(metav1.ConditionFalse, v1alpha1.ReasonClustersBlocked)}, "is refused", false, cmdutil.Refused},
		"aborted":                {[]metav1.Condition{progressing(metav1.ConditionFalse, v1alpha1.ReasonAborted)}, "is aborted", false, cmdutil.TimedOut},
		"rolled back":            {[]metav1.Condition{progressing(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)}, "was rolled back", false, cmdutil.TimedOut},
		"rolling back":           {[]metav1.Condition{progressing(metav1.ConditionTrue, v1alpha1.ReasonRollingBack)}, "a message", false, 0},
		"not frozen any more":    {[]metav1.Condition{progressing(metav1.ConditionTrue, v1alpha1.ReasonRollingOut), notFrozen}, "a message", false, 0},
		"no cluster is selected": {[]metav1.Condition{progressing(metav1.ConditionUnknown, v1alpha1.ReasonNoClusterSelected)}, "is refused", false, cmdutil.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: "fleet", Generation: 2}, Status: v1alpha1.MachineFleetStatus{
				ObservedGeneration: 2, Conditions: test.conditions, Clusters: v1alpha1.MachineFleetClusters{Selected: 2, Updated: 1},
			}}
			progress := progressOfFleet(fleet)
			g.Expect(progress.progressLine()).To(Equal(test.text))
			g.Expect(progress.done).To(Equal(test.done))
			g.Expect(cmdutil.Code(progress.err)).To(Equal(test.code))
		})
	}
}

// What the status counts is said: failed clusters are no success, and those that have left in the middle count.
func TestTheEndOfAFleetsRollout(t *testing.T) {
	g := NewWithT(t)
	complete := metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRolloutComplete, Message: "a message"}
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: "fleet", Generation: 2}, Status: v1alpha1.MachineFleetStatus{
		ObservedGeneration: 2, Conditions: []metav1.Condition{complete}, Message: "why they failed",
		Clusters: v1alpha1.MachineFleetClusters{Selected: 1, Updated: 2, Failed: 1},
	}}
	failed := progressOfFleet(fleet)
	g.Expect(failed.progressLine()).To(Equal("has rolled out, but 1 of 3 clusters failed"))
	g.Expect(failed.done).To(BeFalse())
	g.Expect(failed.err).To(MatchError("machinefleet fleet has rolled out, but 1 of 3 clusters failed: why they failed"))
	g.Expect(cmdutil.Code(failed.err)).To(Equal(cmdutil.TimedOut))
	fleet.Status.Clusters.Failed = 0
	g.Expect((&subject{fleet: fleet}).currentProgress()).To(Equal(progress{text: "has rolled out: 2 of 2 clusters updated", done: true}))
	// The hub has looked at another spec, or at none.
	for _, observed := range []int64{0, 1, 3} {
		fleet.Status.ObservedGeneration = observed
		g.Expect(progressOfFleet(fleet)).To(Equal(progress{text: notObserved}), "observed %d", observed)
	}
	g.Expect((&subject{deployment: deployment(func(*v1alpha1.MachineDeployment) {})}).currentProgress().done).To(BeTrue())
	g.Expect(totalClusters(&v1alpha1.MachineFleetClusters{Selected: 3, Waiting: 1, Progressing: 2, Soaking: 4, Updated: 8, Failed: 16, RollingBack: 32, RolledBack: 64})).To(Equal(int32(127)))
}

// How far each cluster is, by the record on its MachineDeployment. One in which the revision has not started is not shown.
func TestEachPhaseOfAClusterIsShown(t *testing.T) {
	g := NewWithT(t)
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "fleet"}}
	revision, err := rollout.Revision(fleet)
	g.Expect(err).NotTo(HaveOccurred())
	for phase, text := range map[plan.Phase]string{
		plan.Soaking: "soaking", plan.Succeeded: "updated", plan.Failed: "failed", plan.TimedOut: "timed out", plan.RolledBack: "rolled back",
		plan.RollbackFailed: "rollback failed", plan.RollingBack: "rolling back, 1 of 3 machines updated", plan.Progressing: "1 of 3 machines updated", plan.ToApply: "",
	} {
		d := deployment(func(d *v1alpha1.MachineDeployment) { d.Namespace, d.UID, d.Status.UpdatedReplicas = "c1", "d", 1 })
		d.Annotations = map[string]string{v1alpha1.FleetRecordAnnotation: fmt.Sprintf(`{"uid":"fleet","namespace":"c1","deployment":"d","revision":%q,"phase":%q,"since":"2026-01-01T00:00:00Z"}`, revision, phase)}
		state, started := clusterState(fleet, d)
		if phase == plan.ToApply {
			g.Expect(started).To(BeFalse())
			continue
		}
		g.Expect(started).To(BeTrue(), string(phase))
		ended := phase == plan.Succeeded
		g.Expect(state).To(Equal(follow.State{Line: "  c1: " + text, Text: text, Current: 1, Total: 3, Ended: ended, WasEnded: ended}))
		d.Generation, d.Spec.Replicas = 3, nil // What is updated is of an earlier template.
		state, _ = clusterState(fleet, d)
		g.Expect(state.Current).To(BeZero())
		g.Expect(state.Total).To(Equal(int64(1)))
	}
}

// A rollout that was waited for in vain says why its object is not Ready, once.
func TestTheReasonOfARolloutThatIsLate(t *testing.T) {
	g := NewWithT(t)
	d := deployment(func(*v1alpha1.MachineDeployment) {})
	late := func() string { return (&subject{deployment: d}).withReason("text") }
	g.Expect(late()).To(Equal("text"))
	for _, c := range []struct {
		status        metav1.ConditionStatus
		message, want string
	}{
		{metav1.ConditionFalse, "why", "text: X: why"}, {metav1.ConditionUnknown, "why", "text: X: why"}, {metav1.ConditionTrue, "why", "text"},
		{metav1.ConditionFalse, "", "text"}, {metav1.ConditionFalse, "why text", "text"},
	} {
		d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: c.status, Reason: "X", Message: c.message}}
		g.Expect(late()).To(Equal(c.want))
	}
	fleet := &v1alpha1.MachineFleet{Status: v1alpha1.MachineFleetStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "Y", Message: "why"}}}}
	g.Expect((&subject{fleet: fleet}).withReason("text")).To(Equal("text: Y: why"))
}
