package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// FuzzAppliedTaints holds whatever a client writes into the annotation: a taint goes only if the annotation names it, and
// what the agent then remembers it reads again.
func FuzzAppliedTaints(f *testing.F) {
	for _, seed := range []string{
		``, `[]`, `null`, `{`, `[{"key":"a","effect":"NoSchedule"}]`, `[{"key":"theirs","effect":"NoExecute"}]`, `[{}]`, `[{"key":1}]`,
		`[{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoSchedule"},{"key":"theirs"}]`, `[[[[`, `"a"`,
	} {
		f.Add(seed, "a")
	}
	f.Fuzz(func(t *testing.T, annotation, key string) {
		theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoExecute}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.NodeAppliedTaintsAnnotation: annotation}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectNoSchedule}, theirs}},
		}
		desired := Desired{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}}
		changes, err := ChangesOf(node, desired)
		if err != nil {
			t.Fatal(err)
		}
		before := rememberedTaints(node)
		for _, taint := range node.Spec.Taints {
			if !before.Has(idOf(taint)) && !slices.ContainsFunc(changes.Taints, func(left corev1.Taint) bool { return idOf(left) == idOf(taint) }) {
				t.Errorf("%q took away %v, which it does not name", annotation, taint)
			}
		}

		node.Spec.Taints = changes.Taints
		node.Annotations[v1alpha1.NodeAppliedTaintsAnnotation] = changes.AppliedTaints
		if again, err := ChangesOf(node, desired); err != nil || again.SetTaints {
			t.Errorf("after the changes of %q there are changes again: %+v, %v", annotation, again, err)
		}
	})
}
