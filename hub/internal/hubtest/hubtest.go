// Package hubtest is what the tests of the hub's controllers have in common: objects to work on, a client
// that counts writes, and a stand-in for the agent.
package hubtest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// What testenv has too.
var (
	Client        = testenv.Client
	CachedClient  = testenv.CachedClient
	Name          = testenv.Name
	RunInParallel = testenv.RunInParallel
	Template      = testenv.Template
	Refuse        = testenv.Refuse
	Outdated      = testenv.Outdated
	CPUTime       = testenv.CPUTime
)

// Writes is that of testenv.
type Writes = testenv.Writes

// Cluster creates a Cluster that the hub has accepted, with its namespace, as the Cluster controller leaves it.
func Cluster(t *testing.T, c client.Client) *v1alpha1.Cluster {
	t.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	Create(t, c, cluster)
	Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Labels: map[string]string{
		v1alpha1.ClusterNameLabel: cluster.Name, v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub,
	}}})
	cluster.Status.Namespace = cluster.Name
	SetCondition(t, c, cluster, &cluster.Status.Conditions, v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	return cluster
}

// SetCondition writes a condition of object's status.
func SetCondition(t *testing.T, c client.Client, object client.Object, list *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	meta.SetStatusCondition(list, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "said by the test"})
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatalf("writing a condition: %v", err)
	}
}

// Freeze lets cluster be frozen, or no longer, from now on, as the Cluster controller does it.
func Freeze(t *testing.T, c client.Client, cluster *v1alpha1.Cluster, verdict freeze.Verdict, now time.Time) {
	t.Helper()
	freeze.RecordOnCluster(cluster, verdict, now)
	if err := c.Status().Update(t.Context(), cluster); err != nil {
		t.Fatalf("writing a freeze: %v", err)
	}
}

// Create creates object.
func Create(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T: %v", object, err)
	}
}

// Machines lists the Machines of a namespace.
func Machines(t *testing.T, c client.Client, namespace string) []v1alpha1.Machine {
	t.Helper()
	list := &v1alpha1.MachineList{}
	if err := c.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatalf("listing machines: %v", err)
	}
	return list.Items
}

// MarkReady does what the agent does when a Machine's Node is ready, or ready no longer.
func MarkReady(t *testing.T, c client.Client, machine *v1alpha1.Machine, ready bool, at time.Time) {
	t.Helper()
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	before := machine.DeepCopy()
	machine.Status.Phase = v1alpha1.MachineRunning
	machine.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ReadyCondition, Status: status, Reason: v1alpha1.ReasonReady, LastTransitionTime: metav1.NewTime(at),
	}}
	conditions.ReconcileMachine(&machine.Status, machine.DeletionTimestamp != nil, at)
	if err := c.Status().Patch(t.Context(), machine, client.MergeFrom(before)); err != nil {
		t.Fatalf("marking a machine: %v", err)
	}
}

// FinishDeletions does what the agent does last: it lets the Machines go that are being deleted.
func FinishDeletions(t *testing.T, c client.Client, namespace string) (gone int) {
	t.Helper()
	for _, machine := range Machines(t, c, namespace) {
		if machine.DeletionTimestamp == nil {
			continue
		}
		before := machine.DeepCopy()
		machine.Finalizers = nil
		if err := c.Patch(t.Context(), &machine, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			t.Fatalf("removing the agent's finalizer: %v", err)
		}
		gone++
	}
	return gone
}
