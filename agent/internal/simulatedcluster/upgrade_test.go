package simulatedcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/fake"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// newUpgradeEnv has a cluster that runs v1.34 of four minors, and a driver that does nothing by itself.
func newUpgradeEnv(t *testing.T) (*env, *v1alpha1.SimulatedCluster) {
	t.Helper()
	b := newEnv(t)
	b.driver = fake.New(b.Clock, "v1.37", "v1.36", "v1.35", "v1.34")
	b.restart(b.driver)
	one := b.newOne(func(one *v1alpha1.SimulatedCluster) { one.Spec.Versions.ControlPlane = "v1.34" })
	b.running(one)
	b.driver.Linger()
	return b, one
}

// raise asks for a version, which the hub takes in.
func (b *env) raise(one *v1alpha1.SimulatedCluster, version string) {
	b.T.Helper()
	b.patch(one, `{"spec":{"versions":{"controlPlane":`+version+`}}}`)
	b.created(one, metav1.ConditionTrue)
}

// runs lets the driver say how the components are.
func (b *env) runs(one *v1alpha1.SimulatedCluster, phase clusterdriver.Phase, server, controllerManager, scheduler string) {
	b.driver.Set(clusterdriver.Observed{
		Name: one.Name, UID: string(one.UID), Phase: phase, Version: server, ControllerManager: controllerManager, Scheduler: scheduler,
		CredentialExpires: b.Clock.Now().Add(time.Hour),
	})
}

func (b *env) expectAsked(one *v1alpha1.SimulatedCluster, version string, why string) {
	b.T.Helper()
	b.round(2)
	b.Expect(b.driver.Desired(one.Name).ControlPlaneVersion).To(Equal(version), why)
}

// Claim: A control plane is upgraded one minor at a time, and not before all of it is healthy. Broken: the wanted version asked for at once; the components not compared.
func TestAnUpgradeTakesOneMinorAtATimeAndWaitsForHealth(t *testing.T) {
	b, one := newUpgradeEnv(t)
	b.runs(one, clusterdriver.Failed, "v1.34", "v1.34", "v1.34")
	b.raise(one, `"v1.36"`)
	b.expectAsked(one, "v1.34", "it is not healthy")
	b.runs(one, clusterdriver.Running, "v1.34", "v1.34", "v1.34")
	b.expectAsked(one, "v1.35", "the next minor first")
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonUpdating, "It runs v1.34 and is being brought to v1.36: an upgrade skips no minor, so it gets v1.35 first")

	b.runs(one, clusterdriver.Starting, "v1.35", "v1.34", "")
	b.expectAsked(one, "v1.35", "the components follow")
	b.runs(one, clusterdriver.Running, "v1.35", "v1.35", "v1.34")
	b.restart(b.driver) // Nothing of it is only in the memory of the process.
	b.expectAsked(one, "v1.35", "the scheduler is behind")
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonUpdating, "when all of its components are healthy in v1.35")
	b.ExpectExists(one)
	b.Expect(one.Status.Versions).To(Equal(&v1alpha1.ObservedControlPlaneVersions{ControlPlane: "v1.35", ControllerManager: "v1.35", Scheduler: "v1.34"}))

	b.runs(one, clusterdriver.Running, "v1.35", "v1.35", "v1.35")
	b.expectAsked(one, "v1.36", "all of it is at v1.35")
	b.runs(one, clusterdriver.Running, "v1.36", "v1.36", "v1.35")
	b.round(1)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonUpdating, "It runs v1.36")
	b.runs(one, clusterdriver.Running, "v1.36", "v1.36", "v1.36")
	b.round(1)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")

	b.raise(one, `null`)
	b.expectAsked(one, "", "the host's own is the next minor")
}

// Claim: A control plane does not go back. Broken: the rule of the API server; the comparison of the agent.
func TestAnEarlierVersionIsRefused(t *testing.T) {
	b, one := newUpgradeEnv(t)
	b.runs(one, clusterdriver.Running, "v1.35", "v1.35", "v1.35")
	b.round(1)
	b.raise(one, `"v1.35"`)
	lowered := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"versions":{"controlPlane":"v1.34"}}}`))
	b.Expect(b.Client.Patch(t.Context(), one.DeepCopy(), lowered)).To(MatchError(ContainSubstring("cannot go back to an earlier minor")))
	b.raise(one, `"v1.36"`)
	b.expectAsked(one, "v1.36", "")
	// The driver lost the version that it ran: what is asked for is earlier than what it says.
	b.runs(one, clusterdriver.Running, "v1.37", "v1.37", "v1.37")
	b.round(2)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneDowngrade, "spec.versions.controlPlane: v1.36 is earlier than v1.37, which runs")
	calls := b.driver.Calls()
	b.round(2)
	b.Expect(b.driver.Calls()).To(Equal(calls))
}
