package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// inPhase is a fleet's MachineDeployment in a cluster, whose Machines have been done for that long.
func inPhase(t *testing.T, of *v1alpha1.MachineFleet, cluster string, phase plan.Phase, since, done time.Duration) *v1alpha1.MachineDeployment {
	t.Helper()
	revision, err := rollout.Revision(of)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	isDone := ready
	isDone.LastTransitionTime = ago(done)
	d := deployment(isDone, available)
	d.Name, d.Namespace, d.UID = of.Name, cluster, "uid"
	d.Annotations = map[string]string{v1alpha1.FleetRecordAnnotation: fmt.Sprintf(`{"fleet":%q,"uid":%q,"namespace":%q,"deployment":"uid","revision":%q,"phase":%q,"since":%q}`,
		of.Name, of.UID, cluster, revision, phase, ago(since).UTC().Format(time.RFC3339Nano))}
	return d
}

// Claim: A rollout that waits for `spec.healthConditions` without a `progressDeadline` is a Problem after an hour. Broken: no bound: 7 of its cases fail.
// Edge case: A flapping health condition kept a rollout in progress.
func TestARolloutThatWaitsForHealthWithoutADeadlineIsAProblem(t *testing.T) {
	const long = 61 * time.Minute
	config := func(deadline string) ocm.RolloutConfig { return ocm.RolloutConfig{ProgressDeadline: deadline} }
	type change = func(*v1alpha1.MachineFleet, *v1alpha1.MachineDeployment)
	due := func(first time.Duration) change {
		return func(_ *v1alpha1.MachineFleet, d *v1alpha1.MachineDeployment) {
			text := d.Annotations[v1alpha1.FleetRecordAnnotation]
			d.Annotations[v1alpha1.FleetRecordAnnotation] = fmt.Sprintf(`%s,"soakDue":%q}`, text[:len(text)-1], ago(first).UTC().Format(time.RFC3339Nano))
		}
	}
	for name, c := range map[string]struct {
		phase       plan.Phase
		since, done time.Duration
		change      change
		state       State
	}{
		"for an hour":                    {plan.Progressing, long, long, nil, Problem},
		"for less":                       {plan.Progressing, 59 * time.Minute, long, nil, InProgress},
		"its Machines are done for less": {plan.Progressing, 3 * time.Hour, 59 * time.Minute, nil, InProgress},
		"a rollback":                     {plan.RollingBack, long, long, nil, Problem},
		"a soak":                         {plan.Soaking, long, long, nil, InProgress},
		"it has succeeded there":         {plan.Succeeded, long, long, nil, InProgress},
		"a cluster that is frozen or not Ready": {plan.Progressing, long, long, func(_ *v1alpha1.MachineFleet, d *v1alpha1.MachineDeployment) {
			text := d.Annotations[v1alpha1.FleetRecordAnnotation]
			d.Annotations[v1alpha1.FleetRecordAnnotation] = text[:len(text)-1] + `,"held":true}`
		}, InProgress},
		"Machines that are not done": {plan.Progressing, long, long, func(_ *v1alpha1.MachineFleet, d *v1alpha1.MachineDeployment) {
			d.Status.Conditions[0].Status = metav1.ConditionFalse
		}, InProgress},
		"a MachineDeployment without a condition":   {plan.Progressing, long, long, func(_ *v1alpha1.MachineFleet, d *v1alpha1.MachineDeployment) { d.Status.Conditions = nil }, InProgress},
		"a MachineDeployment that is not looked at": {plan.Progressing, long, long, func(_ *v1alpha1.MachineFleet, d *v1alpha1.MachineDeployment) { d.Generation++ }, InProgress},
		"another fleet of this name":                {plan.Progressing, long, long, func(f *v1alpha1.MachineFleet, _ *v1alpha1.MachineDeployment) { f.UID = "new" }, InProgress},
		"another revision": {plan.Progressing, long, long, func(f *v1alpha1.MachineFleet, _ *v1alpha1.MachineDeployment) {
			f.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.9"
		}, InProgress},
		"a condition that keeps failing":                   {plan.Progressing, time.Minute, 3 * time.Hour, due(long), Problem},
		"one that does so for less":                        {plan.Progressing, time.Minute, 3 * time.Hour, due(59 * time.Minute), InProgress},
		"one that failed in the first soak":                {plan.Progressing, time.Minute, 3 * time.Hour, due(-time.Hour), InProgress},
		"unhealthy since the first soak":                   {plan.Progressing, long, 3 * time.Hour, due(-time.Hour), Problem},
		"one that kept failing until a moment ago":         {plan.Soaking, time.Minute, 3 * time.Hour, due(long + time.Minute), Problem},
		"one that kept failing for less":                   {plan.Soaking, time.Hour, 3 * time.Hour, due(119 * time.Minute), InProgress},
		"the same with Machines that were not done before": {plan.Soaking, time.Minute, time.Minute, due(long + time.Minute), InProgress},
		"None is no deadline": {plan.Progressing, long, long, func(f *v1alpha1.MachineFleet, _ *v1alpha1.MachineDeployment) {
			f.Spec.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{RolloutConfig: config("None")}}
		}, Problem},
		"a deadline": {plan.Progressing, long, long, func(f *v1alpha1.MachineFleet, _ *v1alpha1.MachineDeployment) {
			f.Spec.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{RolloutConfig: config("24h")}}
		}, InProgress},
		"a deadline of All": {plan.Progressing, long, long, func(f *v1alpha1.MachineFleet, _ *v1alpha1.MachineDeployment) {
			f.Spec.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.All, All: &ocm.RolloutAll{RolloutConfig: config("24h")}}
		}, InProgress},
		"a deadline per group": {plan.Progressing, long, long, func(f *v1alpha1.MachineFleet, _ *v1alpha1.MachineDeployment) {
			f.Spec.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.ProgressivePerGroup, ProgressivePerGroup: &ocm.RolloutProgressivePerGroup{RolloutConfig: config("24h")}}
		}, InProgress},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			of := fleet(notReady(v1alpha1.ReasonRollingOut), available)
			of.UID, of.Status.Message = "fleet", "spec.healthConditions do not hold: c1 (why)"
			waits := inPhase(t, of, "c1", c.phase, c.since, c.done)
			if c.change != nil {
				c.change(of, waits)
			}
			judge := &Judge{Now: now, Clusters: map[string]bool{"c1": true}}
			judge.Observe(&v1alpha1.MachineDeploymentList{Items: []v1alpha1.MachineDeployment{
				*inPhase(t, of, "c0", plan.Succeeded, 5*time.Hour, 5*time.Hour), *waits, *inPhase(t, of, "c2", plan.ToApply, 5*time.Hour, 5*time.Hour),
			}})
			s := subjectOf(of)
			found := judge.judgeSubject(s)
			g.Expect(found.state).To(Equal(c.state), found.message)
			if c.state == Problem {
				g.Expect(found.reason).To(Equal(ReasonTakesLong + ": " + v1alpha1.ReasonRollingOut))
				waits := "the Machines of c1 have been done for 61m, and the rollout still waits there"
				if strings.Contains(name, "failing") {
					waits = "and a condition of spec.healthConditions keeps failing there before minSuccessTime is over"
				}
				g.Expect(found.message).To(ContainSubstring(waits + ": spec.healthConditions do not hold: c1 (why); repair the cluster, or set progressDeadline"))
				g.Expect(nextCommand(s, found)).To(Equal("kubectl hollow fleet status fleet"))
			}
		})
	}
}

func TestTheClusterThatWaitsLongestForHealthIsNamed(t *testing.T) {
	g := NewWithT(t)
	of := fleet(notReady(v1alpha1.ReasonRollingBack), available)
	of.UID = "fleet"
	judge := &Judge{Now: now}
	judge.Observe(&v1alpha1.MachineDeploymentList{Items: []v1alpha1.MachineDeployment{
		*inPhase(t, of, "c1", plan.RollingBack, 2*time.Hour, 2*time.Hour), *inPhase(t, of, "c2", plan.RollingBack, 3*time.Hour, 3*time.Hour), *inPhase(t, of, "c3", plan.RollingBack, 2*time.Hour, 2*time.Hour),
	}})
	found := judge.judgeSubject(subjectOf(of))
	g.Expect(found.message).To(HavePrefix("the Machines of c2 have been done for 3h"))
	g.Expect(found.reason).To(Equal(ReasonTakesLong + ": " + v1alpha1.ReasonRollingBack))
	g.Expect(found.since).To(Equal(ago(3 * time.Hour)))
}
