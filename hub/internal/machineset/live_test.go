package machineset

import (
	"context"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// live makes f's controller read Machines live through before, which runs ahead of each such read.
func (f *env) live(before func(), snapshots *Snapshots) {
	f.T.Helper()
	live := interceptor.NewClient(f.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, machines := list.(*v1alpha1.MachineList); machines {
				before()
			}
			return c.List(ctx, list, options...)
		},
	})
	cached := interceptor.NewClient(f.Writes.Count(f.Client), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if _, set := object.(*v1alpha1.MachineSet); set && f.old != "" {
				object.SetResourceVersion(f.old)
				f.old = ""
			}
			return err
		},
	})
	logic, err := New(Deps{Client: cached, Live: live, Recorder: f.Recorder, Agents: f.agents, Snapshots: snapshots, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(cached, cached, logic)
}

// A deployment that starts to move Machines out of a set while the set reads them must not have them made once more.
// Claim: A set that changes during a read is left alone. Broken: its resource version is not compared.
func TestASetThatChangesWhileItsMachinesAreReadIsLeftAlone(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.set)
	f.scale(3)
	times := 0
	f.live(func() {
		times++
		f.update(func(set *v1alpha1.MachineSet) {
			set.Annotations = map[string]string{v1alpha1.TransferAnnotation: strconv.Itoa(times)}
		})
	}, nil)
	f.ExpectReconciled(f.set)
	f.Expect(times).To(Equal(2), "it reads once more what has changed")
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2), "and then waits for its event")
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))
}

// A write that changes nothing of what the set is to do does not cost it a turn: nothing may wake it again.
func TestAStatusWrittenMeanwhileCostsNoTurn(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.set)
	f.scale(3)
	times := 0
	f.live(func() {
		if times++; times == 1 {
			f.refresh().Status.ReadyReplicas++
			f.ExpectStatusApplied(f.set)
		}
	}, nil)
	_, _ = f.Reconcile(f.set) // Its own status conflicts with that one.
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(3))
}

// A step of a rollout costs one read of the Machines, that of the deployment. A set believes it only where it says the
// same as the cache, and only once.
// Claim: A rollout step reads Machines once; sets use that read only if safe. Broken: it is used whatever the cache says; a set's own writes are not noted; its age is not looked at. Also: TestAReadIsUsedOnlyIfItBeganAfterTheLastWrite.
func TestASetUsesWhatItsDeploymentHasJustRead(t *testing.T) {
	for name, test := range map[string]struct {
		// meanwhile happens between the deployment's read and the set's turn.
		meanwhile func(f *env, snapshots *Snapshots)
		reads     int
	}{
		"it agrees with the cache": {func(*env, *Snapshots) {}, 0},
		"a Machine has gone": {func(f *env, _ *Snapshots) {
			machine := f.Machines(f.set.Namespace)[0]
			machine.Finalizers = nil
			f.ExpectApplied(&machine)
			f.ExpectDeleted(&machine)
		}, 1},
		"another one is to go first": {func(f *env, _ *Snapshots) {
			machine := f.Machines(f.set.Namespace)[1]
			machine.Annotations = map[string]string{v1alpha1.DeleteMachineAnnotation: "true"}
			f.ExpectApplied(&machine)
			f.scale(1)
		}, 1},
		"the set has changed": {func(f *env, _ *Snapshots) {
			f.old = f.set.ResourceVersion
			f.update(func(set *v1alpha1.MachineSet) { set.Annotations = map[string]string{"note": "new"} })
		}, 2},
		"it is too old": {func(f *env, _ *Snapshots) { f.pass(MaxAge + 1) }, 1},
		"it is taken back": {func(f *env, snapshots *Snapshots) {
			snapshots.Drop(metav1.GetControllerOf(f.set).UID)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f, snapshots, reads := newEnv(t, 2, nil), NewSnapshots(), 0
			worked, none := NewSets(f.Clock), error(nil)
			f.ofDeployment(worked, &none)
			f.live(func() { reads++ }, snapshots)
			f.ExpectReconciled(f.set)
			f.ExpectReconciled(f.set) // It has seen both by now.
			f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))
			reads = 0
			f.scale(3)
			f.offer(snapshots)
			test.meanwhile(f, snapshots)
			want := int(*f.set.Spec.Replicas)
			f.ExpectReconciled(f.set)
			f.Expect(reads).To(Equal(test.reads))
			f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(want))

			f.scale(5)
			f.ExpectReconciled(f.set)
			f.Expect(reads).To(Equal(test.reads+1), "the deployment's read is older than the set's last write")
		})
	}
}

// offer does what the set's deployment does when it has read the Machines.
func (f *env) offer(snapshots *Snapshots) {
	f.T.Helper()
	var machines []*v1alpha1.Machine
	for _, machine := range f.Machines(f.set.Namespace) {
		machines = append(machines, &machine)
	}
	snapshots.Put(metav1.GetControllerOf(f.set).UID, snapshots.Now(), f.Clock.Now(), machines)
}
