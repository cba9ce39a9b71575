package machinedeployment

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestFrozenDeploymentDoesNothingButReport(t *testing.T) {
	tests := map[string]struct {
		freeze func(*env)
		reason string
	}{
		"by annotation": {func(f *env) {
			f.update(func(deployment *v1alpha1.MachineDeployment) {
				deployment.Annotations = maps.Clone(deployment.Annotations)
				deployment.Annotations[v1alpha1.FreezeAnnotation] = "an experiment"
			})
		}, v1alpha1.ReasonManualFreeze},
		"because the agent is silent": {func(f *env) {
			f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		}, v1alpha1.ReasonAgentSilent},
		"because the cluster is gone": {func(f *env) {
			f.ExpectDeleted(f.cluster)
		}, v1alpha1.ReasonClusterNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.reason != v1alpha1.ReasonAgentSilent {
				testenv.Long(t)
			}
			f := newEnv(t, 2, nil)
			f.rest()
			test.freeze(f)
			f.update(func(deployment *v1alpha1.MachineDeployment) {
				deployment.Spec.Replicas = new(int32(7))
				deployment.Spec.RevisionHistoryLimit = new(int32(0))
				deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
			})
			f.ExpectReconciled(f.deployment)
			f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"patch MachineDeployment": 1, "patch MachineDeployment/status": 1}))
			f.Expect(f.refresh().Labels).To(HaveKeyWithValue(v1alpha1.FrozenLabel, test.reason))
			frozen := f.ReadCondition(f.deployment, v1alpha1.FrozenCondition)
			f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
			f.Expect(frozen.Reason).To(Equal(test.reason))
			f.Expect(f.deployment.Status.ObservedGeneration).To(Equal(f.deployment.Generation))
			f.Expect(f.deployment.Status.AvailableReplicas).To(BeEquivalentTo(2), "what was known last is kept")
		})
	}
}

// restartSets replaces the MachineSet controller by that of another process.
func (f *env) restartSets() {
	f.T.Helper()
	sets, err := machineset.New(machineset.Deps{
		Client: f.Client, Live: f.Client, Recorder: events.NewFakeRecorder(1000), Agents: f.agents, Clock: f.Clock,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.sets = reconciler.New(f.Client, f.Client, sets)
}

// A rollout waits for the soak of its new Machine. A freeze of two hours amid that is no part of it: after the thaw the
// Machine serves the rest, and only then do old ones go.
func TestNothingBecomesAvailableWhileTheClusterIsFrozen(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	f.Clock.SetTime(f.Clock.Now().Truncate(time.Second).Add(5 * time.Minute))
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.MinReadySeconds = 300
		deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	})
	f.ExpectReconciled(f.deployment)
	f.reconcileSets()
	for _, machine := range f.Machines(f.cluster.Name) {
		if !meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
			f.MarkReady(&machine, true, f.Clock.Now())
		}
	}
	// listRelated lets both controllers work, and returns when the deployment wants to be asked again at the latest.
	look := func(going int) time.Duration {
		t.Helper()
		var next time.Duration
		for range 3 {
			result, err := f.Runner.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)})
			f.Expect(err).NotTo(HaveOccurred())
			next = result.RequeueAfter
			f.reconcileSets()
		}
		for _, machine := range f.Machines(f.cluster.Name) {
			if machine.DeletionTimestamp != nil {
				going--
			}
		}
		f.Expect(going).To(BeZero(), "machines that go are more or fewer by so many")
		return next
	}
	agree := func() {
		t.Helper()
		sum := int32(0)
		for _, set := range f.list() {
			sum += set.Status.AvailableReplicas
		}
		f.Expect(sum).To(BeEquivalentTo(2))
		f.Expect(f.refresh().Status.AvailableReplicas).To(Equal(sum), "the sets and their deployment count by the same clock")
	}
	f.Clock.Step(100 * time.Second)
	look(0)
	freeze.RecordOnCluster(f.cluster, freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonAgentSilent}, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	look(0)
	f.Clock.Step(2 * time.Hour)
	f.Expect(look(0)).To(BeZero(), "there is nothing to wake for before the freeze ended")
	agree()
	freeze.RecordOnCluster(f.cluster, freeze.Verdict{}, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	look(0)
	agree()
	f.restart()
	f.restartSets()
	f.Expect(look(0)).To(BeNumerically("<=", 200*time.Second))
	f.Clock.Step(199 * time.Second)
	f.Expect(look(0)).To(BeNumerically("<=", time.Second))
	f.Clock.Step(time.Second)
	look(1)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Status).To(Equal(metav1.ConditionTrue), "the deadline has stood too")
}

// What was decided by the clock of the Machines is carried out by it: by the time of day, the one that was picked because
// it is not available would be by now.
func TestAMachineThatServesTheRestOfItsTimeIsMovedFirst(t *testing.T) {
	f := inPlace(t, 2, func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.MinReadySeconds = 300 })
	f.Clock.SetTime(f.Clock.Now().Truncate(time.Second).Add(5 * time.Minute))
	late := f.Machines(f.cluster.Name)[1]
	f.MarkReady(&late, true, f.Clock.Now())
	freeze.RecordOnCluster(f.cluster, freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonAgentSilent}, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	f.Clock.Step(2 * time.Hour)
	freeze.RecordOnCluster(f.cluster, freeze.Verdict{}, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	f.upgrade("v1.37.0")
	for range 3 {
		f.ExpectReconciled(f.deployment)
		f.reconcileSets()
	}
	for _, machine := range f.Machines(f.cluster.Name) {
		_, moved := machine.Annotations[v1alpha1.InPlaceUpdateAnnotation]
		f.Expect(moved).To(Equal(machine.Name == late.Name), "%s", machine.Name)
	}
}

// agree reports whether label and condition say the same.
func (f *env) agree() bool {
	f.T.Helper()
	frozen := f.ReadCondition(f.deployment, v1alpha1.FrozenCondition)
	reason, labeled := f.deployment.Labels[v1alpha1.FrozenLabel]
	if frozen == nil || frozen.Status == metav1.ConditionFalse {
		return !labeled
	}
	return reason == frozen.Reason
}

// another is another process that works on the same deployment; broken is what happens to its writes.
func (f *env) another(broken interceptor.Funcs) reconcile.Reconciler {
	f.T.Helper()
	through := interceptor.NewClient(f.Writes.Count(f.Client), broken)
	logic, err := New(Deps{Client: through, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
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
			f := newEnv(t, 1, nil)
			f.rest()
			for _, order := range []func(map[string]string){
				func(annotations map[string]string) { annotations[v1alpha1.FreezeAnnotation] = "x" },
				func(annotations map[string]string) { delete(annotations, v1alpha1.FreezeAnnotation) },
			} {
				f.update(func(deployment *v1alpha1.MachineDeployment) { order(deployment.Annotations) })
				_, err := f.another(kill).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)})
				f.Expect(err).To(MatchError(killed))
				f.Expect(f.agree()).To(BeFalse(), "one of the two was written")
				f.ExpectReconciled(f.deployment)
				f.Expect(f.agree()).To(BeTrue())
				f.Writes.Counts()
				f.ExpectReconciled(f.deployment)
				f.Expect(f.Writes.Counts()).To(BeEmpty())
			}
		})
	}
}

// One that does not scale its sets down any more would never thaw: a lower number is no overshoot under any strategy.
func TestAScaleDownIsNoOvershoot(t *testing.T) {
	f := newEnv(t, 9, nil)
	f.rest()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.deployment)
	f.reconcileSets()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(1)) })
	f.settle(func() {
		if frozen := f.ReadCondition(f.deployment, v1alpha1.FrozenCondition); frozen != nil {
			f.Expect(frozen.Status).To(Equal(metav1.ConditionFalse), frozen.Message)
		}
	})
	f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(1))
}

func TestAFreezeOfASetHoldsItsDeploymentToo(t *testing.T) {
	strategies := []v1alpha1.MachineDeploymentStrategyType{v1alpha1.RollingUpdate, v1alpha1.Recreate, v1alpha1.OnDelete, v1alpha1.InPlace}
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			if strategy != v1alpha1.RollingUpdate {
				testenv.Long(t)
			}
			f := newEnv(t, 2, nil)
			f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy.Type = strategy })
			f.rest()
			set, machines := f.list()[0], f.Machines(f.cluster.Name)
			before := set.DeepCopy()
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.FreezeAnnotation, "an experiment")
			f.Expect(f.Client.Patch(t.Context(), &set, client.MergeFrom(before))).To(Succeed())
			f.upgrade("v1.37.0")
			for range 3 {
				f.Clock.Step(time.Minute)
				f.ExpectReconciled(f.deployment)
				f.reconcileSets()
			}
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.FrozenCondition)).To(And(
				HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonManualFreeze),
				HaveField("Message", ContainSubstring("MachineSet "+set.Name+" is frozen"))))
			f.Expect(f.list()).To(HaveLen(1), "nothing rolls")
			f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(len(machines)))
			f.Expect(f.Machines(f.cluster.Name)).To(HaveEach(And(HaveField("DeletionTimestamp", BeNil()), HaveField("OwnerReferences", Equal(machines[0].OwnerReferences)))))

			f.ExpectExists(&set)
			before = set.DeepCopy()
			delete(set.Annotations, v1alpha1.FreezeAnnotation)
			f.Expect(f.Client.Patch(t.Context(), &set, client.MergeFrom(before))).To(Succeed())
			f.ExpectReconciled(f.deployment)
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
		})
	}
}

func TestASurplusOfASetFreezesItsDeploymentToo(t *testing.T) {
	strategies := []v1alpha1.MachineDeploymentStrategyType{v1alpha1.RollingUpdate, v1alpha1.Recreate, v1alpha1.OnDelete, v1alpha1.InPlace}
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			if strategy != v1alpha1.RollingUpdate {
				testenv.Long(t)
			}
			f := newEnv(t, 2, nil)
			f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy.Type = strategy })
			f.rest()
			high := 4
			if strategy == v1alpha1.RollingUpdate {
				high++ // Its surge.
			}
			set := f.list()[0]
			for range high - 2 {
				f.ExpectApplied(&v1alpha1.Machine{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: set.Namespace, GenerateName: "intruder-", Labels: set.Spec.Template.Metadata.Labels,
						OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
					},
					Spec: v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: set.Spec.Template.Spec},
				})
			}
			f.reconcileSets()
			f.ExpectReconciled(f.deployment)
			f.upgrade("v1.37.0")
			for range 3 {
				f.Clock.Step(time.Minute)
				f.ExpectReconciled(f.deployment)
				f.reconcileSets()
			}
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.FrozenCondition).Reason).To(Equal(v1alpha1.ReasonOvershoot))
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionTrue))
			f.Expect(f.agree()).To(BeTrue())
			f.Expect(f.list()).To(HaveLen(1), "nothing rolls")
			f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(high))
			f.Expect(f.Machines(f.cluster.Name)).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))

			for _, machine := range f.Machines(f.cluster.Name)[2:] {
				f.ExpectDeleted(&machine)
			}
			f.rest()
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
			f.Expect(f.list()).To(HaveEach(HaveField("Labels", Not(HaveKey(v1alpha1.FrozenLabel)))))
			f.Expect(f.list()).To(HaveLen(2), "the rollout continues")
		})
	}
}

// A rollout's counts are written every ten seconds or less often: a user who ends one freeze of two must not wait that
// long.
func TestAFrozenDeploymentSoonTellsWhatStillFreezesIt(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.deployment)
	f.reconcileSets()
	f.ExpectReconciled(f.deployment) // It is not at rest: that would be written at once.
	before := f.cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&f.cluster.ObjectMeta, v1alpha1.FreezeAnnotation, "a holiday")
	f.Expect(f.Client.Patch(t.Context(), f.cluster, client.MergeFrom(before))).To(Succeed())
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, v1alpha1.FreezeAnnotation, "an experiment")
	})
	f.ExpectReconciled(f.deployment)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.FrozenCondition).Message).To(ContainSubstring("an experiment"))

	f.update(func(deployment *v1alpha1.MachineDeployment) {
		delete(deployment.Annotations, v1alpha1.FreezeAnnotation)
	})
	f.Clock.Step(reconciler.StatusInterval)
	f.ExpectReconciled(f.deployment)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.FrozenCondition).Message).To(ContainSubstring("a holiday"))
}
