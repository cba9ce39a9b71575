package machineset

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// ofDeployment makes f's set that of a deployment which learns from worked.
func (f *env) ofDeployment(worked *Sets, refuse *error) {
	f.T.Helper()
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "pool"},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: f.cluster.Name, Selector: f.set.Spec.Selector, Template: f.set.Spec.Template,
			Replicas: new(int32(1000)), // No test has its sets make more.
		},
	}
	f.ExpectApplied(deployment)
	f.update(func(set *v1alpha1.MachineSet) {
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))}
	})
	cached := interceptor.NewClient(f.Writes.Count(f.Client), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if *refuse != nil {
				return *refuse
			}
			return c.Create(ctx, object, options...)
		},
	})
	logic, err := New(Deps{Client: cached, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Sets: worked, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(cached, cached, logic)
}

// A rollout scales a set again and again. Its deployment learns at once what was worked on; the set's status follows
// in few writes, and ends up right.
func TestAScaledSetOfADeploymentWritesItsStatusInBulk(t *testing.T) {
	f := newEnv(t, 1, nil)
	worked, none := NewSets(f.Clock), error(nil)
	f.ofDeployment(worked, &none)
	f.ExpectReconciled(f.set)
	f.Writes.Counts()
	for replicas := int32(2); replicas <= 5; replicas++ {
		f.scale(replicas)
		f.pass(time.Second)
		f.ExpectReconciled(f.set)
		f.Expect(worked.Worked(f.set.UID)).To(Equal(f.refresh().Generation), "the deployment need not wait for the status")
	}
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(5))
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch MachineSet/status"))
	f.pass(ownedPace.First)
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Counts()).To(HaveKeyWithValue("patch MachineSet/status", 1))
	f.Expect(f.refresh().Status.Replicas).To(BeEquivalentTo(5))
	f.Expect(f.set.Status.ObservedGeneration).To(Equal(f.set.Generation))
}

func TestARefusedSetOfADeploymentSaysSoAtOnce(t *testing.T) {
	f := newEnv(t, 1, nil)
	worked, refuse := NewSets(f.Clock), error(nil)
	f.ofDeployment(worked, &refuse)
	f.ExpectReconciled(f.set)
	f.scale(2)
	refuse = errors.New("no room")
	f.pass(time.Second)
	_, err := f.Reconcile(f.set)
	f.Expect(err).To(MatchError(refuse))
	f.Expect(worked.Worked(f.set.UID)).To(BeNumerically("<", f.refresh().Generation), "it has not made what it was to make")
	f.Expect(f.set.Status.ObservedGeneration).To(Equal(f.set.Generation))
	f.Expect(f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition).Status).To(Equal(metav1.ConditionTrue))
}
