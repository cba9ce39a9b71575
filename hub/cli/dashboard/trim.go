package dashboard

import (
	"cmp"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// trimObject removes from an object what no page shows and no judgement needs, so that 10,000 Machines fit into little memory. It changes
// the object.
func trimObject(object client.Object) client.Object {
	switch object.(type) {
	case *v1alpha1.MachineDeployment, *v1alpha1.MachineFleet: // What the hub would do next rests on who wrote their fields.
	default:
		object.SetManagedFields(trimManagedFields(object.GetManagedFields()))
	}
	annotations := object.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	object.SetAnnotations(annotations)
	switch o := object.(type) {
	case *v1alpha1.Machine:
		trimMachine(o)
	case *v1alpha1.MachineSet:
		trimConditions(o.Status.Conditions)
	case *v1alpha1.MachineDeployment:
		trimConditions(o.Status.Conditions)
	case *v1alpha1.NodeDisruptionRun:
		o.Status.Nodes = nil
	case *v1alpha1.LoadTestRun: // Its report is read when it is shown.
		o.Status.Histograms, o.Status.Series, o.Status.Errors, o.Status.Simulator, o.Status.Environment = nil, nil, nil, nil, nil
	}
	return object
}

// trimManagedFields keeps when the object and its status were last changed.
func trimManagedFields(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var last []metav1.ManagedFieldsEntry
	for _, entry := range all {
		if entry.Time == nil {
			continue
		}
		kept := metav1.ManagedFieldsEntry{Subresource: share(entry.Subresource), Time: entry.Time}
		found := false
		for i := range last {
			if found = last[i].Subresource == kept.Subresource; found {
				if last[i].Time.Before(kept.Time) {
					last[i] = kept
				}
				break
			}
		}
		if !found {
			last = append(last, kept)
		}
	}
	return last
}

// trimMachine keeps of a Machine whose it is, and how it is.
func trimMachine(o *v1alpha1.Machine) {
	spec, status := o.Spec, o.Status
	o.Labels, o.Annotations = nil, nil
	o.Namespace = share(o.Namespace)
	for i := range o.OwnerReferences {
		owner := &o.OwnerReferences[i]
		owner.APIVersion, owner.Kind, owner.Name = share(owner.APIVersion), share(owner.Kind), share(owner.Name)
	}
	for i := range o.Finalizers {
		o.Finalizers[i] = share(o.Finalizers[i])
	}
	o.Spec = v1alpha1.MachineSpec{ClusterName: share(spec.ClusterName)}
	o.Spec.Versions.Kubelet = share(spec.Versions.Kubelet)
	o.Spec.ProviderConfig.ValueRef = spec.ProviderConfig.ValueRef
	status.Addresses, status.FailureMessage = nil, ""
	if status.Versions != nil {
		status.Versions = &v1alpha1.ObservedVersions{Kubelet: share(status.Versions.Kubelet)}
	}
	trimConditions(status.Conditions)
	o.Status = status
}

// trimConditions shares texts that are in the conditions of many objects.
func trimConditions(conditions []metav1.Condition) {
	for i := range conditions {
		c := &conditions[i]
		c.Type, c.Status, c.Reason, c.Message = share(c.Type), share(c.Status), share(c.Reason), share(c.Message)
	}
}

// share returns a text with the memory of an equal one.
func share[T ~string](text T) T {
	if text == "" {
		return ""
	}
	return unique.Make(text).Value()
}

// compareObjects orders objects by namespace and name.
func compareObjects(a, b client.Object) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
