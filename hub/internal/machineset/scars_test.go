package machineset

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// TestScars has the failures of other machine controllers that a MachineSet must not repeat.
// Claim: Freeze label and condition agree after a crash. Broken: the label written only when the condition turns. Also: "label and condition disagree"; hub/internal/machinedeployment TestLabelAndConditionAgreeAfterTheNextLook.
// Claim: Far too many Machines freeze a set and its deployment. Broken: thaws below the high mark already; it is not recorded which Machines came. Also: hub TestHubFreezesASurplusAndThawsByItself.
func TestScars(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		// Edge case: MCM safety controller: overshoot freezes at high, unfreezes at low. Also: hub/internal/machineset/plan TestFrozen.
		"MCM safety controller: overshoot freezes at high and thaws at low": aSurplusFreezesAndThawsByItself,
		// Edge case: MCM #81–#88, #718, #346: an error while unfreezing freezes forever.
		"MCM #81–#88, #718, #346: an error while unfreezing does not freeze forever": aThawThatFailsIsTriedUntilItSucceeds,
		// Edge case: MCM #81–#88, #718, #346: Recreate leaves later sets unprotected.
		"MCM #81–#88, #718, #346: a Recreate deployment leaves later sets unprotected": everySetIsWatchedWhateverTheStrategy,
		// Edge case: MCM #81–#88, #718, #346: a restart forgets the freeze.
		"MCM #81–#88, #718, #346: a restart forgets the freeze": aSurplusThatCameWhileNobodyLookedFreezes,
		// Edge case: MCM #81–#88, #718, #346: label and condition disagree.
		"MCM #81–#88, #718, #346: label and condition disagree":                   labelAndConditionAgreeAfterTheNextLook,
		"outscale #543: selector and labels that part make thousands of machines": machinesThatLoseTheSelectorsLabelsOnTheWayAreNotMadeOverAndOver,
		// Edge case: CAPI #3163, MCM #688, #155, #354: unlimited replacements. Also: hub/internal/machineset/plan TestRemediationStaysWithinItsBoundsAndConverges.
		"CAPI #3163, MCM #688, #155, #354: replacements in flight are limited": failedMachinesAreReplacedOneByOneWithinTheBound,
		// Edge case: CAPI #3163, MCM #688, #155, #354: unhealthy machines are not named.
		"CAPI #3163, MCM #688, #155, #354: too many unhealthy machines stop it, and are named": tooManyUnhealthyMachinesStopRemediation,
		// Edge case: CAPI #11974: a soak delay.
		"CAPI #11974: a soak delay": minReadySecondsEndsAtItsDeadline,
		// Edge case: CAPI #75: scale down chosen machines.
		"CAPI #75: a scale-down takes the machines that were marked for it": scaleDownTakesTheMachineThatTheAutoscalerMarkedLast,
		// Edge case: CAPI #14217: a ceiling on runaway creation. Also: TestACeilingBoundsWhatASetMakesInATime.
		"CAPI #14217: a ceiling on runaway creation": aSetWhoseMachinesAreTakenFromItStopsAtItsCeiling,
		// Edge case: MCM #483: back-off of refused creations. Also: TestRefusedCreationsAreTriedMoreAndMoreRarely.
		"MCM #483: back-off of refused creations": aRefusedCreationIsNotTriedAgainForEveryEvent,
	} {
		t.Run(name, test)
	}
}

func aThawThatFailsIsTriedUntilItSucceeds(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "x"} })
	f.ExpectReconciled(f.set)
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = nil })
	working, refused := f.Runner, errors.New("refused")
	f.Runner = f.another(&interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refused
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return refused
		},
	})
	// The queue is the hub's, but for its clock: it must not drop a key however often it fails.
	clock := testclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(reconciler.Retries(), workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clock})
	defer queue.ShutDown()
	queue.Add(reconciler.Request(f.set.Namespace, f.set.Name))
	for range 20 {
		request, _ := queue.Get()
		_, err := f.Runner.Reconcile(t.Context(), request)
		f.Expect(err).To(MatchError(refused), "an error is tried again, however often")
		queue.AddRateLimited(request)
		queue.Done(request)
		f.Eventually(func() int {
			clock.Step(reconciler.LastRetry)
			return queue.Len()
		}).WithTimeout(time.Minute).Should(Equal(1), "the key is dropped")
	}
	f.Runner = working
	f.ExpectReconciled(f.set)
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
	f.settle()
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(2))
}

func everySetIsWatchedWhateverTheStrategy(t *testing.T) {
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	for _, strategy := range []v1alpha1.MachineDeploymentStrategy{
		{Type: v1alpha1.Recreate}, {Type: v1alpha1.OnDelete}, {Type: v1alpha1.InPlace},
		{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: &none, MaxUnavailable: &one}},
	} {
		t.Run(string(strategy.Type), func(t *testing.T) {
			f := newEnv(t, 3, nil)
			deployment := &v1alpha1.MachineDeployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "pool"},
				Spec: v1alpha1.MachineDeploymentSpec{
					ClusterName: f.cluster.Name, Replicas: new(int32(3)), Strategy: strategy,
					Selector: f.set.Spec.Selector, Template: f.set.Spec.Template,
				},
			}
			f.ExpectApplied(deployment)
			f.update(func(set *v1alpha1.MachineSet) {
				set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))}
			})
			f.rest()
			later := f.later(deployment)
			f.intrude(3)
			f.ExpectReconciled(f.set)
			f.overshoots(true)
			later.intrude(6)
			later.ExpectReconciled(later.set)
			later.overshoots(true)
		})
	}
}

// later is another set of the deployment, which all lists have after f's, at rest.
func (f *env) later(deployment *v1alpha1.MachineDeployment) *env {
	f.T.Helper()
	other := &env{Env: f.Env, cluster: f.cluster, agents: f.agents}
	labels := map[string]string{"app": "x", v1alpha1.MachineTemplateHashLabel: "later"}
	other.set = &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.set.Namespace, Name: "zzz",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))},
		},
		Spec: v1alpha1.MachineSetSpec{
			ClusterName: f.cluster.Name, Replicas: new(int32(0)),
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	}
	f.ExpectApplied(other.set)
	other.rest()
	return other
}
