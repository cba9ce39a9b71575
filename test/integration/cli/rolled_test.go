package cli

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// minorsOf are the minors of API server, controller manager and scheduler; 0 for what does not run.
func minorsOf(one *v1alpha1.SimulatedCluster) (all [3]uint) {
	if one.Status.Versions == nil {
		return all
	}
	for i, text := range []string{one.Status.Versions.ControlPlane, one.Status.Versions.ControllerManager, one.Status.Versions.Scheduler} {
		if parsed, err := version.ParseGeneric(text); err == nil {
			all[i] = parsed.Minor()
		}
	}
	return all
}

// machinesOf are the UIDs of the Machines of the set's clusters.
func (p *person) machinesOf(hub client.Client) (all []types.UID) {
	p.t.Helper()
	list := &v1alpha1.MachineList{}
	p.Expect(hub.List(context.Background(), list)).To(Succeed())
	for i := range list.Items {
		all = append(all, list.Items[i].UID)
	}
	return all
}

// Claim: A set upgrades its control planes one by one, a minor at a time and the API server first, and no Machine is made or removed. Broken: the version written to all; two minors at once; the components started together.
func TestASetUpgradesItsControlPlanes(t *testing.T) {
	testenv.Long(t)
	p := newPerson(t)
	p.up("--clusters", "0", "--machines", "0", "--isolation", "process")
	hub := p.hub()
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "sim"}}
	set.Spec.Replicas = ptr.To[int32](2)
	set.Spec.Template.Spec.Versions.ControlPlane = "v1.35"
	p.Expect(hub.Create(t.Context(), set)).To(Succeed())
	p.expectReplicas(hub, set, 2)
	for _, object := range localfleet.Workers("sim-0", 2, "v1.35.0") {
		p.Expect(hub.Create(t.Context(), object)).To(Succeed())
	}
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "sim-0", Name: localfleet.WorkersName}}
	p.Eventually(func(g Gomega) {
		g.Expect(hub.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		g.Expect(deployment.Status.AvailableReplicas).To(Equal(int32(2)), "%+v", deployment.Status.Conditions)
	}, patience, time.Second).Should(Succeed())
	machines := p.machinesOf(hub)

	p.Expect(hub.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"versions":{"controlPlane":"v1.37"}}}}}`)))).To(Succeed())
	seen := map[string]map[uint]bool{"sim-0": {}, "sim-1": {}}
	p.Eventually(func(g Gomega) {
		wanted := 0
		for name := range seen {
			one := &v1alpha1.SimulatedCluster{}
			p.Expect(hub.Get(t.Context(), client.ObjectKey{Namespace: "host", Name: name}, one)).To(Succeed())
			minors := minorsOf(one)
			seen[name][minors[0]] = true
			p.Expect(minors[0]).To(BeNumerically(">=", max(minors[1], minors[2])), "%s: no component is newer than the API server: %v", name, minors)
			if one.Spec.Versions.ControlPlane == "v1.37" && minors != [3]uint{37, 37, 37} {
				wanted++
			}
		}
		p.Expect(wanted).To(BeNumerically("<=", 1), "one at a time")
		g.Expect(hub.Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
		g.Expect(set.Status.Rollout.Clusters.Updated).To(Equal(int32(2)), "%+v", set.Status.Rollout.Clusters)
		g.Expect(set.Status.Rollout.History).To(ConsistOf(HaveField("Result", v1alpha1.ReasonRolloutComplete)))
	}, 2*patience, 100*time.Millisecond).Should(Succeed())
	for name, minors := range seen {
		p.Expect(minors).To(And(HaveKey(uint(35)), HaveKey(uint(36)), HaveKey(uint(37))), name)
	}
	p.succeeds("rollout", "status", "simulatedclusterset", "sim", "--watch=false")
	p.Expect(p.machinesOf(hub)).To(ConsistOf(machines), "no Machine is made or removed")
	p.scale(hub, set, 0)
	p.expectReplicas(hub, set, 0)
}
