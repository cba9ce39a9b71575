package machinedeployment

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// pools are deployments of one namespace. The caches of each kind show what they showed when that was last synced.
type pools struct {
	*env
	logic       *Controller
	names       []string
	deployments v1alpha1.MachineDeploymentList
	sets        v1alpha1.MachineSetList
	machines    v1alpha1.MachineList
}

// newPools makes deployments that are called names and share one surge, all rolled out and available.
func newPools(t *testing.T, replicas int32, surge string, names ...string) *pools {
	t.Helper()
	p := &pools{env: newEnv(t, replicas, nil), names: names}
	p.ExpectDeleted(p.deployment)
	for _, name := range names {
		p.create(name, replicas, surge, "zones")
	}
	p.hub(p.Client)
	p.settle(func() {})
	return p
}

func (p *pools) create(name string, replicas int32, surge, group string) {
	p.T.Helper()
	labels := map[string]string{"app": name}
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.cluster.Name, Name: name},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: p.cluster.Name, Replicas: &replicas, Strategy: rollingBy(surge),
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	}
	deployment.Spec.Strategy.RollingUpdate.SurgeGroup = group
	p.ExpectApplied(deployment)
}

// hub lets another hub work on the deployments. It reads its caches, and live.
func (p *pools) hub(live client.Reader) {
	p.T.Helper()
	cached := interceptor.NewClient(p.Writes.Count(p.Client), interceptor.Funcs{Get: p.cachedGet, List: p.cachedList})
	worked := machineset.NewSets(p.Clock)
	logic, err := New(Deps{Client: cached, Live: live, Recorder: p.Recorder, Agents: p.agents, Sets: worked, Clock: p.Clock})
	p.Expect(err).NotTo(HaveOccurred())
	p.logic, p.Runner = logic, reconciler.New(cached, cached, logic)
	sets, err := machineset.New(machineset.Deps{
		Client: p.Client, Live: p.Client, Recorder: events.NewFakeRecorder(1000), Agents: p.agents, Sets: worked, Clock: p.Clock,
	})
	p.Expect(err).NotTo(HaveOccurred())
	p.env.sets = reconciler.New(p.Client, p.Client, sets)
	p.sync(true, true, true)
}

func (p *pools) cachedGet(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	deployment, ok := object.(*v1alpha1.MachineDeployment)
	if !ok {
		return c.Get(ctx, key, object, options...)
	}
	for _, cached := range p.deployments.Items {
		if cached.Name == key.Name {
			cached.DeepCopyInto(deployment)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "machinedeployments"}, key.Name)
}

func (p *pools) cachedList(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.MachineDeploymentList:
		p.deployments.DeepCopyInto(list)
	case *v1alpha1.MachineSetList:
		p.sets.DeepCopyInto(list)
	case *v1alpha1.MachineList:
		p.machines.DeepCopyInto(list)
	default:
		return c.List(ctx, list, options...)
	}
	return nil
}

// sync lets the caches of some kinds catch up.
func (p *pools) sync(deployments, sets, machines bool) {
	p.T.Helper()
	for list, now := range map[client.ObjectList]bool{&p.deployments: deployments, &p.sets: sets, &p.machines: machines} {
		if now {
			p.Expect(p.Client.List(p.T.Context(), list, client.InNamespace(p.cluster.Name))).To(Succeed())
		}
	}
}

func (p *pools) get(name string) *v1alpha1.MachineDeployment {
	p.T.Helper()
	deployment := &v1alpha1.MachineDeployment{}
	p.Expect(p.Client.Get(p.T.Context(), client.ObjectKey{Namespace: p.cluster.Name, Name: name}, deployment)).To(Succeed())
	return deployment
}

func (p *pools) work(name string) error {
	_, err := p.Runner.Reconcile(p.T.Context(), reconciler.Request(p.cluster.Name, name))
	return err
}

// look lets time pass and a hub with fresh caches look at that deployment; it returns its condition Progressing.
func (p *pools) look(name string, wait time.Duration) *metav1.Condition {
	p.T.Helper()
	p.Clock.Step(wait)
	p.sync(true, true, true)
	p.Expect(p.work(name)).To(Succeed())
	return meta.FindStatusCondition(p.get(name).Status.Conditions, v1alpha1.ProgressingCondition)
}

// settle runs all reconcilers with fresh caches until nothing is written any more.
func (p *pools) settle(check func()) {
	p.T.Helper()
	quiet := 0
	for range 200 {
		for _, name := range p.names {
			p.look(name, gatherTime)
			check()
		}
		p.reconcileSets()
		busy := p.FinishDeletions(p.cluster.Name) > 0
		busy = p.readyOne() || busy
		check()
		if quiet++; busy || p.Writes.Total() > 0 {
			quiet = 0
		}
		if quiet == 3 { // A step may have been held back.
			return
		}
	}
	p.T.Fatal("does not come to rest")
}

// roll gives each of those deployments a new template.
func (p *pools) roll(names ...string) {
	p.T.Helper()
	for _, name := range names {
		deployment := p.get(name)
		deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
		p.ExpectApplied(deployment)
	}
}

// beyond is how many Machines the deployments have beyond the replicas of each.
func (p *pools) beyond() int {
	p.T.Helper()
	counts := map[string]int{}
	for _, machine := range p.Machines(p.cluster.Name) {
		counts[machine.Labels[v1alpha1.MachineDeploymentNameLabel]]++
	}
	sum := 0
	for _, name := range p.names {
		sum += max(counts[name]-replicasOf(p.get(name)), 0)
	}
	return sum
}

// rolled reports whether all Machines are new and available.
func (p *pools) rolled(each int) bool {
	p.T.Helper()
	machines := p.Machines(p.cluster.Name)
	for _, machine := range machines {
		if machine.Spec.Versions.Kubelet != "v1.37.0" {
			return false
		}
	}
	return len(machines) == each*len(p.names) && p.available() == len(machines)
}
