package hollowpod

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// rendered is a pod as the agent makes it.
func rendered(t *testing.T) *corev1.Pod {
	t.Helper()
	content, err := os.ReadFile("../../../../driver/hollow/testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(content, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func main(pod *corev1.Pod) *corev1.Container { return &pod.Spec.Containers[0] }

func refusalsOf(pod *corev1.Pod) Refusals {
	_, refusals := Read(pod, "hollowfleet")
	return refusals
}

// Claim: The podhost runs the pod that an agent renders. Broken: a field of it refused.
func TestThePodOfAnAgentIsAHollowNode(t *testing.T) {
	node, refusals := Read(rendered(t), "hollowfleet")
	if len(refusals) > 0 {
		t.Errorf("it is refused: %s", refusals)
	}
	if node.Image != "hollowfleet/hollow-node" || node.Grace != 5*time.Second || node.Startup.FailureThreshold != 45000 || node.Liveness == nil || node.Readiness == nil {
		t.Errorf("it is read as %+v", node)
	}
	withDefaults := rendered(t)
	defaults.SetObjectDefaults_Pod(withDefaults)
	withDefaults.Spec.NodeName, withDefaults.Spec.Priority, withDefaults.Spec.ServiceAccountName = "n", ptr.To[int32](0), "default"
	if refusals := refusalsOf(withDefaults); len(refusals) > 0 {
		t.Errorf("with the defaults of an API server: %s", refusals)
	}
}

// free are the fields that may differ, by what their paths start with. None of them reaches the process but those that Node has.
var free = []string{
	"spec.nodeName", "spec.nodeSelector", "spec.affinity", "spec.tolerations", "spec.schedulerName", "spec.schedulingGates", "spec.schedulingGroup",
	"spec.topologySpreadConstraints", "spec.evictionResponders", "spec.priority", "spec.priorityClassName", "spec.preemptionPolicy",
	"spec.serviceAccountName", "spec.serviceAccount", "spec.imagePullSecrets", "spec.terminationGracePeriodSeconds",
	"spec.containers[0].image", "spec.containers[0].imagePullPolicy", "spec.containers[0].resources.requests", "spec.containers[0].ports",
}

// Claim: Every field that an agent does not set is refused by its name. Broken: fields of a later API ignored; a field compared with itself.
// Edge case: A field that a later Kubernetes adds.
func TestEveryFieldIsRefusedByItsName(t *testing.T) {
	count := 0
	var paths []string
	changeFields("spec", reflect.ValueOf(&rendered(t).Spec).Elem(), func(path string, _ func()) { paths = append(paths, path) })
	for at, path := range paths {
		pod, i := rendered(t), 0
		changeFields("spec", reflect.ValueOf(&pod.Spec).Elem(), func(_ string, change func()) {
			if i == at {
				change()
			}
			i++
		})
		refusals := refusalsOf(pod)
		isFree := slices.ContainsFunc(free, func(field string) bool { return strings.HasPrefix(path, field) }) || isOfProbe(path)
		named := slices.ContainsFunc(refusals, func(r Refusal) bool { return strings.HasPrefix(path, r.Field) })
		if isFree && len(refusals) > 0 || !isFree && !named {
			t.Errorf("with another %s the refusals are %q", path, refusals)
		}
		count++
	}
	if count < 200 {
		t.Errorf("only %d fields were changed", count)
	}
}

// isOfProbe reports whether a path is a number or the path of a probe.
func isOfProbe(path string) bool {
	_, field, ok := strings.Cut(path, "Probe.")
	return ok && (!strings.Contains(field, ".") && strings.HasSuffix(field, "Seconds") && !strings.HasPrefix(field, "termination") || strings.HasSuffix(field, "Threshold") || field == "httpGet.path")
}

// changeFields visits each field that is there, and each one that could be.
func changeFields(path string, value reflect.Value, visit func(path string, change func())) {
	switch value.Kind() {
	case reflect.Struct:
		if _, isQuantity := value.Interface().(resource.Quantity); isQuantity {
			return
		}
		if _, isPort := value.Interface().(intstr.IntOrString); isPort {
			visit(path, func() { value.Set(reflect.ValueOf(intstr.FromInt32(7))) })
			return
		}
		for i := range value.NumField() {
			changeFields(join(path, value.Type().Field(i)), value.Field(i), visit)
		}
	case reflect.Pointer:
		if value.IsNil() {
			visit(path, func() { value.Set(different(value.Type(), value)) })
			return
		}
		changeFields(path, value.Elem(), visit)
	case reflect.Slice:
		visit(path+"["+strconv.Itoa(value.Len())+"]", func() { value.Set(reflect.Append(value, different(value.Type().Elem(), reflect.Value{}))) })
		for i := range value.Len() {
			changeFields(path+"["+strconv.Itoa(i)+"]", value.Index(i), visit)
		}
	default:
		visit(path, func() { value.Set(different(value.Type(), value)) })
	}
}

// join appends a field's name in the API to a path. Embedded structs have none.
func join(path string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return path
	}
	return path + "." + name
}

// different returns a value that is not the given one, nor empty.
func different(of reflect.Type, from reflect.Value) reflect.Value {
	value := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(of.Elem()))
		value.Elem().Set(different(of.Elem(), reflect.Value{}))
	case reflect.String:
		value.SetString("other")
	case reflect.Bool:
		value.SetBool(!from.IsValid() || !from.Bool())
	case reflect.Int32, reflect.Int64:
		value.SetInt(7)
	case reflect.Map:
		value.Set(reflect.MakeMap(of))
		value.SetMapIndex(reflect.ValueOf("other").Convert(of.Key()), reflect.New(of.Elem()).Elem())
	}
	return value
}

func TestWhatIsNotAHollowNode(t *testing.T) {
	for what, test := range map[string]struct {
		field  string
		change func(*corev1.Pod)
	}{
		"another namespace":         {"metadata.namespace", func(p *corev1.Pod) { p.Namespace = "load-01234567-0" }},
		"no labels":                 {"metadata.labels", func(p *corev1.Pod) { p.Labels = nil }},
		"labels of another Machine": {"metadata.labels", func(p *corev1.Pod) { p.Labels[v1alpha1.MachineNameLabel] = "m2" }},
		"labels without a cluster":  {"metadata.labels", func(p *corev1.Pod) { delete(p.Labels, v1alpha1.ClusterNameLabel) }},
		"no container":              {"spec.containers", func(p *corev1.Pod) { p.Spec.Containers = nil }},
		"the Secret of another":     {"spec.volumes[0].secret.secretName", func(p *corev1.Pod) { p.Spec.Volumes[0].Secret.SecretName = "another" }},
		"a script":                  {"spec.containers[0].command", func(p *corev1.Pod) { main(p).Command = []string{"/bin/sh", "/script/run.sh"} }},
		"another state":             {"spec.containers[0].args", func(p *corev1.Pod) { main(p).Args[1] = "--state-dir=/root" }},
		"more arguments":            {"spec.containers[0].args", func(p *corev1.Pod) { main(p).Args = append(main(p).Args, "--config-dir=/script") }},
		"too few arguments":         {"spec.containers[0].args", func(p *corev1.Pod) { main(p).Args = main(p).Args[:3] }},
		"a library": {"spec.containers[0].env[1]", func(p *corev1.Pod) {
			main(p).Env = append(main(p).Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "/x.so"})
		}},
		"a probe of another port": {"spec.containers[0].livenessProbe.httpGet.port", func(p *corev1.Pod) { main(p).LivenessProbe.HTTPGet.Port = intstr.FromInt32(22) }},
		"a probe of another host": {"spec.containers[0].livenessProbe.httpGet.host", func(p *corev1.Pod) { main(p).LivenessProbe.HTTPGet.Host = "169.254.169.254" }},
		"more privileges":         {"spec.containers[0].securityContext.allowPrivilegeEscalation", func(p *corev1.Pod) { main(p).SecurityContext.AllowPrivilegeEscalation = nil }},
		"a user who may be 0":     {"spec.securityContext.runAsNonRoot", func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil }},
		"a volume over the program": {"spec.containers[0].volumeMounts[3]", func(p *corev1.Pod) {
			main(p).VolumeMounts = append(main(p).VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/hollow-node", SubPath: "script"})
		}},
		"the state of the machine": {"spec.containers[0].volumeMounts[2]", func(p *corev1.Pod) { main(p).VolumeMounts = main(p).VolumeMounts[:2] }},
	} {
		t.Run(what, func(t *testing.T) {
			pod := rendered(t)
			test.change(pod)
			refusals := refusalsOf(pod)
			if len(refusals) != 1 || refusals[0].Field != test.field || refusals[0].Reason == "" {
				t.Errorf("the refusals are %q", refusals)
			}
		})
	}
}
