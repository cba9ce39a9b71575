package testenv

import (
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// AcceptedCluster creates a Cluster that the hub has accepted, with its namespace, as the Cluster controller leaves it.
func (e *Env) AcceptedCluster() *v1alpha1.Cluster {
	e.T.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	e.ExpectApplied(cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Labels: map[string]string{
		v1alpha1.ClusterNameLabel: cluster.Name, v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub,
	}}})
	cluster.Status.Namespace = cluster.Name
	e.ExpectConditionApplied(cluster, v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	return cluster
}

// Template is a valid template whose Machines carry labels.
func Template(labels map[string]string) v1alpha1.MachineTemplate {
	return v1alpha1.MachineTemplate{
		Metadata: v1alpha1.TemplateMetadata{Labels: labels},
		Spec: v1alpha1.MachineTemplateBody{
			Versions:       v1alpha1.MachineVersions{Kubelet: "v1.36.2"},
			ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}},
		},
	}
}

// Machines lists the Machines of a namespace.
func (e *Env) Machines(namespace string) []v1alpha1.Machine {
	e.T.Helper()
	list := &v1alpha1.MachineList{}
	e.Expect(e.Client.List(e.T.Context(), list, client.InNamespace(namespace))).To(gomega.Succeed())
	return list.Items
}

// MarkReady does what the agent does when a Machine's Node is ready, or ready no longer.
func (e *Env) MarkReady(machine *v1alpha1.Machine, ready bool, at time.Time) {
	e.T.Helper()
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
	e.Expect(e.Client.Status().Patch(e.T.Context(), machine, client.MergeFrom(before))).To(gomega.Succeed())
}

// FinishDeletions does what the agent does last: it lets the Machines go that are being deleted.
func (e *Env) FinishDeletions(namespace string) (gone int) {
	e.T.Helper()
	for _, machine := range e.Machines(namespace) {
		if machine.DeletionTimestamp == nil {
			continue
		}
		before := machine.DeepCopy()
		machine.Finalizers = nil
		e.Expect(client.IgnoreNotFound(e.Client.Patch(e.T.Context(), &machine, client.MergeFrom(before)))).To(gomega.Succeed())
		gone++
	}
	return gone
}
