package machinedeployment

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// The caches of each kind lag behind on their own, and what is decided on them is decided again.
func TestPoolsShareOneSurge(t *testing.T) {
	t.Run("MCM #798: one surge over several pools", func(t *testing.T) {
		replicas := 2
		if testing.Short() {
			replicas = 1
		}
		p := newPools(t, int32(replicas), "1", "a", "b", "c")
		p.roll("a", "b", "c")
		random := rand.New(rand.NewPCG(7, 98))
		most := 0
		for i := 0; !p.rolled(replicas); i++ {
			p.Expect(i).To(BeNumerically("<", 1000), "it does not end")
			p.sync(random.IntN(3) == 0, random.IntN(3) == 0, random.IntN(3) == 0)
			p.Clock.Step(time.Duration(random.IntN(3)) * time.Second)
			p.Expect(p.work(p.names[random.IntN(3)])).To(Succeed())
			if random.IntN(2) == 0 {
				p.reconcileSets()
			}
			if random.IntN(4) == 0 {
				p.finishOne()
			}
			if random.IntN(3) == 0 {
				p.readyOne()
			}
			most = max(most, p.beyond())
			p.Expect(most).To(BeNumerically("<=", 1), "of all together")
			p.Expect(p.available()).To(BeNumerically(">=", 3*replicas), "replicas")
		}
		p.Expect(most).To(Equal(1))
	})
	t.Run("MCM #798: a percentage is of all pools", func(t *testing.T) {
		testenv.Long(t)
		p := newPools(t, 3, "34%", "a", "b")
		p.roll("a", "b")
		most := 0
		p.settle(func() {
			most = max(most, p.beyond())
			p.Expect(most).To(BeNumerically("<=", 3), "34% of 6")
		})
		p.Expect(p.rolled(3)).To(BeTrue())
		p.Expect(most).To(Equal(3))
	})
}

// While one has read what is there and not yet written, the other decides on the same.
func TestPoolsDecideOneAfterTheOther(t *testing.T) {
	t.Run("MCM #798: two do not take the last place at once", func(t *testing.T) {
		p := newPools(t, 2, "1", "a", "b")
		p.roll("a", "b")
		done := make(chan error, 1)
		var read atomic.Bool
		p.hub(interceptor.NewClient(p.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if _, ok := list.(*v1alpha1.MachineList); !ok || !read.CompareAndSwap(false, true) {
					return err
				}
				other := make(chan struct{})
				go func() {
					defer close(other)
					done <- p.work("b")
				}()
				select {
				case <-other:
				case <-time.After(time.Second): // It waits for its turn, as it should.
				}
				return err
			},
		}))
		p.Expect(p.work("a")).To(Succeed())
		p.Expect(<-done).To(Succeed())
		var surplus int32
		for _, set := range p.list() {
			surplus += *set.Spec.Replicas
		}
		p.Expect(surplus).To(BeEquivalentTo(2+2+1), "the replicas of both and one surge")
	})
}

// What one gives back wakes those that wait for it, and no others.
func TestPoolsThatWaitAreWoken(t *testing.T) {
	p := newPools(t, 1, "1", "a", "b", "c")
	p.create("alone", 1, "1", "")
	p.create("other", 1, "1", "regions")
	p.sync(true, true, true)
	requests := func(names ...string) []reconcile.Request {
		var all []reconcile.Request
		for _, name := range names {
			all = append(all, reconciler.Request(p.cluster.Name, name))
		}
		return all
	}
	machineOf := func(name string) *v1alpha1.Machine {
		return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: p.cluster.Name, Labels: map[string]string{v1alpha1.MachineDeploymentNameLabel: name},
		}}
	}
	setOf := func(name string) *v1alpha1.MachineSet {
		return &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: p.cluster.Name, OwnerReferences: []metav1.OwnerReference{ownerReference(p.get(name))},
		}}
	}
	p.Expect(p.logic.ofMachine(t.Context(), machineOf("a"))).To(ConsistOf(requests("a")), "no other waits")

	p.roll("a", "b")
	p.look("a", time.Minute)
	for range 3 {
		p.look("b", time.Minute)
		p.reconcileSets()
	}
	p.Expect(p.logic.ofMachine(t.Context(), machineOf("a"))).To(ConsistOf(requests("a", "b")), "c has rolled out")
	p.Expect(p.logic.ofSet(t.Context(), setOf("a"))).To(ConsistOf(requests("a", "b")))
	p.Expect(p.logic.ofChangedPeer(t.Context(), p.get("a"))).To(ConsistOf(requests("b")))
	for _, name := range []string{"alone", "other"} {
		p.Expect(p.logic.ofMachine(t.Context(), machineOf(name))).To(ConsistOf(requests(name)), "another group or none")
		p.Expect(p.logic.ofChangedPeer(t.Context(), p.get(name))).To(BeEmpty())
	}

	gone := p.get("b")
	p.ExpectDeleted(gone)
	p.sync(true, false, false)
	p.logic.ofChangedPeer(t.Context(), gone)
	p.Expect(p.logic.surges.isWaiting(gone)).To(BeFalse(), "it is gone")
}

// A pool whose new Machine does not come up is late. Those that wait for its surge are not, and say for whom they wait.
func TestPoolsThatWaitAreNotLate(t *testing.T) {
	p := newPools(t, 2, "1", "a", "b")
	p.roll("a")
	for range 3 {
		p.look("a", time.Minute)
		p.reconcileSets()
	}
	p.roll("b")
	p.look("b", time.Minute)
	p.reconcileSets()
	p.Events()
	waiting := p.look("b", time.Minute)
	p.Expect(waiting.Status).To(Equal(metav1.ConditionTrue))
	p.Expect(waiting.Reason).To(Equal(v1alpha1.ReasonAwaitingSurge))
	p.Expect(waiting.Message).To(Equal(
		"0 of 2 machines have the current template: surge group zones is used up by MachineDeployment a, which this one is waiting for"))
	p.Expect(p.look("a", time.Hour).Reason).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded))
	p.Expect(p.look("b", time.Hour).Reason).To(Equal(v1alpha1.ReasonAwaitingSurge))
	p.Expect(p.Events()).To(ContainElement(ContainSubstring("RolloutAwaitsSurge")))

	p.hub(p.Client) // Another hub knows nothing of all that.
	deployment := p.get("a")
	deployment.Spec.Template.Spec.Versions.Kubelet = "v1.36.2"
	p.ExpectApplied(deployment)
	for range 3 {
		p.look("a", time.Minute)
		p.reconcileSets()
		p.FinishDeletions(p.cluster.Name)
	}
	p.Expect(p.look("b", time.Minute).Reason).To(Equal(v1alpha1.ReasonRollingOut), "it has its turn, and its whole time")
	p.settle(func() { p.Expect(p.beyond()).To(BeNumerically("<=", 1)) })
	p.Expect(p.look("b", time.Minute).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}

// Without a group the other deployments are not read.
func TestNoGroupCostsNoReads(t *testing.T) {
	p := newPools(t, 2, "1", "a")
	deployment := p.get("a")
	deployment.Spec.Strategy.RollingUpdate.SurgeGroup = ""
	p.ExpectApplied(deployment)
	reads := 0
	p.hub(interceptor.NewClient(p.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.MachineDeploymentList); ok {
				reads++
			}
			return c.List(ctx, list, options...)
		},
	}))
	p.roll("a")
	p.settle(func() {})
	p.Expect(p.rolled(2)).To(BeTrue())
	p.Expect(reads).To(BeZero(), "live lists of deployments")
	p.Expect(p.logic.surges.waiting).To(BeEmpty())
}

// A peer uses what it may make at any moment and what it still has, deleted or not.
func TestPeersUseWhatTheyHaveOrMayMake(t *testing.T) {
	g := NewWithT(t)
	own := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "own", UID: "own"}}
	p := peers{
		byUID: map[types.UID]*peer{"a": {name: "a", replicas: 2}}, byName: map[string]*peer{}, sets: map[types.UID]*peerSet{},
	}
	p.byName["a"] = p.byUID["a"]
	s := &scope{deployment: own, peers: p, machines: map[types.UID]*members{}}
	addSet := func(uid types.UID, replicas int32, deployment types.UID) *v1alpha1.MachineSet {
		set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1alpha1.MachineSetSpec{Replicas: &replicas}}
		s.peers.addSet(set, &metav1.OwnerReference{UID: deployment})
		return set
	}
	addMachine := func(set types.UID, deployment string) {
		machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{v1alpha1.MachineDeploymentNameLabel: deployment},
			OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", UID: set, Controller: new(true)}},
		}}
		s.addMachine(machine)
	}
	facts := func(unseen ...types.UID) plan.Peer {
		all := map[types.UID]bool{}
		for _, uid := range unseen {
			all[uid] = true
		}
		list := s.peers.planPeers(all)
		g.Expect(list).To(HaveLen(1))
		return list[0]
	}
	addSet("wants more", 3, "a")
	addMachine("wants more", "a")
	g.Expect(facts()).To(Equal(plan.Peer{Name: "a", Replicas: 2, Machines: 3}))
	addSet("has more", 0, "a")
	addMachine("has more", "a")
	addMachine("has more", "a")
	g.Expect(facts().Machines).To(Equal(5))
	going := addSet("going", 4, "a")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	addMachine("going", "a")
	g.Expect(facts().Machines).To(Equal(6), "a set that is being deleted makes none")
	addMachine("gone", "a")
	g.Expect(facts().Machines).To(Equal(7), "its set is gone")
	addSet("another's", 9, "b")
	addMachine("another's", "b")
	g.Expect(facts().Machines).To(Equal(7), "no peer")
	g.Expect(facts("going", "another's").Unseen).To(BeFalse())
	g.Expect(facts("has more").Unseen).To(BeTrue())
}
