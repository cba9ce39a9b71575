package confine

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
		return refuse("metadata.annotations", "load balancers and DNS outside of the cluster act on annotations of Services: leave them out")
	}
	spec, _ := object["spec"].(map[string]any)
	for _, field := range sortedKeys(spec) {
		if !serviceFields[field] && !isUnset(spec[field]) {
			return refuse("spec."+field, "it reaches beyond the namespaces of the run: leave it out")
		}
	}
	if kind := spec["type"]; !isUnset(kind) && kind != string(corev1.ServiceTypeClusterIP) {
		return refuse("spec.type", "a Service of type %v reaches beyond the namespaces of the run: use ClusterIP", kind)
	}
	addresses, _ := spec["clusterIPs"].([]any)
	for _, address := range append(addresses, spec["clusterIP"]) {
		if !isUnset(address) && address != corev1.ClusterIPNone {
			return refuse("spec.clusterIP", "it takes an address that another Service may need: leave it out, or use None")
		}
	}
	ports, _ := spec["ports"].([]any)
	for i, each := range ports {
		port, _ := each.(map[string]any)
		for _, field := range sortedKeys(port) {
			if !portFields[field] && !isUnset(port[field]) {
				return refuse(fmt.Sprintf("spec.ports[%d].%s", i, field), "it reaches beyond the namespaces of the run: leave it out")
			}
		}
	}
	return nil
}

func checkSecret(_ Limits, object map[string]any) error {
	if kind := object["type"]; kind == string(corev1.SecretTypeServiceAccountToken) {
		return refuse("type", "the API server would put a token of the cluster into such a Secret: use Opaque")
	}
	return nil
}

func checkStatefulSet(l Limits, object map[string]any) error {
	spec, _ := object["spec"].(map[string]any)
	if !isUnset(spec["volumeClaimTemplates"]) && !l.allows("PersistentVolumeClaim") {
		return refuse("spec.volumeClaimTemplates", "volumes are the cluster's: use emptyDir, or let an administrator of the cluster allow PersistentVolumeClaim with loadTests.kinds of the agent's chart (--load-test-kinds)")
	}
	return nil
}

// isUnset tells whether a value asks for nothing.
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
