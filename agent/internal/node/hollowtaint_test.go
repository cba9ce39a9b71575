package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// bringInLine carries out what ChangesOf says of the taints, as Sync does, until nothing is left to do.
func bringInLine(t *testing.T, node *corev1.Node, desired Desired) {
	t.Helper()
	for range 2 {
		changes, err := ChangesOf(node, desired)
		if err != nil {
			t.Fatal(err)
		}
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[v1alpha1.NodeMachineAnnotation] = node.Name
		if !changes.SetTaints {
			return
		}
		node.Spec.Taints = changes.Taints
		node.Annotations[v1alpha1.NodeAppliedTaintsAnnotation] = changes.AppliedTaints
	}
	if changes, _ := ChangesOf(node, desired); changes.SetTaints {
		t.Fatal("the taints are changed again and again")
	}
}

func TestTheHollowTaint(t *testing.T) {
	hollow := taint(v1alpha1.HollowNodeTaint, v1alpha1.HollowNodeTaintValue, corev1.TaintEffectNoSchedule)
	auto, always, never := Desired{}, Desired{}.WithProviderTaints([]corev1.Taint{hollow}, nil), Desired{}.WithProviderTaints(nil, []corev1.Taint{hollow})
	spec := Desired{Taints: []corev1.Taint{hollow}}
	byHand := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{hollow} }
	byHandRemoved := func(n *corev1.Node) { n.Spec.Taints = nil }
	is := func(d Desired) func(*testing.T, *corev1.Node) {
		return func(t *testing.T, n *corev1.Node) { bringInLine(t, n, d) }
	}
	does := func(change func(*corev1.Node)) func(*testing.T, *corev1.Node) {
		return func(_ *testing.T, n *corev1.Node) { change(n) }
	}
	for name, test := range map[string]struct {
		registered bool
		steps      []func(*testing.T, *corev1.Node)
		want       bool
	}{
		"should stay as the Node registered with it":                       {true, steps(is(auto)), true},
		"should not come to a Node that registered without":                {false, steps(is(auto)), false},
		"should go when the class says so, also at the first look":         {true, steps(is(never)), false},
		"should go when the class says so later":                           {true, steps(is(auto), is(never)), false},
		"should come when the class says so":                               {false, steps(is(auto), is(always)), true},
		"should stay when the class says nothing any more":                 {false, steps(is(always), is(auto)), true},
		"should stay when a template that had it too does not any more":    {true, steps(is(spec), is(auto)), true},
		"should go with the template where no taint is wanted":             {false, steps(is(spec), is(never)), false},
		"should come back when it was taken away by hand and is wanted":    {true, steps(is(always), does(byHandRemoved), is(always)), true},
		"should stay away when it was taken away by hand":                  {true, steps(is(auto), does(byHandRemoved), is(auto)), false},
		"should stay when an administrator has put it there":               {false, steps(is(never), does(byHand), is(never)), true},
		"should go after a while without an instance, when the class says": {true, steps(is(auto), is(auto), is(never)), false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{}
			node.Name = "m1"
			other := taint("other", "", corev1.TaintEffectNoExecute)
			node.Spec.Taints = []corev1.Taint{other}
			if test.registered {
				node.Spec.Taints = append(node.Spec.Taints, hollow)
			}
			for _, step := range test.steps {
				step(t, node)
			}
			if has := slices.ContainsFunc(node.Spec.Taints, func(x corev1.Taint) bool { return sameTaint(x, hollow) }); has != test.want {
				t.Errorf("has the taint: %t, want %t: %v", has, test.want, node.Spec.Taints)
			}
		})
	}
}

func steps(s ...func(*testing.T, *corev1.Node)) []func(*testing.T, *corev1.Node) { return s }

func TestSpecTaintsWinOverTheProviders(t *testing.T) {
	mine := taint(v1alpha1.HollowNodeTaint, "mine", corev1.TaintEffectNoSchedule)
	desired := Desired{Taints: []corev1.Taint{mine}}.WithProviderTaints([]corev1.Taint{taint(v1alpha1.HollowNodeTaint, "true", corev1.TaintEffectNoSchedule)}, nil)
	if len(desired.Taints) != 1 || desired.Taints[0] != mine {
		t.Errorf("got %v", desired.Taints)
	}
}
