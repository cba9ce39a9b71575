package predicates

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

type change[T any] struct {
	what   string
	change func(T)
	wakes  bool
}

func check[T client.Object](t *testing.T, wakes predicate.Predicate, object T, changes []change[T]) {
	t.Helper()
	for _, c := range changes {
		after, ok := object.DeepCopyObject().(T)
		if !ok {
			t.Fatal("a copy is of another type")
		}
		c.change(after)
		if got := wakes.Update(event.UpdateEvent{ObjectOld: object, ObjectNew: after}); got != c.wakes {
			t.Errorf("%s: wakes is %t", c.what, got)
		}
	}
	if !wakes.Create(event.CreateEvent{Object: object}) || !wakes.Delete(event.DeleteEvent{Object: object}) {
		t.Error("an object that comes or goes wakes no reconciler")
	}
}

func condition(kind string, status metav1.ConditionStatus, at time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(at)}
}

func TestMachineCounts(t *testing.T) {
	now := time.Now()
	machine := &v1alpha1.Machine{}
	machine.Status.Conditions = []metav1.Condition{condition(v1alpha1.ReadyCondition, metav1.ConditionTrue, now)}
	check(t, MachineCounts(), machine, []change[*v1alpha1.Machine]{
		{"nothing", func(*v1alpha1.Machine) {}, false},
		{"addresses", func(m *v1alpha1.Machine) { m.Status.LastUpdated = &metav1.Time{Time: now} }, false},
		{"provider ID", func(m *v1alpha1.Machine) { m.Spec.ProviderID = new("x") }, false},
		{"readiness", func(m *v1alpha1.Machine) { m.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		{"ready since another time", func(m *v1alpha1.Machine) { m.Status.Conditions[0].LastTransitionTime.Time = now.Add(time.Minute) }, true},
		{"failure", func(m *v1alpha1.Machine) { m.Status.Phase = v1alpha1.MachineFailed }, true},
		{"deletion", func(m *v1alpha1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: now} }, true},
		{"mark", func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.DeleteMachineAnnotation: ""} }, true},
		{"labels", func(m *v1alpha1.Machine) { m.Labels = map[string]string{"a": "b"} }, true},
		{"owner", func(m *v1alpha1.Machine) { m.OwnerReferences = []metav1.OwnerReference{{UID: "x"}} }, true},
	})
}

func TestClusterVersion(t *testing.T) {
	check(t, ClusterVersion(), &v1alpha1.Cluster{}, []change[*v1alpha1.Cluster]{
		{"counts", func(c *v1alpha1.Cluster) { c.Status.Machines = &v1alpha1.MachineCounts{Total: 5} }, false},
		{"version", func(c *v1alpha1.Cluster) { c.Status.KubernetesVersion = "v1.37.1" }, true},
	})
}

func TestClusterFreeze(t *testing.T) {
	cluster := &v1alpha1.Cluster{}
	cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	cluster.Status.Conditions = []metav1.Condition{
		condition(v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, time.Time{}),
		condition(v1alpha1.FrozenCondition, metav1.ConditionFalse, time.Time{}),
	}
	check(t, ClusterFreeze(), cluster, []change[*v1alpha1.Cluster]{
		{"counts", func(c *v1alpha1.Cluster) { c.Status.Machines = &v1alpha1.MachineCounts{Total: 5} }, false},
		{"another condition", func(c *v1alpha1.Cluster) {
			c.Status.Conditions = append(c.Status.Conditions, condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, time.Time{}))
		}, false},
		{"freeze", func(c *v1alpha1.Cluster) { c.Status.Conditions[1].Status = metav1.ConditionTrue }, true},
		{"annotation", func(c *v1alpha1.Cluster) { c.Annotations = map[string]string{v1alpha1.FreezeAnnotation: ""} }, true},
		{"denial", func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptanceDenied }, true},
		{"namespace lost", func(c *v1alpha1.Cluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		{"deletion", func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{} }, true},
	})
}

func TestDeploymentFreeze(t *testing.T) {
	deployment := &v1alpha1.MachineDeployment{}
	check(t, DeploymentFreeze(), deployment, []change[*v1alpha1.MachineDeployment]{
		{"replicas", func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(3)) }, false},
		{"annotation", func(d *v1alpha1.MachineDeployment) { d.Annotations = map[string]string{v1alpha1.FreezeAnnotation: ""} }, true},
		{"condition", func(d *v1alpha1.MachineDeployment) {
			d.Status.Conditions = []metav1.Condition{condition(v1alpha1.FrozenCondition, metav1.ConditionTrue, time.Time{})}
		}, true},
	})
}

func TestSharedSurge(t *testing.T) {
	deployment := &v1alpha1.MachineDeployment{}
	deployment.Spec.Replicas = new(int32(2))
	join := func(d *v1alpha1.MachineDeployment) {
		d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{
			Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{SurgeGroup: "zones"},
		}
	}
	scale := func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(3)) }
	check(t, SharedSurge(), deployment, []change[*v1alpha1.MachineDeployment]{
		{"replicas of one without a group", scale, false},
		{"group", join, true},
	})
	join(deployment)
	check(t, SharedSurge(), deployment, []change[*v1alpha1.MachineDeployment]{
		{"replicas of one in a group", scale, true},
		{"another group", func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.RollingUpdate.SurgeGroup = "regions" }, true},
		{"another strategy", func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.Type = v1alpha1.Recreate }, true},
		{"counts", func(d *v1alpha1.MachineDeployment) { d.Status.Replicas = 5 }, false},
	})
}
