package machinedeployment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// informer is a cache that shows the world as it was when it was last synced.
type informer struct {
	deployment v1alpha1.MachineDeployment
	sets       v1alpha1.MachineSetList
	machines   v1alpha1.MachineList
}

func (i *informer) sync(f *env) {
	f.T.Helper()
	in := client.InNamespace(f.cluster.Name)
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKeyFromObject(f.deployment), &i.deployment)).To(Succeed())
	f.Expect(f.Client.List(f.T.Context(), &i.sets, in)).To(Succeed())
	f.Expect(f.Client.List(f.T.Context(), &i.machines, in)).To(Succeed())
}

func (i *informer) reads() *interceptor.Funcs {
	return &interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if deployment, ok := object.(*v1alpha1.MachineDeployment); ok && i.deployment.Name != "" {
				i.deployment.DeepCopyInto(deployment)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			switch list := list.(type) {
			case *v1alpha1.MachineSetList:
				i.sets.DeepCopyInto(list)
			case *v1alpha1.MachineList:
				i.machines.DeepCopyInto(list)
			default:
				return c.List(ctx, list, options...)
			}
			return nil
		},
	}
}

func TestStaleCachesMakeOneSetPerTemplate(t *testing.T) {
	t.Run("CAPI #12551, #13649", func(t *testing.T) {
		cache := &informer{}
		f := newEnv(t, 2, cache.reads())
		cache.sync(f)
		f.ExpectReconciled(f.deployment)
		f.reconcileSets()
		cache.sync(f)
		f.upgrade("v1.37.0")
		f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.deployment), &cache.deployment)).To(Succeed())
		for range 5 {
			f.ExpectReconciled(f.deployment) // The cache shows neither set nor what happened to the first.
			f.reconcileSets()
		}
		f.Expect(f.list()).To(HaveLen(2))
		f.Expect(f.refresh().Status.CollisionCount).To(BeNil())
	})
}

// The cache lags behind by a random number of steps all the time; two such hubs take turns.
func TestStaleCachesKeepToTheBudget(t *testing.T) {
	t.Run("MCM PR #627: stale counts", func(t *testing.T) {
		cache, cacheOfOther := &informer{}, &informer{}
		f := newEnv(t, 3, cache.reads())
		random := rand.New(rand.NewPCG(1, 2))
		cache.sync(f)
		hubs := []reconcile.Reconciler{f.Runner, f.hub(cacheOfOther.reads())}
		caches := []*informer{cache, cacheOfOther}
		step := func() {
			turn := random.IntN(len(hubs))
			if random.IntN(3) == 0 {
				caches[turn].sync(f)
			}
			f.Clock.Step(time.Duration(random.IntN(3)) * time.Second)
			f.Runner = hubs[turn]
			f.ExpectReconciled(f.deployment)
		}
		f.settle(func() { cache.sync(f) })
		cacheOfOther.sync(f)
		f.upgrade("v1.37.0")
		rolled := func() bool {
			sets := f.list()
			return len(sets) == 2 && *sets[1].Spec.Replicas == 3 && f.available() == 3 && len(f.Machines(f.cluster.Name)) == 3
		}
		for i := 0; !rolled(); i++ {
			f.Expect(i).To(BeNumerically("<", 500), "it does not end")
			step()
			if random.IntN(2) == 0 {
				f.reconcileSets()
			}
			if random.IntN(4) == 0 {
				f.FinishDeletions(f.cluster.Name)
			}
			if random.IntN(3) == 0 {
				f.readyOne()
			}
			f.Expect(len(f.Machines(f.cluster.Name))).To(BeNumerically("<=", 4), "replicas and surge")
			f.Expect(f.available()).To(BeNumerically(">=", 3), "replicas")
		}
		f.Expect(f.list()).To(HaveLen(2))
	})
}

// hub is another process with a cache of its own. It knows nothing of what the first one's sets have worked on.
func (f *env) hub(stale *interceptor.Funcs) reconcile.Reconciler {
	f.T.Helper()
	cached := interceptor.NewClient(f.Writes.Count(f.Client), *stale)
	logic, err := New(Deps{Client: cached, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	return reconciler.New(cached, cached, logic)
}

// readyOne lets one Machine become ready, if one is not.
func (f *env) readyOne() bool {
	f.T.Helper()
	for _, machine := range f.Machines(f.cluster.Name) {
		if machine.DeletionTimestamp == nil && !meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
			f.MarkReady(&machine, true, f.Clock.Now())
			return true
		}
	}
	return false
}

// A reconciliation that finds nothing to do costs neither writes nor live reads, however large the deployment.
func TestThousandMachinesAtRestCostNothing(t *testing.T) {
	cache := &informer{}
	f := newEnv(t, 1000, cache.reads())
	cache.sync(f)
	f.ExpectReconciled(f.deployment)
	cache.sync(f)
	set := &cache.sets.Items[0]
	set.Status.ObservedGeneration = set.Generation
	for i := range 1000 {
		machine := v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.cluster.Name, Name: fmt.Sprint("machine-", i), UID: types.UID(fmt.Sprint(i)),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
		}}
		meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue})
		cache.machines.Items = append(cache.machines.Items, machine)
	}
	f.ExpectReconciled(f.deployment) // Writes the status.
	f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.deployment), &cache.deployment)).To(Succeed())
	f.Expect(cache.deployment.Status.AvailableReplicas).To(BeEquivalentTo(1000))

	reads := 0
	live := interceptor.NewClient(f.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			reads++
			return c.List(ctx, list, options...)
		},
	})
	cached := interceptor.NewClient(f.Writes.Count(f.Client), *cache.reads())
	logic, err := New(Deps{Client: cached, Live: live, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(cached, cached, logic)
	f.Writes.Counts()
	for range 3 {
		f.Clock.Step(time.Hour)
		f.ExpectReconciled(f.deployment)
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty())
	f.Expect(reads).To(BeZero(), "live reads")
}

// recorder counts the writes that events cost: equal ones are one event, written when it comes and once more when
// it comes again.
type recorder struct {
	writes *testenv.Writes
	seen   map[string]int
}

func (r *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, _ string, _ ...any) {
	key := fmt.Sprint(kind, reason, action, identity(regarding), identity(related))
	r.seen[key]++
	switch r.seen[key] {
	case 1:
		r.writes.Add("create Event")
	case 2:
		r.writes.Add("patch Event")
	}
}

// identity is all of an object that is part of a reference to it.
func identity(object runtime.Object) string {
	if object == nil {
		return ""
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%T/%s/%s/%s", object, accessor.GetName(), accessor.GetUID(), accessor.GetResourceVersion())
}

// agentWrites is what the agent writes for a Machine that comes (providerID, Ready) and one that goes (finalizer). A
// drain is told only when it makes no progress for a while.
const agentWrites = 3

func TestRollingUpdateCostsAtMostEightWritesPerMachine(t *testing.T) {
	// With a surge of 1, two scalings are each Machine's own.
	surges := []string{"25%", "10%", "1"}
	if testing.Short() {
		surges = surges[:1]
	}
	for _, surge := range surges {
		t.Run(surge, func(t *testing.T) { rollWithEightWrites(t, surge) })
	}
}

func rollWithEightWrites(t *testing.T, surge string) {
	const machines, most = 20, 8
	f := newEnv(t, machines, nil)
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Strategy = rollingBy(surge)
	})
	f.rest()
	f.readyAll()
	f.rest()
	f.counting()
	f.Writes.Counts()
	f.upgrade("v1.37.0")
	for i := 0; ; i++ {
		f.Expect(i).To(BeNumerically("<", 500), "it does not end")
		f.Clock.Step(200 * time.Millisecond)
		f.ExpectReconciled(f.deployment)
		f.reconcileSets()
		f.ExpectReconciled(f.deployment)
		// One Machine comes up and one goes at a time, so that each could be answered by a step of its own.
		came := f.readyOne()
		gone := f.finishOne()
		if sets := f.list(); !came && !gone && len(sets) == 2 && *sets[1].Spec.Replicas == machines && f.available() == machines {
			break
		}
	}
	counts := f.Writes.Counts()
	total := 0
	for _, count := range counts {
		total += count
	}
	perMachine := float64(total)/machines + agentWrites
	t.Logf("%.2f writes per machine with %d of the agent; %v", perMachine, agentWrites, counts)
	f.Expect(perMachine).To(BeNumerically("<=", most))
}

// counting counts the writes of both controllers, their events included.
func (f *env) counting() {
	f.T.Helper()
	counted := f.Writes.Count(f.Client)
	told := &recorder{writes: &f.Writes, seen: map[string]int{}}
	worked := machineset.NewSets(f.Clock)
	logic, err := New(Deps{Client: counted, Live: f.Client, Recorder: told, Agents: f.agents, Sets: worked, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(counted, counted, logic)
	sets, err := machineset.New(machineset.Deps{Client: counted, Live: f.Client, Recorder: told, Agents: f.agents, Sets: worked, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.sets = reconciler.New(counted, counted, sets)
}

func (f *env) readyAll() {
	for f.readyOne() {
	}
}

// finishOne lets one Machine go that is being deleted.
func (f *env) finishOne() bool {
	f.T.Helper()
	for _, machine := range f.Machines(f.cluster.Name) {
		if machine.DeletionTimestamp == nil {
			continue
		}
		before := machine.DeepCopy()
		machine.Finalizers = nil
		f.Expect(client.IgnoreNotFound(f.Client.Patch(f.T.Context(), &machine, client.MergeFrom(before)))).To(Succeed())
		return true
	}
	return false
}
