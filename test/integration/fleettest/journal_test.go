package fleettest

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
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
		"nothing, if all is well": {Bound{Least: 1, Most: 3}, []event{
			{watch.Added, machine("c", false, false)}, {watch.Modified, machine("c", true, false)},
			{watch.Modified, machine("a", true, true)}, {watch.Deleted, machine("a", true, true)},
		}, ""},
		"too many made": {Bound{Least: 1, Most: 2}, []event{{watch.Added, machine("c", false, false)}}, "there were 3"},
		"another made before one has gone": {Bound{Least: 1, Most: 2}, []event{
			{watch.Modified, machine("a", true, true)}, {watch.Added, machine("c", false, false)},
		}, "there were 3"},
		"too many ordered to go":       {Bound{Least: 2, Most: 3}, []event{{watch.Modified, machine("a", true, true)}}, "only 1 were available"},
		"one removed without an order": {Bound{Least: 2, Most: 3}, []event{{watch.Deleted, machine("a", true, false)}}, "only 1 were available"},
		"what loses its readiness":     {Bound{Most: 3}, []event{{watch.Modified, machine("a", false, false)}}, "a has lost its readiness"},
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

func TestAJournalLooksThroughWhatAnAPIServerHasForgotten(t *testing.T) {
	g := NewWithT(t)
	environment, err := testenv.Share(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(environment.Stop()).To(Succeed()) }()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "journal-"}}
	g.Expect(environment.Client.Create(t.Context(), namespace)).To(Succeed())
	made := func(name string) *v1alpha1.Machine {
		one := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name}}
		one.Spec.ClusterName = namespace.Name
		one.Spec.ProviderConfig.ValueRef = &v1alpha1.MachineClassReference{Name: "small"}
		g.Expect(environment.Client.Create(t.Context(), one)).To(Succeed())
		return one
	}
	c, err := client.NewWithWatch(environment.Config, client.Options{Scheme: environment.Client.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	j := newJournal(subject{
		kind: "Machine", ready: isReady, list: &v1alpha1.MachineList{}, options: []client.ListOption{client.InNamespace(namespace.Name)},
	}, c)
	made("stays")
	version, err := j.look(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	// No watch runs while one comes and goes.
	g.Expect(environment.Client.Delete(t.Context(), made("goes"))).To(Succeed())
	g.Expect(j.lookAgain(t.Context(), version)).NotTo(Equal(version))
	g.Expect(j.Ending()).To(Equal([]string{"goes"}))
	g.Expect(j.Live()).To(Equal([]string{"stays"}))
	g.Expect(j.Verdict()).To(BeEmpty())
}

// history is a client of an API server that remembers what was there at each version.
type history struct {
	client.WithWatch
	at   map[string][]v1alpha1.Machine
	last string
	// forgotten is the version that is not remembered any more, away the one at which no answer comes, once.
	forgotten, away string
}

func (h *history) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	version := h.last
	if asked.Raw != nil {
		version = asked.Raw.ResourceVersion
	}
	switch version {
	case h.forgotten:
		return apierrors.NewResourceExpired("compacted")
	case h.away:
		h.away = ""
		return errors.New("connection refused")
	}
	list.SetResourceVersion(version)
	list.(*v1alpha1.MachineList).Items = h.at[version]
	return nil
}

func TestAJournalLooksOnWhereItWasCutOff(t *testing.T) {
	there := func(machines ...*v1alpha1.Machine) []v1alpha1.Machine {
		var all []v1alpha1.Machine
		for _, one := range machines {
			all = append(all, *one)
		}
		return all
	}
	a, b := machine("a", true, false), machine("b", true, false)
	at := map[string][]v1alpha1.Machine{
		"7": there(a), "8": there(a, b), "9": there(a, machine("b", true, true)), "10": there(a), "11": there(a),
	}
	tests := map[string]struct {
		history history
		ending  []string
	}{
		"one that came and went":                          {history{}, []string{"b"}},
		"also when the API server goes away in the midst": {history{away: "9"}, []string{"b"}},
		"not what etcd has forgotten":                     {history{forgotten: "8"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			test.history.at, test.history.last = at, "11"
			j := newJournal(subject{kind: "Machine", ready: isReady, list: &v1alpha1.MachineList{}}, &test.history)
			j.see(watch.Added, a)
			g.Expect(j.lookAgain(t.Context(), "7")).To(Equal("11"))
			g.Expect(j.Ending()).To(Equal(test.ending))
			g.Expect(j.Live()).To(Equal([]string{"a"}))
			g.Expect(j.Verdict()).To(BeEmpty())
		})
	}
	t.Run("from now if the API server has gone back", func(t *testing.T) {
		g := NewWithT(t)
		j := newJournal(subject{kind: "Machine", list: &v1alpha1.MachineList{}}, &history{at: at, last: "8"})
		g.Expect(j.lookAgain(t.Context(), "11")).To(Equal("8"))
		g.Expect(j.Live()).To(Equal([]string{"a", "b"}))
	})
}
