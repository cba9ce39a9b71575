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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Claim: Frozen sets do nothing. Broken: freeze ignored.
func TestFrozenSetDoesNothingButReport(t *testing.T) {
	tests := map[string]struct {
		freeze func(*env)
		reason string
	}{
		"by annotation of the set": {func(f *env) {
			f.update(func(set *v1alpha1.MachineSet) {
				set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "an experiment"}
			})
		}, v1alpha1.ReasonManualFreeze},
		"by annotation of the cluster": {func(f *env) {
			f.cluster.Annotations = map[string]string{v1alpha1.FreezeAnnotation: ""}
			f.ExpectApplied(f.cluster)
		}, v1alpha1.ReasonManualFreeze},
		"because the agent is silent": {func(f *env) {
			f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		}, v1alpha1.ReasonAgentSilent},
		"because it is not known": {func(f *env) {
			f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionUnknown, v1alpha1.ReasonUnknown)
		}, v1alpha1.ReasonUnknown},
		"because the cluster is denied": {func(f *env) {
			f.cluster.Spec.Acceptance = v1alpha1.AcceptanceDenied
			f.ExpectApplied(f.cluster)
		}, v1alpha1.ReasonDenied},
		"because the cluster is gone": {func(f *env) {
			f.ExpectDeleted(f.cluster)
		}, v1alpha1.ReasonClusterNotFound},
		"because the namespace is not the cluster's": {func(f *env) {
			f.ExpectDeleted(f.set)
			f.set = f.set.DeepCopy()
			f.set.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "workers-" + f.cluster.Name}
			f.ExpectApplied(f.set)
		}, v1alpha1.ReasonNamespaceConflict},
		"by annotation of its deployment": {func(f *env) {
			f.own(map[string]string{v1alpha1.FreezeAnnotation: "wait"}, nil)
		}, v1alpha1.ReasonManualFreeze},
		"by condition of its deployment": {func(f *env) {
			f.own(nil, []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOvershoot, LastTransitionTime: metav1.Now()}})
		}, v1alpha1.ReasonDeploymentOvershoot},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 2, nil)
			f.ExpectReconciled(f.set)
			test.freeze(f)
			writes := map[string]int{"patch MachineSet": 1, "patch MachineSet/status": 1}
			for _, replicas := range []int32{5, 0} {
				f.scale(replicas)
				f.Writes.Counts()
				f.ExpectReconciled(f.set)
				f.Expect(f.Writes.Counts()).To(Equal(writes))
				delete(writes, "patch MachineSet") // The label is there.
				f.refresh()
				f.Expect(f.set.Labels).To(HaveKeyWithValue(v1alpha1.FrozenLabel, test.reason))
				frozen := f.ReadCondition(f.set, v1alpha1.FrozenCondition)
				f.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
				f.Expect(frozen.Reason).To(Equal(test.reason))
				f.Expect(frozen.Message).NotTo(BeEmpty())
				f.Expect(f.set.Status.ObservedGeneration).To(Equal(f.set.Generation))
			}
		})
	}
}

// own gives the set a deployment.
func (f *env) own(annotations map[string]string, conditions []metav1.Condition) {
	f.T.Helper()
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "pool", Annotations: annotations},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: f.cluster.Name, Selector: f.set.Spec.Selector, Template: f.set.Spec.Template,
			Replicas: new(int32(1000)), // No test has its sets make more.
		},
	}
	f.ExpectApplied(deployment)
	deployment.Status.Conditions = conditions
	f.ExpectStatusApplied(deployment)
	f.update(func(set *v1alpha1.MachineSet) {
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))}
	})
}

func TestThawedSetGoesOn(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "x"} })
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(BeEmpty())
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = nil })
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))
	f.Expect(f.refresh().Labels).NotTo(HaveKey(v1alpha1.FrozenLabel))
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
}

// What the cache says of the cluster or the set may be old when it comes to acting.
func TestActsOnNothingThatIsFrozenOrChangedSince(t *testing.T) {
	tests := map[string]func(*env){
		"frozen since": func(f *env) {
			f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		},
		"scaled since":  func(f *env) { f.scale(1) },
		"deleted since": func(f *env) { f.ExpectDeleted(f.set) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			var oldCluster *v1alpha1.Cluster
			var oldSet *v1alpha1.MachineSet
			stale := &interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				switch into := object.(type) {
				case *v1alpha1.Cluster:
					oldCluster.DeepCopyInto(into)
					return nil
				case *v1alpha1.MachineSet:
					oldSet.DeepCopyInto(into)
					return nil
				}
				return c.Get(ctx, key, object, options...)
			}}
			f := newEnv(t, 3, stale)
			oldCluster, oldSet = f.cluster.DeepCopy(), f.set.DeepCopy()
			change(f)
			_, err := f.Reconcile(f.set)
			f.Expect(err).NotTo(HaveOccurred(), "a stale read is no error")
			f.Expect(f.Machines(f.set.Namespace)).To(BeEmpty())
		})
	}
}

func TestAHubThatHasNotHeardTheAgentDoesNothingAndWritesNoFreeze(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectConditionApplied(f.cluster, v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(BeEmpty())
	f.Expect(f.refresh().Status.ObservedGeneration).To(Equal(f.set.Generation))
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition)).To(BeNil(), "a freeze of seconds is not worth a write")

	f.agents.Hear(f.cluster.Name)
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))

	f.agents.Forget(f.cluster.Name)
	f.scale(0)
	f.ExpectReconciled(f.set)
	for _, machine := range f.Machines(f.set.Namespace) {
		f.Expect(machine.DeletionTimestamp).To(BeNil(), machine.Name)
	}
}

// agree reports whether label and condition say the same.
func (f *env) agree() bool {
	f.T.Helper()
	frozen := f.ReadCondition(f.set, v1alpha1.FrozenCondition)
	reason, labeled := f.set.Labels[v1alpha1.FrozenLabel]
	if frozen == nil || frozen.Status == metav1.ConditionFalse {
		return !labeled
	}
	return reason == frozen.Reason
}

// Killed between its two writes, the hub leaves label and condition at odds; the next one mends that at its first look,
// in both directions, and whichever of them is missing.
func labelAndConditionAgreeAfterTheNextLook(t *testing.T) {
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
			f := newEnv(t, 2, nil)
			f.ExpectReconciled(f.set)
			for _, order := range []func(map[string]string){
				func(annotations map[string]string) { annotations[v1alpha1.FreezeAnnotation] = "x" },
				func(annotations map[string]string) { delete(annotations, v1alpha1.FreezeAnnotation) },
			} {
				f.update(func(set *v1alpha1.MachineSet) {
					if set.Annotations == nil {
						set.Annotations = map[string]string{}
					}
					order(set.Annotations)
				})
				next := f.Runner
				f.Runner = f.another(&kill)
				_, err := f.Reconcile(f.set)
				f.Expect(err).To(MatchError(killed))
				f.Expect(f.agree()).To(BeFalse(), "one of the two was written")
				f.Runner = next
				f.ExpectReconciled(f.set)
				f.Expect(f.agree()).To(BeTrue())
				f.Writes.Counts()
				f.ExpectReconciled(f.set)
				f.Expect(f.Writes.Counts()).To(BeEmpty())
			}
			f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))
		})
	}
}

// another is another process that works on the same set; broken, if given, is what happens to its writes.
func (f *env) another(broken *interceptor.Funcs) reconcile.Reconciler {
	f.T.Helper()
	through := f.Writes.Count(f.Client)
	if broken != nil {
		through = interceptor.NewClient(through, *broken)
	}
	logic, err := New(Deps{Client: through, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	return reconciler.New(through, through, logic)
}

func TestNobodyElseDecidesByTheLabel(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.update(func(set *v1alpha1.MachineSet) {
		set.Labels = map[string]string{v1alpha1.FrozenLabel: v1alpha1.ReasonManualFreeze, "mine": "stays"}
	})
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))
	f.Expect(f.refresh().Labels).To(Equal(map[string]string{"mine": "stays"}))
	f.silence()
	f.ExpectReconciled(f.set)
	f.update(func(set *v1alpha1.MachineSet) { delete(set.Labels, v1alpha1.FrozenLabel) })
	f.ExpectReconciled(f.set)
	f.Expect(f.refresh().Labels).To(HaveKeyWithValue(v1alpha1.FrozenLabel, v1alpha1.ReasonAgentSilent))
}

func TestAFreezeKeepsItsBeginningAndSaysWhoOrderedIt(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.set)
	f.pass(time.Minute)
	began := metav1.NewTime(f.Clock.Now().Truncate(time.Second))
	f.update(func(set *v1alpha1.MachineSet) {
		set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "looking into it", v1alpha1.FreezeUserAnnotation: "jane"}
	})
	for range 3 {
		f.ExpectReconciled(f.set)
		frozen := f.ReadCondition(f.set, v1alpha1.FrozenCondition)
		f.Expect(frozen.LastTransitionTime.Equal(&began)).To(BeTrue(), "%s", frozen.LastTransitionTime)
		f.Expect(frozen.Message).To(And(ContainSubstring("by jane"), ContainSubstring("looking into it")))
		f.pass(time.Minute)
		f.scale(4)
	}
}

func TestAFreezeLeavesOtherClustersAlone(t *testing.T) {
	frozen, other := newEnv(t, 2, nil), newEnv(t, 2, nil)
	frozen.silence()
	for _, f := range []*env{frozen, other} {
		f.ExpectReconciled(f.set)
		f.scale(3)
		f.ExpectReconciled(f.set)
	}
	frozen.Expect(frozen.Machines(frozen.set.Namespace)).To(BeEmpty())
	other.Expect(other.Machines(other.set.Namespace)).To(HaveLen(3))
	other.Expect(other.refresh().Labels).NotTo(HaveKey(v1alpha1.FrozenLabel))
}

// The set of a deployment writes mere counts once a minute: a user who ends one freeze of two must not wait that long.
func TestAFrozenSetSoonTellsWhatStillFreezesIt(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.own(nil, nil)
	f.ExpectReconciled(f.set)
	f.cluster.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "a holiday"}
	f.ExpectApplied(f.cluster)
	f.update(func(set *v1alpha1.MachineSet) {
		set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "an experiment"}
	})
	f.ExpectReconciled(f.set)
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition).Message).To(ContainSubstring("an experiment"))

	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = nil })
	f.Writes.Counts()
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(reconciler.StatusInterval), "the last write was just now")
	f.pass(reconciler.StatusInterval)
	f.ExpectReconciled(f.set)
	f.Expect(f.ReadCondition(f.set, v1alpha1.FrozenCondition).Message).To(ContainSubstring("a holiday"))
	f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"patch MachineSet/status": 1}))
}
