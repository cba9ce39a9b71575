package machinedeployment

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// reads counts what a live reader was asked and what it returned.
type reads struct{ requests, sets, machines atomic.Int32 }

func (r *reads) count(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			r.requests.Add(1)
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			r.requests.Add(1)
			switch list := list.(type) {
			case *v1alpha1.MachineSetList:
				r.sets.Add(int32(len(list.Items)))
			case *v1alpha1.MachineList:
				r.machines.Add(int32(len(list.Items)))
			}
			return err
		},
	})
}

// Claim: A step of a MachineDeployment reads only what is its own. Broken: each step lists all sets and Machines of the namespace.
func TestAStepReadsOnlyWhatIsItsOwn(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	labels := map[string]string{"app": "other"}
	for i := range 12 {
		f.ExpectApplied(&v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: fmt.Sprint("other-", i)},
			Spec: v1alpha1.MachineSetSpec{
				ClusterName: f.cluster.Name, Replicas: new(int32(0)), Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
			},
		})
		f.ExpectApplied(&v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: fmt.Sprint("other-", i), Labels: labels},
			Spec:       v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: testenv.Template(labels).Spec},
		})
	}
	f.upgrade("v1.36.3")
	seen := &reads{}
	logic, err := New(Deps{Client: f.Client, Live: seen.count(f.Client), Recorder: events.NewFakeRecorder(10), Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(f.Client, f.Client, logic)
	f.ExpectReconciled(f.deployment)
	f.Expect(f.list()).To(HaveLen(14), "the step was taken")
	f.Expect([]int32{seen.requests.Load(), seen.sets.Load(), seen.machines.Load()}).To(Equal([]int32{4, 1, 2}), "requests, sets, Machines")
}

// Claim: Removed labels change nothing about a rollout's budget. Broken: what carries the name is all that a step reads.
func TestSetsAndMachinesWithoutTheNameOfTheirDeploymentCount(t *testing.T) {
	for _, replicas := range []int32{2, machines.MostRereads + 1} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			f := newEnv(t, replicas, nil)
			f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy = rollingBy("1") })
			f.rest()
			for _, machine := range f.Machines(f.cluster.Name) {
				f.takeName(&machine)
			}
			f.takeName(&f.list()[0])
			f.upgrade("v1.36.3")
			f.ExpectReconciled(f.deployment)
			f.Expect(f.replicasOf(f.list())).To(ConsistOf(replicas, int32(1)), "the surge")
		})
	}
}

// takeName takes the deployment's name off an object.
func (f *env) takeName(object client.Object) {
	f.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null,%q:null}}}`, v1alpha1.MachineDeploymentNameLabel, v1alpha1.AutoscalerDeploymentNameLabel)
	f.Expect(client.IgnoreNotFound(f.Client.Patch(f.T.Context(), object, client.RawPatch(client.Merge.Type(), []byte(patch))))).To(Succeed())
}
