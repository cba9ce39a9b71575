package machinedeployment

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestFrozenDeploymentDoesNothingButReport(t *testing.T) {
	tests := map[string]struct {
		freeze func(*fixture)
		reason string
	}{
		"by annotation": {func(f *fixture) {
			f.update(func(deployment *v1alpha1.MachineDeployment) {
				deployment.Annotations = maps.Clone(deployment.Annotations)
				deployment.Annotations[v1alpha1.FreezeAnnotation] = "an experiment"
			})
		}, v1alpha1.ReasonManualFreeze},
		"because the agent is silent": {func(f *fixture) {
			hubtest.SetCondition(f.t, f.direct, f.cluster, &f.cluster.Status.Conditions, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		}, v1alpha1.ReasonAgentSilent},
		"because the cluster is gone": {func(f *fixture) {
			f.Expect(f.direct.Delete(f.t.Context(), f.cluster)).To(Succeed())
		}, v1alpha1.ReasonClusterNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 2, nil)
			f.settle(func() {})
			test.freeze(f)
			f.update(func(deployment *v1alpha1.MachineDeployment) {
				deployment.Spec.Replicas = new(int32(7))
				deployment.Spec.RevisionHistoryLimit = new(int32(0))
				deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
			})
			f.reconcile()
			f.Expect(f.writes.Counts()).To(Equal(map[string]int{"patch MachineDeployment": 1, "patch MachineDeployment/status": 1}))
			f.Expect(f.refresh().Labels).To(HaveKeyWithValue(v1alpha1.FrozenLabel, test.reason))
			frozen := f.condition(v1alpha1.FrozenCondition)
			f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
			f.Expect(frozen.Reason).To(Equal(test.reason))
			f.Expect(f.deployment.Status.ObservedGeneration).To(Equal(f.deployment.Generation))
			f.Expect(f.deployment.Status.AvailableReplicas).To(BeEquivalentTo(2), "what was known last is kept")
		})
	}
}

func TestNothingBecomesAvailableWhileTheClusterIsFrozen(t *testing.T) {
	f := newFixture(t, 2, nil)
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.MinReadySeconds = 300 })
	f.reconcile()
	f.reconcileSets()
	for _, machine := range f.machines() {
		hubtest.MarkReady(t, f.direct, &machine, true, f.clock.Now())
	}
	frozen := func(status metav1.ConditionStatus, reason string) {
		hubtest.SetCondition(t, f.direct, f.cluster, &f.cluster.Status.Conditions, v1alpha1.FrozenCondition, status, reason)
		f.reconcile()
	}
	frozen(metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
	f.clock.SetTime(f.clock.Now().Add(2 * time.Hour))
	result, err := f.runner.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(BeZero(), "there is nothing to wake for before the thaw")
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(2))
	f.Expect(f.deployment.Status.AvailableReplicas).To(BeZero())
	frozen(metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
	f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(2))
}

// agree tells whether label and condition say the same.
func (f *fixture) agree() bool {
	f.t.Helper()
	frozen := f.condition(v1alpha1.FrozenCondition)
	reason, labeled := f.deployment.Labels[v1alpha1.FrozenLabel]
	if frozen == nil || frozen.Status == metav1.ConditionFalse {
		return !labeled
	}
	return reason == frozen.Reason
}

// another is another process that works on the same deployment; broken is what becomes of its writes.
func (f *fixture) another(broken interceptor.Funcs) reconcile.Reconciler {
	f.t.Helper()
	through := interceptor.NewClient(f.writes.Count(f.direct), broken)
	logic, err := New(Deps{Client: through, Live: f.direct, Recorder: f.events, Agents: f.agents, Clock: f.clock})
	f.Expect(err).NotTo(HaveOccurred())
	return reconciler.New(through, through, logic)
}

// Killed between its two writes, the hub leaves label and condition at odds; the next one mends that at its first look.
func TestLabelAndConditionAgreeAfterTheNextLook(t *testing.T) {
	killed := errors.New("killed")
	tests := map[string]interceptor.Funcs{
		"killed before the label": {Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return killed
		}},
		"killed before the condition": {SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return killed
		}},
	}
	for name, kill := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1, nil)
			f.settle(func() {})
			for _, order := range []func(map[string]string){
				func(annotations map[string]string) { annotations[v1alpha1.FreezeAnnotation] = "x" },
				func(annotations map[string]string) { delete(annotations, v1alpha1.FreezeAnnotation) },
			} {
				f.update(func(deployment *v1alpha1.MachineDeployment) { order(deployment.Annotations) })
				_, err := f.another(kill).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)})
				f.Expect(err).To(MatchError(killed))
				f.Expect(f.agree()).To(BeFalse(), "one of the two was written")
				f.reconcile()
				f.Expect(f.agree()).To(BeTrue())
				f.writes.Counts()
				f.reconcile()
				f.Expect(f.writes.Counts()).To(BeEmpty())
			}
		})
	}
}

// One that does not scale its sets down any more would never thaw: a lower number is no overshoot under any strategy.
func TestAScaleDownIsNoOvershoot(t *testing.T) {
	f := newFixture(t, 9, nil)
	f.settle(func() {})
	f.upgrade("v1.37.0")
	f.reconcile()
	f.reconcileSets()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(1)) })
	f.settle(func() {
		if frozen := f.condition(v1alpha1.FrozenCondition); frozen != nil {
			f.Expect(frozen.Status).To(Equal(metav1.ConditionFalse), frozen.Message)
		}
	})
	f.Expect(f.machines()).To(HaveLen(1))
}

func TestAFreezeOfASetHoldsItsDeploymentToo(t *testing.T) {
	strategies := []v1alpha1.MachineDeploymentStrategyType{v1alpha1.RollingUpdate, v1alpha1.Recreate, v1alpha1.OnDelete, v1alpha1.InPlace}
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			f := newFixture(t, 2, nil)
			f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy.Type = strategy })
			f.settle(func() {})
			set, machines := f.list()[0], f.machines()
			before := set.DeepCopy()
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.FreezeAnnotation, "an experiment")
			f.Expect(f.direct.Patch(t.Context(), &set, client.MergeFrom(before))).To(Succeed())
			f.upgrade("v1.37.0")
			for range 3 {
				f.clock.SetTime(f.clock.Now().Add(time.Minute))
				f.reconcile()
				f.reconcileSets()
			}
			f.Expect(f.condition(v1alpha1.FrozenCondition)).To(And(
				HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonManualFreeze),
				HaveField("Message", ContainSubstring("MachineSet "+set.Name+" is frozen"))))
			f.Expect(f.list()).To(HaveLen(1), "nothing rolls")
			f.Expect(f.machines()).To(HaveLen(len(machines)))
			f.Expect(f.machines()).To(HaveEach(And(HaveField("DeletionTimestamp", BeNil()), HaveField("OwnerReferences", Equal(machines[0].OwnerReferences)))))

			f.Expect(f.direct.Get(t.Context(), client.ObjectKeyFromObject(&set), &set)).To(Succeed())
			before = set.DeepCopy()
			delete(set.Annotations, v1alpha1.FreezeAnnotation)
			f.Expect(f.direct.Patch(t.Context(), &set, client.MergeFrom(before))).To(Succeed())
			f.reconcile()
			f.Expect(f.condition(v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
		})
	}
}

func TestASurplusOfASetFreezesItsDeploymentToo(t *testing.T) {
	strategies := []v1alpha1.MachineDeploymentStrategyType{v1alpha1.RollingUpdate, v1alpha1.Recreate, v1alpha1.OnDelete, v1alpha1.InPlace}
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			f := newFixture(t, 2, nil)
			f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy.Type = strategy })
			f.settle(func() {})
			high := 4
			if strategy == v1alpha1.RollingUpdate {
				high++ // Its surge.
			}
			set := f.list()[0]
			for range high - 2 {
				hubtest.Create(t, f.direct, &v1alpha1.Machine{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: set.Namespace, GenerateName: "intruder-", Labels: set.Spec.Template.Metadata.Labels,
						OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
					},
					Spec: v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: set.Spec.Template.Spec},
				})
			}
			f.reconcileSets()
			f.reconcile()
			f.upgrade("v1.37.0")
			for range 3 {
				f.clock.SetTime(f.clock.Now().Add(time.Minute))
				f.reconcile()
				f.reconcileSets()
			}
			f.Expect(f.condition(v1alpha1.FrozenCondition).Reason).To(Equal(v1alpha1.ReasonOvershoot))
			f.Expect(f.condition(v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionTrue))
			f.Expect(f.agree()).To(BeTrue())
			f.Expect(f.list()).To(HaveLen(1), "nothing rolls")
			f.Expect(f.machines()).To(HaveLen(high))
			f.Expect(f.machines()).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))

			for _, machine := range f.machines()[2:] {
				f.Expect(f.direct.Delete(t.Context(), &machine)).To(Succeed())
			}
			f.settle(func() {})
			f.Expect(f.condition(v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
			f.Expect(f.list()).To(HaveEach(HaveField("Labels", Not(HaveKey(v1alpha1.FrozenLabel)))))
			f.Expect(f.list()).To(HaveLen(2), "the rollout goes on")
		})
	}
}
