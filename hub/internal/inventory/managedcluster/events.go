package managedcluster

import (
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/eventrecorder"
)

func conflictEvent(name string, wanted bool) eventrecorder.Event {
	note := fmt.Sprintf("ManagedCluster %s exists and was not made by the hub, so it is left alone: the cluster is not shown in Open Cluster Management", name)
	if wanted {
		note += fmt.Sprintf(", and the ManagedCluster is not taken on, because Cluster %s was there before", name)
	}
	return eventrecorder.Warning(v1alpha1.ReasonManagedClusterConflict, "Mirror", note)
}

// mirrorRefusedEvent has the remedy before the answer, which may be so long that it is cut.
func mirrorRefusedEvent(err error) eventrecorder.Event {
	return eventrecorder.Warning(v1alpha1.ReasonMirrorRefused, "Mirror",
		"The API server refuses the hub's mirror in Open Cluster Management, which is tried again every minute. "+
			"If the hub lacks a right, 'hub install' gives it back; else change the webhook or policy that refuses: "+err.Error())
}

func releasedEvent(name string) eventrecorder.Event {
	return eventrecorder.Warning("MirrorReleased", "Mirror", fmt.Sprintf(
		"ManagedCluster %s was accepted in Open Cluster Management, so it is left to it and shows the state of the Cluster no longer; delete it there to have a mirror again", name))
}

func importedEvent(name string) eventrecorder.Event {
	return eventrecorder.Normal("Imported", "Import", fmt.Sprintf(
		"Made from ManagedCluster %s. Label namespace %s with %s=%s and %s=%s to let both use it, then set spec.acceptance",
		name, name, v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub, v1alpha1.ClusterNameLabel, name))
}

func importRefusedEvent(name string, cause error) eventrecorder.Event {
	return eventrecorder.Warning("ImportRefused", "Import", fmt.Sprintf("ManagedCluster %s cannot become a Cluster: %v", name, cause))
}

func originGoneEvent(name string) eventrecorder.Event {
	return eventrecorder.Warning("ImportOriginGone", "Import", fmt.Sprintf(
		"ManagedCluster %s, from which this Cluster was made, is gone. That is no order: the Cluster stays as it is until a user deletes it", name))
}

func importEndedEvent(name string) eventrecorder.Event {
	return eventrecorder.Normal("ImportEnded", "Import", fmt.Sprintf(
		"ManagedCluster %s has no label %s=true any more: its labels are not followed, and the Cluster stays as it is until a user deletes it", name, v1alpha1.ImportLabel))
}
