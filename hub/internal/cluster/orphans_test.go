package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestOrphansAreToldWhenTheyBecomeMore(t *testing.T) {
	some := &v1alpha1.Orphans{Instances: 1, Nodes: 2, CertificateRequests: 3, Names: []string{"instance/a", "node/a"}}
	with := func(change func(*v1alpha1.Orphans)) *v1alpha1.Orphans {
		orphans := some.DeepCopy()
		change(orphans)
		return orphans
	}
	tests := map[string]struct {
		before, after *v1alpha1.Orphans
		told          bool
	}{
		"the first":           {nil, some, true},
		"one more instance":   {some, with(func(o *v1alpha1.Orphans) { o.Instances++ }), true},
		"one more node":       {some, with(func(o *v1alpha1.Orphans) { o.Nodes++; o.Instances-- }), true},
		"one more request":    {some, with(func(o *v1alpha1.Orphans) { o.CertificateRequests++ }), true},
		"the same":            {some, some, false},
		"fewer":               {some, with(func(o *v1alpha1.Orphans) { o.Nodes-- }), false},
		"none any more":       {some, nil, false},
		"never any":           {nil, nil, false},
		"others, as many":     {some, with(func(o *v1alpha1.Orphans) { o.Names[0] = "instance/b" }), false},
		"again after a while": {nil, with(func(o *v1alpha1.Orphans) { o.Nodes = 0 }), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, v1alpha1.AcceptancePending)
			before, after := f.cluster.DeepCopy(), f.cluster.DeepCopy()
			before.Status.Orphans, after.Status.Orphans = test.before, test.after
			f.logic.watchOrphans().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, nil)
			want := BeEmpty()
			if test.told {
				want = ConsistOf(And(ContainSubstring("Warning OrphansFound"), ContainSubstring("/a")))
			}
			f.Expect(f.Events()).To(want)
		})
	}
}
