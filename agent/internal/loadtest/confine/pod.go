package confine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	psaapi "k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"
	kjson "sigs.k8s.io/json"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mostGraceSeconds is how long a pod may take to end: the removal of its namespace waits for it.
const mostGraceSeconds = 600

// podFields are the fields of a pod's spec that reach no further than its namespace, apart from what Pod Security Standards say.
var podFields = map[string]bool{
	"containers": true, "initContainers": true, "volumes": true, "restartPolicy": true, "terminationGracePeriodSeconds": true,
	"activeDeadlineSeconds": true, "dnsPolicy": true, "dnsConfig": true, "nodeSelector": true, "affinity": true, "tolerations": true,
	"topologySpreadConstraints": true, "schedulerName": true, "schedulingGates": true, "readinessGates": true, "securityContext": true,
	"resources": true, "hostname": true, "subdomain": true, "setHostnameAsFQDN": true, "hostnameOverride": true, "hostAliases": true,
	"enableServiceLinks": true, "shareProcessNamespace": true, "os": true, "hostUsers": true, "preemptionPolicy": true,
	"imagePullSecrets": true, "automountServiceAccountToken": true, "serviceAccountName": true, "serviceAccount": true,
	"hostNetwork": true, "hostPID": true, "hostIPC": true,
}

// why some of the others are refused.
var why = map[string]string{
	"nodeName":            "it binds a pod to a Node without the scheduler: use nodeSelector or affinity",
	"priorityClassName":   "a pod with a priority evicts other pods: remove it",
	"priority":            "a pod with a priority evicts other pods: remove it",
	"runtimeClassName":    "runtime classes belong to the cluster: remove it",
	"ephemeralContainers": "a new pod cannot have them: use containers",
	"resourceClaims":      "they take devices of the cluster: remove them",
}

// volumeSources are the sources of volumes that are in the namespace.
var volumeSources = map[string]bool{"emptyDir": true, "configMap": true, "secret": true, "downwardAPI": true, "projected": true}

// projections are the sources of projected volumes that are in the namespace.
var projections = map[string]bool{"configMap": true, "secret": true, "downwardAPI": true}

// applyToPods checks the pods of an object, and pins them.
func (l Limits) applyToPods(object map[string]any, path []string) error {
	template, at := object, ""
	for _, name := range path {
		at += name + "."
		inner, ok := template[name].(map[string]any)
		if !ok {
			return refuseField(strings.TrimSuffix(at, "."), "the template of the pods is missing, or is not an object")
		}
		template = inner
	}
	at += "spec"
	spec, ok := template["spec"].(map[string]any)
	if !ok {
		return refuseField(at, "it is missing, or is not an object")
	}
	if err := l.checkPodFields(at, spec); err != nil {
		return err
	}
	typed := &corev1.PodSpec{}
	if err := decodeStrictly(at, spec, typed); err != nil {
		return err
	}
	if err := l.checkPod(at, typed); err != nil {
		return err
	}
	metadata := &metav1.ObjectMeta{}
	if described, ok := template["metadata"].(map[string]any); ok {
		// Only annotations matter here, and those of another type are the API server's to refuse.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(described, metadata)
	}
	if err := l.checkStandard(at, metadata, typed); err != nil {
		return err
	}
	return l.pinPods(at, spec)
}

// checkPodFields refuses fields that are not known to stay within the namespace, also such as are newer than the agent.
func (l Limits) checkPodFields(at string, spec map[string]any) error {
	for _, field := range sortedKeys(spec) {
		if podFields[field] || isUnset(spec[field]) {
			continue
		}
		reason := why[field]
		if reason == "" {
			reason = "load tests do not support it: remove it"
		}
		return refuseField(at+"."+field, "%s", reason)
	}
	volumes, _ := spec["volumes"].([]any)
	for i, each := range volumes {
		volume, _ := each.(map[string]any)
		field := fmt.Sprintf("%s.volumes[%d]", at, i)
		for _, source := range sortedKeys(volume) {
			if err := l.checkVolume(field+"."+source, source, volume[source]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l Limits) checkVolume(at, source string, value any) error {
	switch {
	case source == "name" || isUnset(value):
	case source == "projected":
		projected, _ := value.(map[string]any)
		sources, _ := projected["sources"].([]any)
		for i, each := range sources {
			projection, _ := each.(map[string]any)
			for _, name := range sortedKeys(projection) {
				if !projections[name] && !isUnset(projection[name]) {
					return refuseField(fmt.Sprintf("%s.sources[%d].%s", at, i, name), "pods of a load test get no credentials of the cluster: use configMap, secret or downwardAPI")
				}
			}
		}
	case volumeSources[source]:
	case (source == "persistentVolumeClaim" || source == "ephemeral") && l.allowsKind("PersistentVolumeClaim"):
	case l.PodSecurity == string(psaapi.LevelPrivileged):
	default:
		return refuseField(at, "such a volume reaches beyond the namespaces of the run: use emptyDir, configMap, secret, downwardAPI or projected")
	}
	return nil
}

func (l Limits) checkPod(at string, spec *corev1.PodSpec) error {
	for field, name := range map[string]string{"serviceAccountName": spec.ServiceAccountName, "serviceAccount": spec.DeprecatedServiceAccount} {
		if name != "" && name != "default" {
			return refuseField(at+"."+field, "pods of a load test have no rights in the cluster: remove it")
		}
	}
	if spec.AutomountServiceAccountToken != nil && *spec.AutomountServiceAccountToken {
		return refuseField(at+".automountServiceAccountToken", "pods of a load test have no rights in the cluster: remove it")
	}
	if seconds := spec.TerminationGracePeriodSeconds; seconds != nil && *seconds > mostGraceSeconds {
		return refuseField(at+".terminationGracePeriodSeconds", "the removal of the run would wait %d seconds for its pods: %d at most", *seconds, mostGraceSeconds)
	}
	if err := checkWindows(at, spec); err != nil {
		return err
	}
	return checkAffinity(at, spec.Affinity)
}

// checkWindows refuses an identity of the domain that the machines of the cluster are members of. Pod Security Standards do not.
func checkWindows(at string, spec *corev1.PodSpec) error {
	options := map[string]*corev1.WindowsSecurityContextOptions{}
	if spec.SecurityContext != nil {
		options["securityContext"] = spec.SecurityContext.WindowsOptions
	}
	for list, containers := range map[string][]corev1.Container{"initContainers": spec.InitContainers, "containers": spec.Containers} {
		for i := range containers {
			if context := containers[i].SecurityContext; context != nil {
				options[fmt.Sprintf("%s[%d].securityContext", list, i)] = context.WindowsOptions
			}
		}
	}
	for field, of := range options {
		if of != nil && (of.GMSACredentialSpec != nil || of.GMSACredentialSpecName != nil) {
			return refuseField(at+"."+field+".windowsOptions.gmsaCredentialSpec", "pods of a load test get no identity of the cluster's domain: remove it")
		}
	}
	return nil
}

// checkStandard holds a pod to the Pod Security Standard, as the API server does by the labels of the namespace: before the first
// request, and also where that admission plugin is turned off.
func (l Limits) checkStandard(at string, metadata *metav1.ObjectMeta, spec *corev1.PodSpec) error {
	level := psaapi.LevelVersion{Level: psaapi.Level(l.PodSecurity), Version: psaapi.LatestVersion()}
	result := psa.AggregateCheckResults(standards.EvaluatePod(level, metadata, spec))
	if result.Allowed {
		return nil
	}
	return refuseField(at, "violates the Pod Security Standard %q: %s: remove it, or let an administrator of the cluster allow it with loadTests.podSecurity of the agent's chart (--load-test-pod-security)",
		l.PodSecurity, result.ForbiddenDetail())
}

// pinPods makes pods go to hollow Nodes, and without a token of the API server.
func (l Limits) pinPods(at string, spec map[string]any) error {
	spec["automountServiceAccountToken"] = false
	if l.Nodes != HollowNodes {
		return nil
	}
	return l.pinToHollow(at, spec)
}

// pinToHollow makes pods go to hollow Nodes.
func (l Limits) pinToHollow(at string, spec map[string]any) error {
	selector, _ := spec["nodeSelector"].(map[string]any)
	if selector == nil {
		selector = map[string]any{}
	}
	if wanted, has := selector[v1alpha1.HollowNodeLabel]; has && wanted != "true" {
		return refuseField(at+".nodeSelector", "pods of a load test go to hollow Nodes, which have the label %s: \"true\": remove it, or let an administrator of the cluster allow others with loadTests.nodes of the agent's chart (--load-test-nodes)", v1alpha1.HollowNodeLabel)
	}
	selector[v1alpha1.HollowNodeLabel] = "true"
	spec["nodeSelector"] = selector
	// Hollow Nodes of a cluster that has real ones carry a taint of that name.
	taint := map[string]any{"key": v1alpha1.HollowNodeLabel, "operator": string(corev1.TolerationOpEqual), "value": "true", "effect": string(corev1.TaintEffectNoSchedule)}
	tolerations, _ := spec["tolerations"].([]any)
	spec["tolerations"] = append(slices.Clip(tolerations), taint)
	return nil
}

// pinFound pins the pods of an object whose kind only its administrator knows: wherever a spec has containers it is taken for that of
// a pod. Nothing else is looked at: that is what allowing a kind means.
func (l Limits) pinFound(object map[string]any) error {
	if l.Nodes != HollowNodes {
		return nil
	}
	return visitSpecs("", object, func(at string, spec map[string]any) error { return l.pinToHollow(at, spec) })
}

// visitSpecs calls see for each spec of a pod in a value, with its path.
func visitSpecs(at string, value any, see func(at string, spec map[string]any) error) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			path := strings.TrimPrefix(at+"."+key, ".")
			if inner, is := value[key].(map[string]any); is && key == "spec" && hasContainers(inner) {
				if err := see(path, inner); err != nil {
					return err
				}
			}
			if err := visitSpecs(path, value[key], see); err != nil {
				return err
			}
		}
	case []any:
		for i, each := range value {
			if err := visitSpecs(fmt.Sprintf("%s[%d]", at, i), each, see); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasContainers reports whether a spec is that of a pod.
func hasContainers(spec map[string]any) bool {
	containers, _ := spec["containers"].([]any)
	return len(containers) > 0 && !slices.ContainsFunc(containers, func(each any) bool {
		container, is := each.(map[string]any)
		return !is || container["name"] == nil
	})
}

// decodeStrictly reads a part of an object, and refuses fields that the agent does not know.
func decodeStrictly(at string, value map[string]any, into any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return refuseField(at, "%s", err)
	}
	strict, err := kjson.UnmarshalStrict(content, into)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return refuseField(at, "%s", err)
	}
	return nil
}
