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
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	hubfleet "github.com/hollowfleet/hollowfleet/hub/internal/fleet"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// fleetEnv is a MachineFleet of the env's name over clusters of its own, with the hub's controller. The test plays
// the controllers of the MachineDeployments.
type fleetEnv struct {
	*env
	clusters []*v1alpha1.Cluster
}

// newFleetEnv makes a canary cluster and another one.
func newFleetEnv(t *testing.T) *fleetEnv {
	t.Helper()
	f := &fleetEnv{env: newEnv(t)}
	for _, group := range []string{"canary", "rest"} {
		cluster := f.AcceptedCluster()
		cluster.Labels = map[string]string{"fleet": f.name, "group": group}
		f.ExpectApplied(cluster)
		f.ExpectConditionApplied(cluster, v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
		cluster.Status.KubernetesVersion = "v1.37.1"
		f.ExpectStatusApplied(cluster)
		f.clusters = append(f.clusters, cluster)
	}
	labels := map[string]string{"app": "x"}
	template := testenv.Template(labels)
	template.Spec.Versions.Kubelet = "v1.36.2"
	f.ExpectApplied(&v1alpha1.MachineFleet{
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
	f.Expect(client.IgnoreAlreadyExists(f.Client.Create(t.Context(), namespace))).To(Succeed())
	logic, err := hubfleet.New(hubfleet.Deps{
		Client: f.Client, Live: f.Client, Recorder: events.NewFakeRecorder(1000), Placements: &presence.Kinds{},
		Agents: &freeze.Agents{}, Clock: f.Clock,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(f.Client, f.Client, logic)
	return f
}

// reconcile lets the hub work on the fleet until its counts are written too.
func (f *fleetEnv) reconcile() {
	f.T.Helper()
	for range 3 {
		f.ExpectReconciled(&v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: f.name}})
		f.Clock.Step(time.Minute)
	}
}

// report plays the rollout in a cluster: it is complete, or cannot continue.
func (f *fleetEnv) report(cluster *v1alpha1.Cluster, failing bool) {
	f.T.Helper()
	d := &v1alpha1.MachineDeployment{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: cluster.Name, Name: f.name}, d)).To(Succeed())
	d.Status = v1alpha1.MachineDeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMinimumReplicasAvailable})
	if failing {
		d.Status.UpdatedReplicas = 0
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressDeadlineExceeded, Message: "no progress",
			LastTransitionTime: metav1.NewTime(f.Clock.Now()),
		})
	}
	f.ExpectStatusApplied(d)
}

// settle rolls the current template out everywhere.
func (f *fleetEnv) settle() {
	f.T.Helper()
	for range 3 {
		f.reconcile()
		for _, cluster := range f.clusters {
			d := &v1alpha1.MachineDeployment{}
			if f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: cluster.Name, Name: f.name}, d) == nil {
				f.report(cluster, false)
			}
		}
	}
	f.reconcile()
}

// grow makes a MachineSet of the fleet's MachineDeployment in a cluster, an empty one beside it, and a Machine with a Node.
func (f *fleetEnv) grow(cluster string) {
	f.T.Helper()
	d := &v1alpha1.MachineDeployment{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: cluster, Name: f.name}, d)).To(Succeed())
	var set *v1alpha1.MachineSet
	for i := range 2 {
		set = &v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: cluster, Name: fmt.Sprintf("%s-%d", f.name, i),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.GroupVersion.WithKind("MachineDeployment"))},
			},
			Spec: v1alpha1.MachineSetSpec{ClusterName: cluster, Replicas: new(int32(i)), Selector: d.Spec.Selector, Template: d.Spec.Template},
		}
		f.ExpectApplied(set)
	}
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: set.Name + "-a", Labels: d.Spec.Template.Metadata.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
		},
		Spec: v1alpha1.MachineSpec{ClusterName: cluster, MachineTemplateBody: d.Spec.Template.Spec},
	}
	f.ExpectApplied(machine)
	machine.Status.NodeRef = &v1alpha1.NodeReference{Kind: "Node", Name: "node-a", UID: "a"}
	machine.Status.Versions = &v1alpha1.ObservedVersions{Kubelet: "v1.36.2"}
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "NodeNotReady", Message: "the node is down",
	})
	f.ExpectStatusApplied(machine)
}

func (f *fleetEnv) kubelet() string {
	f.T.Helper()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	return fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet
}

// approvals are those of the fleet, whatever they are for.
func (f *fleetEnv) approvals() []v1alpha1.FleetApproval {
	f.T.Helper()
	fleet, list := &v1alpha1.MachineFleet{}, &v1alpha1.FleetApprovalList{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	f.Expect(f.Client.List(f.T.Context(), list, client.MatchingFields{"spec.fleetUID": string(fleet.UID)})).To(Succeed())
	return list.Items
}

// user is the name by which the API server knows the user.
func (f *fleetEnv) user() (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := f.Client.Create(f.T.Context(), review)
	return review.Status.UserInfo.Username, err
}
