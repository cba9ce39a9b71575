package cli_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	hubfleet "github.com/hollowfleet/hollowfleet/hub/internal/fleet"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// fleetFixture is a MachineFleet of the fixture's name over clusters of its own, with the hub's controller. The test plays
// the controllers of the MachineDeployments.
type fleetFixture struct {
	*fixture
	clusters []*v1alpha1.Cluster
	clock    *testclock.FakePassiveClock
	runner   reconcile.Reconciler
}

// newFleetFixture makes a canary cluster and another one.
func newFleetFixture(t *testing.T) *fleetFixture {
	t.Helper()
	f := &fleetFixture{fixture: newFixture(t), clock: testclock.NewFakePassiveClock(time.Now())}
	for _, group := range []string{"canary", "rest"} {
		cluster := hubtest.Cluster(t, f.client)
		cluster.Labels = map[string]string{"fleet": f.name, "group": group}
		f.Expect(f.client.Update(t.Context(), cluster)).To(Succeed())
		hubtest.SetCondition(t, f.client, cluster, &cluster.Status.Conditions, v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
		cluster.Status.KubernetesVersion = "v1.37.1"
		f.Expect(f.client.Status().Update(t.Context(), cluster)).To(Succeed())
		f.clusters = append(f.clusters, cluster)
	}
	labels := map[string]string{"app": "x"}
	template := hubtest.Template(labels)
	template.Spec.Versions.Kubelet = "v1.36.2"
	hubtest.Create(t, f.client, &v1alpha1.MachineFleet{
		ObjectMeta: metav1.ObjectMeta{Name: f.name},
		Spec: v1alpha1.MachineFleetSpec{
			ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": f.name}},
			Groups:          []v1alpha1.MachineFleetGroup{{Name: "canary", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": "canary"}}}},
			Template: v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{
				Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: template,
			}},
			Replicas: new(int32(2)),
			RolloutStrategy: ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{
				MaxConcurrency: intstr.FromInt32(1),
				MandatoryDecisionGroups: ocm.MandatoryDecisionGroups{
					MandatoryDecisionGroups: []ocm.MandatoryDecisionGroup{{GroupName: "canary"}},
				},
			}},
		},
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HubNamespace}}
	f.Expect(client.IgnoreAlreadyExists(f.client.Create(t.Context(), namespace))).To(Succeed())
	logic, err := hubfleet.New(hubfleet.Deps{
		Client: f.client, Live: f.client, Recorder: events.NewFakeRecorder(1000), Placements: &presence.Kinds{},
		Agents: &freeze.Agents{}, Clock: f.clock,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.runner = reconciler.New(f.client, f.client, logic)
	return f
}

// reconcile lets the hub work on the fleet until its counts are written too.
func (f *fleetFixture) reconcile() {
	f.t.Helper()
	for range 3 {
		_, err := f.runner.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: f.name}})
		f.Expect(err).NotTo(HaveOccurred())
		f.clock.SetTime(f.clock.Now().Add(time.Minute))
	}
}

// report plays the rollout in a cluster: it is complete, or cannot continue.
func (f *fleetFixture) report(cluster *v1alpha1.Cluster, failing bool) {
	f.t.Helper()
	d := &v1alpha1.MachineDeployment{}
	f.Expect(f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cluster.Name, Name: f.name}, d)).To(Succeed())
	d.Status = v1alpha1.MachineDeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMinimumReplicasAvailable})
	if failing {
		d.Status.UpdatedReplicas = 0
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressDeadlineExceeded, Message: "no progress",
			LastTransitionTime: metav1.NewTime(f.clock.Now()),
		})
	}
	f.Expect(f.client.Status().Update(f.t.Context(), d)).To(Succeed())
}

// settle rolls the current template out everywhere.
func (f *fleetFixture) settle() {
	f.t.Helper()
	for range 3 {
		f.reconcile()
		for _, cluster := range f.clusters {
			d := &v1alpha1.MachineDeployment{}
			if f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cluster.Name, Name: f.name}, d) == nil {
				f.report(cluster, false)
			}
		}
	}
	f.reconcile()
}

// grow makes a MachineSet of the fleet's MachineDeployment in a cluster, an empty one beside it, and a Machine with a Node.
func (f *fleetFixture) grow(cluster string) {
	f.t.Helper()
	d := &v1alpha1.MachineDeployment{}
	f.Expect(f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cluster, Name: f.name}, d)).To(Succeed())
	var set *v1alpha1.MachineSet
	for i := range 2 {
		set = &v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: cluster, Name: fmt.Sprintf("%s-%d", f.name, i),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.GroupVersion.WithKind("MachineDeployment"))},
			},
			Spec: v1alpha1.MachineSetSpec{ClusterName: cluster, Replicas: new(int32(i)), Selector: d.Spec.Selector, Template: d.Spec.Template},
		}
		hubtest.Create(f.t, f.client, set)
	}
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: set.Name + "-a", Labels: d.Spec.Template.Metadata.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
		},
		Spec: v1alpha1.MachineSpec{ClusterName: cluster, MachineTemplateBody: d.Spec.Template.Spec},
	}
	hubtest.Create(f.t, f.client, machine)
	machine.Status.NodeRef = &v1alpha1.NodeReference{Kind: "Node", Name: "node-a", UID: "a"}
	machine.Status.Versions = &v1alpha1.ObservedVersions{Kubelet: "v1.36.2"}
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "NodeNotReady", Message: "the node is down",
	})
	f.Expect(f.client.Status().Update(f.t.Context(), machine)).To(Succeed())
}

func (f *fleetFixture) kubelet() string {
	f.t.Helper()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.client.Get(f.t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	return fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet
}

// approvals are those of the fleet, whatever they are for.
func (f *fleetFixture) approvals() []v1alpha1.FleetApproval {
	f.t.Helper()
	fleet, list := &v1alpha1.MachineFleet{}, &v1alpha1.FleetApprovalList{}
	f.Expect(f.client.Get(f.t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	f.Expect(f.client.List(f.t.Context(), list, client.MatchingFields{"spec.fleetUID": string(fleet.UID)})).To(Succeed())
	return list.Items
}

// user is the name by which the API server knows the user.
func (f *fleetFixture) user() (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := f.client.Create(f.t.Context(), review)
	return review.Status.UserInfo.Username, err
}
