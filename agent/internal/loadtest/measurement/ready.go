package measurement

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds that are not ready as soon as they are there.
var (
	podKind         = schema.GroupKind{Kind: "Pod"}
	deploymentKind  = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	statefulSetKind = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	jobKind         = schema.GroupKind{Group: "batch", Kind: "Job"}
)

// readyAtOnce reports whether objects of a kind are ready when they are there.
func readyAtOnce(kind schema.GroupKind) bool {
	switch kind {
	case podKind, deploymentKind, statefulSetKind, jobKind:
		return false
	}
	return true
}

// objectReady reports whether an object that is not a Pod is ready.
func objectReady(kind schema.GroupKind, object *unstructured.Unstructured) bool {
	switch kind {
	case deploymentKind, statefulSetKind:
		wanted := wantedReplicas(object)
		observed, _ := nestedNumber(object, "status", "observedGeneration")
		all, _ := nestedNumber(object, "status", "replicas")
		updated, _ := nestedNumber(object, "status", "updatedReplicas")
		ready, _ := nestedNumber(object, "status", "readyReplicas")
		available, _ := nestedNumber(object, "status", "availableReplicas")
		if kind == deploymentKind && available < wanted {
			return false
		}
		return observed >= object.GetGeneration() && all == wanted && updated == wanted && ready == wanted
	case jobKind:
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, each := range conditions {
			if c, ok := each.(map[string]any); ok && c["type"] == "Complete" && c["status"] == "True" {
				return true
			}
		}
		return false
	}
	return true
}

// wantedReplicas is how many replicas an object asks for. 1 is the default.
func wantedReplicas(object *unstructured.Unstructured) int64 {
	if wanted, found := nestedNumber(object, "spec", "replicas"); found {
		return wanted
	}
	return 1
}

// conditionMessage is that of a condition that is True; empty without one.
func conditionMessage(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		if c, ok := each.(map[string]any); ok && c["type"] == kind && c["status"] == "True" {
			message, _ := c["message"].(string)
			return message
		}
	}
	return ""
}

func nestedNumber(object *unstructured.Unstructured, path ...string) (int64, bool) {
	n, found, err := unstructured.NestedInt64(object.Object, path...)
	return n, found && err == nil
}
