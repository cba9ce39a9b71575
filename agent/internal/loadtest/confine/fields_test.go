package confine

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// judged has a line for each field of the kinds that a template may have, as the vendored API has them: stays, which is accepted because
// it reaches no further than the namespaces of the run, refused, or differs, which depends on where it is. What is below a refused field
// is left out. A newer API has new fields: look at each, and write the line that is to be.
const judged = "testdata/fields.txt"

// typesOfKinds are those of kinds.
var typesOfKinds = map[string]reflect.Type{
	"ConfigMap": reflect.TypeFor[corev1.ConfigMap](), "Secret": reflect.TypeFor[corev1.Secret](), "Service": reflect.TypeFor[corev1.Service](),
	"LimitRange": reflect.TypeFor[corev1.LimitRange](), "ResourceQuota": reflect.TypeFor[corev1.ResourceQuota](), "Pod": reflect.TypeFor[corev1.Pod](),
	"PodTemplate": reflect.TypeFor[corev1.PodTemplate](), "ReplicationController": reflect.TypeFor[corev1.ReplicationController](),
	"Deployment": reflect.TypeFor[appsv1.Deployment](), "ReplicaSet": reflect.TypeFor[appsv1.ReplicaSet](), "StatefulSet": reflect.TypeFor[appsv1.StatefulSet](),
	"DaemonSet": reflect.TypeFor[appsv1.DaemonSet](), "Job": reflect.TypeFor[batchv1.Job](), "CronJob": reflect.TypeFor[batchv1.CronJob](),
	"PodDisruptionBudget": reflect.TypeFor[policyv1.PodDisruptionBudget](), "NetworkPolicy": reflect.TypeFor[networkingv1.NetworkPolicy](),
	"Lease": reflect.TypeFor[coordinationv1.Lease](),
}

// leaves are values of types that are no structs in JSON.
var leaves = map[reflect.Type]any{
	reflect.TypeFor[metav1.Time]():        "2026-01-01T00:00:00Z",
	reflect.TypeFor[metav1.MicroTime]():   "2026-01-01T00:00:00.000000Z",
	reflect.TypeFor[metav1.Duration]():    "1s",
	reflect.TypeFor[resource.Quantity]():  "1",
	reflect.TypeFor[intstr.IntOrString](): int64(1),
	reflect.TypeFor[[]byte]():             "eA==",
}

// fieldWalk sets one field after the other, and notes what happens to it.
type fieldWalk struct {
	t      *testing.T
	kind   string
	limits Limits
	// seen are the outcomes, by type and field.
	seen map[string]map[string]bool
}

// visit tries the fields of a type at a path of an object; base makes the object, and where the fields are in it.
func (w *fieldWalk) visit(of reflect.Type, base func() (object, at map[string]any)) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && strings.Contains(options, "inline") || name == "" && field.Anonymous {
			w.visit(field.Type, base)
			continue
		}
		if name == "" || name == "-" || field.Type == reflect.TypeFor[metav1.ObjectMeta]() || name == "status" || field.Type == reflect.TypeFor[metav1.TypeMeta]() || of == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		w.try(of, name, field.Type, base)
	}
}

func (w *fieldWalk) try(of reflect.Type, name string, typ reflect.Type, base func() (object, at map[string]any)) {
	inner, wrap := typ, func(value any) any { return value }
	for {
		if _, isLeaf := leaves[inner]; isLeaf {
			break
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
			continue
		}
		if inner.Kind() == reflect.Slice {
			outer := wrap
			inner, wrap = inner.Elem(), func(value any) any { return outer([]any{value}) }
			continue
		}
		if inner.Kind() == reflect.Map {
			outer := wrap
			inner, wrap = inner.Elem(), func(value any) any { return outer(map[string]any{"x": value}) }
			continue
		}
		break
	}
	if inner == reflect.TypeFor[corev1.PodSpec]() && w.kind != "Pod" {
		return // By the fields of a Pod.
	}
	within := func() (object, at map[string]any) {
		object, parent := base()
		at = map[string]any{}
		if known, has := parent[name]; has { // It is needed, such as the container of a pod.
			switch known := known.(type) {
			case map[string]any:
				return object, known
			case []any:
				return object, known[0].(map[string]any)
			}
		}
		parent[name] = wrap(at)
		return object, at
	}
	isStruct := inner.Kind() == reflect.Struct && leaves[inner] == nil
	object, at := base()
	if isStruct {
		object, at = within()
		_ = at
		if len(at) == 0 && onlyText(inner) != "" {
			at[onlyText(inner)] = "x"
		}
	} else {
		at[name] = wrap(valueOf(inner))
	}
	err := w.limits.Apply(&unstructured.Unstructured{Object: object})
	key := of.String() + "." + name
	if w.seen[key] == nil {
		w.seen[key] = map[string]bool{}
	}
	w.seen[key][map[bool]string{true: "stays", false: "refused"}[err == nil]] = true
	if err == nil && isStruct {
		w.visit(inner, within)
	}
}

// onlyText is a field that an object of some types cannot do without here.
func onlyText(of reflect.Type) string {
	if of == reflect.TypeFor[corev1.Container]() || of == reflect.TypeFor[corev1.Volume]() {
		return "name"
	}
	return ""
}

func valueOf(of reflect.Type) any {
	if value, isLeaf := leaves[of]; isLeaf {
		return value
	}
	switch of.Kind() {
	case reflect.Bool:
		return true
	case reflect.String:
		return "x"
	case reflect.Int32, reflect.Int64, reflect.Uint8:
		return int64(1)
	}
	panic(of.String())
}

// complete is an object of a kind that is accepted.
func completeObject(gvk string, known kind) map[string]any {
	version, name, _ := strings.Cut(gvk, " ")
	object := map[string]any{"apiVersion": version, "kind": name}
	if !known.hasPods {
		return object
	}
	template := object
	for _, part := range known.podTemplate {
		inner := map[string]any{}
		template[part], template = inner, inner
	}
	template["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c"}}}
	return object
}

// A field that nobody has looked at is neither accepted nor refused by chance: a new version of Kubernetes brings new ones.
// Claim: Every field of a template's kinds is judged. Broken: `scheduling` of a Job, group-managed accounts, unknown fields of other kinds than pods: code before the test; another volume, another field or fields of ports let in. Also: TestPodsThatReachFurther, TestOtherKindsThatReachFurther.
func TestEveryFieldOfTheAPIIsJudged(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]map[string]bool{}
	for gvk, known := range kinds {
		typ := typesOfKinds[gvk.Kind]
		g.Expect(typ).NotTo(BeNil(), "%s: add its type", gvk.Kind)
		w := &fieldWalk{t: t, kind: gvk.Kind, limits: complete(t, Limits{}), seen: seen}
		w.visit(typ, func() (object, at map[string]any) {
			object = completeObject(gvk.GroupVersion().String()+" "+gvk.Kind, known)
			return object, object
		})
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		outcome := "differs"
		if len(seen[key]) == 1 {
			outcome = slices.Collect(maps.Keys(seen[key]))[0]
		}
		lines = append(lines, key+" "+outcome)
	}
	if os.Getenv("WRITE_FIELDS") != "" {
		g.Expect(os.WriteFile(judged, []byte(strings.Join(lines, "\n")+"\n"), 0o644)).To(Succeed())
	}
	content, err := os.ReadFile(judged)
	g.Expect(err).NotTo(HaveOccurred())
	wanted := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		wanted[strings.TrimSpace(line)] = true
	}
	var unknown []string
	for _, line := range lines {
		if !wanted[line] {
			unknown = append(unknown, line)
		}
		delete(wanted, line)
	}
	g.Expect(unknown).To(BeEmpty(), "%s does not have these lines: may a template have such a field?", judged)
	g.Expect(slices.Sorted(maps.Keys(wanted))).To(BeEmpty(), fmt.Sprintf("no template has these fields: take them out of %s", judged))
}
