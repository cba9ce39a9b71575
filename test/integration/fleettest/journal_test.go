package fleettest

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// machine is a Machine as a watch shows it.
func machine(name string, ready, going bool) *v1alpha1.Machine {
	shown := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if ready {
		shown.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue}}
	}
	if going {
		shown.DeletionTimestamp = &metav1.Time{}
	}
	return shown
}

// A journal that is blind makes every suite pass, so here is what it must see.
func TestAJournalAccuses(t *testing.T) {
	type event struct {
		what    watch.EventType
		machine *v1alpha1.Machine
	}
	tests := map[string]struct {
		bound  Bound
		events []event
		want   string
	}{
		"nobody, if all is well": {Bound{Least: 1, Most: 3}, []event{
			{watch.Added, machine("c", false, false)}, {watch.Modified, machine("c", true, false)},
			{watch.Modified, machine("a", true, true)}, {watch.Deleted, machine("a", true, true)},
		}, ""},
		"whoever makes too many": {Bound{Least: 1, Most: 2}, []event{{watch.Added, machine("c", false, false)}}, "there were 3"},
		"whoever makes another before one has gone": {Bound{Least: 1, Most: 2}, []event{
			{watch.Modified, machine("a", true, true)}, {watch.Added, machine("c", false, false)},
		}, "there were 3"},
		"whoever orders too many to go":        {Bound{Least: 2, Most: 3}, []event{{watch.Modified, machine("a", true, true)}}, "only 1 were available"},
		"whoever removes one without an order": {Bound{Least: 2, Most: 3}, []event{{watch.Deleted, machine("a", true, false)}}, "only 1 were available"},
		"what loses its readiness":             {Bound{Most: 3}, []event{{watch.Modified, machine("a", false, false)}}, "a has lost its readiness"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			j := newJournal(subject{kind: "Machine", ready: isReady}, nil)
			for _, there := range []string{"a", "b"} {
				j.see(watch.Added, machine(there, true, false))
			}
			j.Hold(test.bound)
			for _, one := range test.events {
				j.see(one.what, one.machine)
				j.weigh()
			}
			if test.want == "" {
				g.Expect(j.Verdict()).To(BeEmpty())
			} else {
				g.Expect(j.Verdict()).To(ContainElement(ContainSubstring(test.want)))
			}
		})
	}
}

func TestAJournalMissesWhatHasGoneWhileNobodyLooked(t *testing.T) {
	g := NewWithT(t)
	j := newJournal(subject{kind: "Machine", ready: isReady}, nil)
	j.see(watch.Added, machine("a", true, false))
	j.see(watch.Added, machine("b", true, false))
	j.Hold(Bound{Least: 2, Most: 2})
	j.miss(map[types.UID]bool{"b": true})
	j.weigh()
	g.Expect(j.Ending()).To(Equal([]string{"a"}))
	g.Expect(j.Live()).To(Equal([]string{"b"}))
	g.Expect(j.Verdict()).NotTo(BeEmpty())
}
