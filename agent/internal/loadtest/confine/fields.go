package confine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// serviceFields are the fields of a Service's spec that reach no further than its namespace.
var serviceFields = map[string]bool{
	"ports": true, "selector": true, "type": true, "clusterIP": true, "clusterIPs": true, "sessionAffinity": true,
	"sessionAffinityConfig": true, "publishNotReadyAddresses": true, "internalTrafficPolicy": true, "ipFamilies": true,
	"ipFamilyPolicy": true, "trafficDistribution": true,
}

// portFields are those of a Service's port.
var portFields = map[string]bool{"name": true, "protocol": true, "port": true, "targetPort": true, "appProtocol": true}

func checkService(_ Limits, object map[string]any) error {
	if metadata, ok := object["metadata"].(map[string]any); ok && !isUnset(metadata["annotations"]) {
		return refuseField("metadata.annotations", "load balancers and DNS outside of the cluster act on annotations of Services: remove them")
	}
	spec, _ := object["spec"].(map[string]any)
	for _, field := range sortedKeys(spec) {
		if !serviceFields[field] && !isUnset(spec[field]) {
			return refuseField("spec."+field, "it reaches beyond the namespaces of the run: remove it")
		}
	}
	if kind := spec["type"]; !isUnset(kind) && kind != string(corev1.ServiceTypeClusterIP) {
		return refuseField("spec.type", "a Service of type %v reaches beyond the namespaces of the run: use ClusterIP", kind)
	}
	addresses, _ := spec["clusterIPs"].([]any)
	for _, address := range append(addresses, spec["clusterIP"]) {
		if !isUnset(address) && address != corev1.ClusterIPNone {
			return refuseField("spec.clusterIP", "it takes an address that another Service may need: remove it, or use None")
		}
	}
	ports, _ := spec["ports"].([]any)
	for i, each := range ports {
		port, _ := each.(map[string]any)
		for _, field := range sortedKeys(port) {
			if !portFields[field] && !isUnset(port[field]) {
				return refuseField(fmt.Sprintf("spec.ports[%d].%s", i, field), "it reaches beyond the namespaces of the run: remove it")
			}
		}
	}
	return nil
}

// checkCopies refuses annotations that are another program's. Programs that copy Secrets and ConfigMaps between namespaces act on
// those of all namespaces: one annotation would write into a namespace that is not the run's, or read from it.
func checkCopies(_ Limits, object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range sortedKeys(annotations) {
		domain, _, hasDomain := strings.Cut(key, "/")
		if hasDomain && domain != v1alpha1.GroupVersion.Group && domain != "kubectl.kubernetes.io" {
			return refuseField("metadata.annotations["+key+"]", "programs that copy Secrets and ConfigMaps to other namespaces act on such annotations: remove it, or use a key without a domain")
		}
	}
	return nil
}

// checkCronJob refuses a schedule by seconds: how many pods a run may have is reckoned with one Job a minute.
func checkCronJob(l Limits, object map[string]any) error {
	spec, _ := object["spec"].(map[string]any)
	if schedule, _ := spec["schedule"].(string); strings.Contains(strings.ToLower(schedule), "@every") {
		return refuseField("spec.schedule", "it may make a Job each second: use the five fields of crontab")
	}
	return checkJob(l, object)
}

// checkJob refuses a Job that the controller of Kubernetes does not carry out, and one that takes devices for all of its pods.
func checkJob(_ Limits, object map[string]any) error {
	for _, path := range [][]string{{"spec"}, {"spec", "jobTemplate", "spec"}} {
		spec, _, _ := unstructured.NestedMap(object, path...)
		if manager := spec["managedBy"]; !isUnset(manager) && manager != batchv1.JobControllerName {
			return refuseField(strings.Join(path, ".")+".managedBy", "another controller would carry the Job out, also in another cluster: remove it")
		}
		if !isUnset(spec["scheduling"]) {
			return refuseField(strings.Join(path, ".")+".scheduling", "it takes devices and places of the cluster for all pods of the Job: remove it")
		}
	}
	return nil
}

func checkSecret(l Limits, object map[string]any) error {
	if kind := object["type"]; kind == string(corev1.SecretTypeServiceAccountToken) {
		return refuseField("type", "the API server would put a token of the cluster into such a Secret: use Opaque")
	}
	return checkCopies(l, object)
}

func checkStatefulSet(l Limits, object map[string]any) error {
	spec, _ := object["spec"].(map[string]any)
	if !isUnset(spec["volumeClaimTemplates"]) && !l.allowsKind("PersistentVolumeClaim") {
		return refuseField("spec.volumeClaimTemplates", "volumes are the cluster's: use emptyDir, or let an administrator of the cluster allow PersistentVolumeClaim with loadTests.kinds of the agent's chart (--load-test-kinds)")
	}
	return nil
}

// checkKnownFields refuses fields that the agent does not know: nobody has looked at what they reach. What is of another type is the API
// server's to refuse.
func checkKnownFields(object *unstructured.Unstructured) error {
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return refuseField("kind", "%s", err)
	}
	content, err := json.Marshal(object.Object)
	if err != nil {
		return refuseField("object", "%s", err)
	}
	if unknown, err := kjson.UnmarshalStrict(content, typed); err == nil && len(unknown) > 0 {
		return refuseField("object", "%s: the agent does not know its effect: remove it", unknown[0])
	}
	return nil
}

// isUnset reports whether a value asks for nothing.
func isUnset(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case bool:
		return !value
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	}
	return false
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
