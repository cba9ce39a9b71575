package cli_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// longStopped is when a hub renewed its Lease that has stopped since.
func longStopped() time.Time { return time.Now().Add(-time.Hour) }

const nobodyLooks = "when the hub last checked, but the hub does not work: the hub hub-1 has not renewed its Lease for 1h0m"

// That a rollout was complete once is no success while nobody looks: the exit code says so.
// Claim: Nothing succeeds by what a stopped hub said. Broken: the Lease of the hub is not looked at. Also: TestAStoppedHubConfirmsNothing, TestFollowersSayThatTheHubIsStopped, TestAFinishedRolloutForAUserWhoMayNotReadTheLease.
// Edge case: A finished rollout exited 0 with a stopped hub.
func TestAFinishedRolloutIsNoSuccessWhileTheHubIsStopped(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	commands := []string{"rollout status fleet/NAME", "rollout status fleet/NAME --watch=false", "fleet status NAME",
		"rollout status machinedeployment NAME -n " + f.clusters[0].Name, "rollout status machinedeployment NAME --watch=false -n " + f.clusters[0].Name}
	for _, command := range commands {
		f.succeeds(command)
	}
	f.renewHub(longStopped())
	for _, command := range commands {
		r := f.hollow(command)
		f.Expect(r.code).To(Equal(1), command+": "+r.out+r.errOut)
		f.Expect(r.errOut).To(ContainSubstring(nobodyLooks), command)
	}
	f.Expect(f.hollow("fleet list").errOut).To(ContainSubstring("This is the last known state: the hub does not work"))
	f.Expect(f.hollow("cluster list").errOut).To(ContainSubstring("This is the last known state: the hub does not work"))
}

// A user who may not read the Lease of the hub is told that it was not looked at.
func TestAFinishedRolloutForAUserWhoMayNotReadTheLease(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.ExpectApplied(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"machinefleets", "machinedeployments", "clusters", "fleetapprovals"}, Verbs: []string{"get", "list", "watch"},
	}}})
	f.bind(f.name, f.name)
	f.Eventually(func() int { return f.as(f.name, "fleet list").code }).WithTimeout(patience).Should(Equal(0))
	r := f.as(f.name, "rollout status fleet/NAME")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("Whether the hub works was not checked, because you may not read its Lease"))
}

// What a stopped hub said of a cluster, or of a freeze, confirms nothing.
func TestAStoppedHubConfirmsNothing(t *testing.T) {
	f := newEnv(t)
	cluster := f.AcceptedCluster()
	f.ExpectConditionApplied(cluster, v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFrozen})
	for i := range cluster.Status.Conditions {
		cluster.Status.Conditions[i].ObservedGeneration = cluster.Generation
	}
	f.ExpectStatusApplied(cluster)
	f.succeeds("cluster accept " + cluster.Name + " --wait")
	f.ExpectExists(cluster)
	cluster.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "x"} // The status is older than this.
	f.ExpectApplied(cluster)
	f.renewHub(longStopped())
	for _, command := range []string{"cluster accept " + cluster.Name + " --wait", "unfreeze cluster " + cluster.Name} {
		r := f.hollow(command)
		f.Expect(r.code).To(Equal(1), command+": "+r.out)
		f.Expect(r.errOut).To(ContainSubstring(nobodyLooks), command)
		f.Expect(r.out).NotTo(ContainSubstring("is ready"))
	}
}

// Who follows a load test, a disruption or its end is told at once that the hub is stopped.
// Claim: Without `--timeout`, no command waits for a hub that is gone. Broken: the context does not end. Also: hub/cli/cmdutil TestStateOfTheHub.
// Edge case: `loadtest run` waited for a stopped hub forever.
func TestFollowersSayThatTheHubIsStopped(t *testing.T) {
	f := newEnv(t)
	f.renewHub(longStopped())
	for _, command := range []string{
		"loadtest run pod-startup --name NAME --clusters x=NAME --timeout 2s",
		"disrupt create NAME --clusters x=NAME --fault Kill --for 1m --wait --timeout 2s",
		"disrupt create NAME-b --clusters x=NAME --fault Kill --for 1m --dry-run --timeout 2s",
	} {
		r := f.hollow(command)
		f.Expect(r.code).To(Equal(5), command+": "+r.out+r.errOut)
		f.Expect(r.errOut).To(ContainSubstring("the hub does not work: the hub hub-1 has not renewed its Lease for 1h"), command)
	}
	// Without a time of their own they wait as long as a hub works, and no longer.
	f.deployment(2)
	commands := []string{
		"loadtest run pod-startup --name NAME-c --clusters x=NAME", "disrupt create NAME-d --clusters x=NAME --fault Kill --for 1m --wait",
		"rollout status machinedeployment workers -n NAME",
	}
	for _, command := range commands {
		ended, cancel := context.WithTimeout(t.Context(), patience)
		r := f.hollowOn(ended, &bytes.Buffer{}, command)
		cancel()
		f.Expect(r.code).To(Equal(1), command+": "+r.errOut)
		f.Expect(r.errOut).To(ContainSubstring("stopped waiting, because nobody does what this command waits for: the hub does not work: the hub hub-1 has not renewed its Lease for 1h"), command)
	}
	f.renewHub(time.Now().Add(-time.Minute)) // It may be restarting.
	for _, command := range []string{"loadtest run pod-startup --name NAME-e --clusters x=NAME", "disrupt create NAME-f --clusters x=NAME --fault Kill --for 1m --wait", commands[2]} {
		waited, cancel := context.WithTimeout(t.Context(), time.Second)
		r := f.hollowOn(waited, &bytes.Buffer{}, command)
		cancel()
		f.Expect(r.errOut).To(ContainSubstring("Nothing happens for now: the hub does not work"), command)
		f.Expect(r.errOut).NotTo(ContainSubstring("stopped waiting"), command)
	}
	f.renewHub(longStopped())
	run := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.name, Labels: map[string]string{v1alpha1.NodeDisruptionNameLabel: f.name}}}
	disruption := &v1alpha1.NodeDisruption{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, disruption)).To(Succeed())
	run.Spec.Disruption = disruption.Spec.Disruption
	f.ExpectApplied(run)
	run.Status = v1alpha1.NodeDisruptionRunStatus{Phase: v1alpha1.NodeDisruptionRunning, StartTime: new(metav1.Now()), Selected: 1}
	f.ExpectStatusApplied(run)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r := f.hollowOn(ctx, &bytes.Buffer{}, "disrupt stop NAME")
	f.Expect(r.errOut).To(ContainSubstring("Nothing happens for now: the hub does not work"))
	f.Expect(client.IgnoreNotFound(f.Client.Delete(t.Context(), run))).To(Succeed())
}
