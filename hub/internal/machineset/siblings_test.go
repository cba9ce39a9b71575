package machineset

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// family is a deployment with an old and a new set, of three Machines each that are ready.
type family struct {
	*env
	sets map[string]*v1alpha1.MachineSet
	// first has the Machines of each set at the start.
	first map[string][]string
}

func newFamily(t *testing.T, stale *interceptor.Funcs) *family {
	t.Helper()
	f := &family{env: newEnv(t, 0, stale), sets: map[string]*v1alpha1.MachineSet{}, first: map[string][]string{}}
	f.connect()
	f.own(nil, nil)
	for _, name := range []string{"old", "new"} {
		labels := map[string]string{"app": "x", v1alpha1.MachineTemplateHashLabel: name}
		set := &v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: f.set.Namespace, Name: name, OwnerReferences: f.refresh().OwnerReferences,
				Labels: map[string]string{v1alpha1.MachineDeploymentNameLabel: "pool"},
			},
			Spec: v1alpha1.MachineSetSpec{
				ClusterName: f.cluster.Name, Replicas: new(int32(3)),
				Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
			},
		}
		f.ExpectApplied(set)
		f.sets[name] = set
		f.look(name)
		f.ready()
		f.look(name)
		f.first[name] = f.of(name)
		f.Expect(f.first[name]).To(HaveLen(3))
	}
	return f
}

func (f *family) look(set string) reconcile.Result {
	f.T.Helper()
	result, err := f.Runner.Reconcile(f.T.Context(), reconciler.Request(f.set.Namespace, set))
	f.Expect(err).NotTo(HaveOccurred())
	return result
}

// of are the Machines of set that are not being deleted.
func (f *family) of(set string) []string {
	f.T.Helper()
	return active(slices.DeleteFunc(f.Machines(f.set.Namespace), func(machine v1alpha1.Machine) bool {
		return !metav1.IsControlledBy(&machine, f.sets[set])
	}))
}

func TestTheSetsOfADeploymentShareMaxInFlight(t *testing.T) {
	f := newFamily(t, nil)
	f.fail(f.first["old"][0], v1alpha1.ErrorHealthTimeout)
	f.fail(f.first["new"][0], v1alpha1.ErrorHealthTimeout)
	f.look("old")
	f.Expect(f.of("old")).To(HaveLen(2))
	waits := func(why string) {
		t.Helper()
		f.Expect(f.look("new").RequeueAfter).To(BeNumerically(">", 0), "it looks again if no event wakes it")
		f.Expect(f.of("new")).To(Equal(f.first["new"]), why)
	}
	waits("one of the other set is being replaced")
	f.look("old")
	f.FinishDeletions(f.set.Namespace)
	waits("it is gone, and its replacement is not made yet")
	f.look("old")
	f.Expect(f.of("old")).To(HaveLen(3))
	waits("its replacement is not up yet")
	f.ready()
	f.look("new")
	f.Expect(f.of("new")).To(HaveLen(2))
	f.fail(f.first["old"][1], v1alpha1.ErrorHealthTimeout)
	f.look("old")
	f.Expect(f.of("old")).To(HaveLen(3), "now it is the old set that waits")
}

func TestTheSetsOfADeploymentShareMaxInFlightWhateverTheCacheSays(t *testing.T) {
	var cached *v1alpha1.MachineList
	f := newFamily(t, &interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if machines, ok := list.(*v1alpha1.MachineList); ok && cached != nil {
				cached.DeepCopyInto(machines)
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
	f.fail(f.first["old"][0], v1alpha1.ErrorHealthTimeout)
	f.fail(f.first["new"][0], v1alpha1.ErrorHealthTimeout)
	cached = &v1alpha1.MachineList{Items: f.Machines(f.set.Namespace)}
	f.look("old")
	f.Expect(f.of("old")).To(HaveLen(2))
	f.look("new")
	f.Expect(f.of("new")).To(HaveLen(3), "the cache does not show yet what the other set has started")
}

func TestTheEndOfAReplacementWakesTheOtherSetsOfTheDeployment(t *testing.T) {
	f := newFamily(t, nil)
	logic, err := New(Deps{Client: f.Client, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	names := func(machine *v1alpha1.Machine) (names []string) {
		for _, request := range logic.ofMachine(t.Context(), machine) {
			names = append(names, request.Name)
		}
		return names
	}
	machine := f.machine(f.first["old"][0])
	f.Expect(names(machine)).To(ConsistOf("old"))
	for _, key := range []string{v1alpha1.RemediationAnnotation, v1alpha1.ReplacesAnnotation} {
		f.annotate(machine.Name, key, "x")
		f.Expect(names(f.machine(machine.Name))).To(ConsistOf("old", "new"))
	}
}

// As long as another set has Machines too, more will come or go: already the first ones are told together with them.
func TestARolloutIsToldInFewEvents(t *testing.T) {
	f := newFamily(t, nil)
	f.Expect(f.Events()).To(ConsistOf(ContainSubstring("Created 3 machines")), "those of the old set, which was alone")
	f.Expect(f.look("new").RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", tellEvery)), "it will tell if no event wakes it")
	f.pass(tellEvery)
	f.look("new")
	f.Expect(f.Events()).To(ConsistOf(ContainSubstring("Created 3 machines")))
}
