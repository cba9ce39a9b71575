package managedcluster

import (
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func conflictEvent(name string, wanted bool) reconciler.Event {
	note := fmt.Sprintf("ManagedCluster %s exists and was not made by the hub, so it is left alone: the cluster is not shown in Open Cluster Management", name)
	if wanted {
		note += fmt.Sprintf(", and the ManagedCluster is not taken on, because Cluster %s was there before", name)
	}
	return reconciler.WarningEvent(v1alpha1.ReasonManagedClusterConflict, "Mirror", note)
}

// mirrorRefusedEvent has the remedy before the answer, which may be so long that it is cut.
func mirrorRefusedEvent(err error) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonMirrorRefused, "Mirror",
		"The API server refuses the hub's mirror in Open Cluster Management, which is tried again every minute. "+
			"If the hub lacks a right, 'hub install' gives it back; else change the webhook or policy that refuses: "+err.Error())
}

func releasedEvent(name string) reconciler.Event {
	return reconciler.WarningEvent("MirrorReleased", "Mirror", fmt.Sprintf(
		"ManagedCluster %s was accepted in Open Cluster Management, so it is left to it and shows the state of the Cluster no longer; delete it there to have a mirror again", name))
}

func importedEvent(name string) reconciler.Event {
	return reconciler.NormalEvent("Imported", "Import", fmt.Sprintf(
		"Made from ManagedCluster %s. Label namespace %s with %s=%s and %s=%s to let both use it, then set spec.acceptance",
		name, name, v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub, v1alpha1.ClusterNameLabel, name))
}

func importRefusedEvent(name string, cause error) reconciler.Event {
	return reconciler.WarningEvent("ImportRefused", "Import", fmt.Sprintf("ManagedCluster %s cannot become a Cluster: %v", name, cause))
}

func originGoneEvent(name string) reconciler.Event {
	return reconciler.WarningEvent("ImportOriginGone", "Import", fmt.Sprintf(
		"ManagedCluster %s, from which this Cluster was made, is gone. That is no order: the Cluster stays as it is until a user deletes it", name))
}

func importEndedEvent(name string) reconciler.Event {
	return reconciler.NormalEvent("ImportEnded", "Import", fmt.Sprintf(
		"ManagedCluster %s has no label %s=true any more: its labels are not followed, and the Cluster stays as it is until a user deletes it", name, v1alpha1.ImportLabel))
}
