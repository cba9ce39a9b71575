package machineset

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func (f *env) pass(d time.Duration) {
	f.Clock.Step(d)
}

// connect lets the set's cluster have an agent.
func (f *env) connect() {
	f.T.Helper()
	f.ExpectConditionApplied(f.cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
}

// ready lets all Machines be ready that are not failed.
func (f *env) ready() {
	f.T.Helper()
	machines := f.Machines(f.set.Namespace)
	for i := range machines {
		if machines[i].DeletionTimestamp == nil && machines[i].Status.Phase != v1alpha1.MachineFailed {
			f.MarkReady(&machines[i], true, f.Clock.Now())
		}
	}
}

// fail does what an agent does with a Machine that ran into a timeout, or another terminal error.
func (f *env) fail(name, reason string) {
	f.T.Helper()
	f.status(name, func(status *v1alpha1.MachineStatus) {
		status.Phase, status.ErrorReason = v1alpha1.MachineFailed, reason
		status.ErrorMessage, status.FailureMessage = "said by the test", "said by the test"
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason})
	})
}

func (f *env) status(name string, change func(*v1alpha1.MachineStatus)) {
	f.T.Helper()
	machine := f.machine(name)
	before := machine.DeepCopy()
	change(&machine.Status)
	f.Expect(f.Client.Status().Patch(f.T.Context(), machine, client.MergeFrom(before))).To(Succeed())
}

func (f *env) machine(name string) *v1alpha1.Machine {
	f.T.Helper()
	machine := &v1alpha1.Machine{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: f.set.Namespace, Name: name}, machine)).To(Succeed())
	return machine
}

func (f *env) annotate(name, key, value string) {
	f.T.Helper()
	machine := f.machine(name)
	before := machine.DeepCopy()
	if machine.Annotations == nil {
		machine.Annotations = map[string]string{}
	}
	machine.Annotations[key] = value
	f.Expect(f.Client.Patch(f.T.Context(), machine, client.MergeFrom(before))).To(Succeed())
}

func TestASetInTransferIsLeftAlone(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.set)
	f.own(nil, nil)
	f.connect()
	names := active(f.Machines(f.set.Namespace))
	f.fail(names[0], v1alpha1.ErrorHealthTimeout)
	orphan := f.machine(names[1])
	orphan.OwnerReferences = nil
	f.ExpectApplied(orphan)
	f.Events()
	f.update(func(set *v1alpha1.MachineSet) {
		set.Annotations = map[string]string{v1alpha1.TransferAnnotation: "pool"}
		set.Spec.Template.Metadata.Labels["new"] = "label"
	})
	for _, replicas := range []int32{9, 0} {
		f.scale(replicas)
		f.Writes.Counts()
		f.ExpectReconciled(f.set)
		f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"patch MachineSet/status": 1}), "status continues, and nothing else")
		f.Expect(f.refresh().Status.ObservedGeneration).To(Equal(f.set.Generation))
	}
	f.Expect(f.Events()).To(BeEmpty())

	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = nil })
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(BeNumerically("<=", time.Second), "the orphan was adopted, and goes next")
	f.pass(expectationTTL)
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(BeEmpty(), "the transfer is over and no machine is wanted")
}

func TestAStaleTransferIsIgnoredAndTold(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.update(func(set *v1alpha1.MachineSet) {
		set.Annotations = map[string]string{v1alpha1.TransferAnnotation: "pool"}
	})
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(2))
	f.Expect(f.Events()).To(ConsistOf(HavePrefix("Warning StaleTransfer"), ContainSubstring("Created 2 machines")))
	f.ExpectReconciled(f.set)
	f.Expect(f.Events()).To(BeEmpty(), "told when there is something to do, not each time")
}

func TestOnlyTheVeryDeploymentOwnsASet(t *testing.T) {
	f := newEnv(t, 0, nil)
	f.own(nil, nil)
	found, err := ownerOf(t.Context(), f.Client, f.set)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(found).NotTo(BeNil())
	for name, change := range map[string]func(*metav1.OwnerReference){
		"gone":                       func(o *metav1.OwnerReference) { o.Name = "gone" },
		"another of its name":        func(o *metav1.OwnerReference) { o.UID = "another" },
		"no deployment":              func(o *metav1.OwnerReference) { o.Kind = "MachineFleet" },
		"an owner, not a controller": func(o *metav1.OwnerReference) { o.Controller = nil },
	} {
		changed := f.set.DeepCopy()
		change(&changed.OwnerReferences[0])
		found, err := ownerOf(t.Context(), f.Client, changed)
		f.Expect(err).NotTo(HaveOccurred(), name)
		f.Expect(found).To(BeNil(), name)
	}
}

func (f *env) silence() {
	f.T.Helper()
	f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
}

func TestTemplateChangesThatNeedNoReplacementReachTheMachines(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.Template.Metadata.Labels["tier"] = "a" })
	f.ExpectReconciled(f.set)
	names := active(f.Machines(f.set.Namespace))
	f.annotate(names[0], "user", "u")
	f.Events()
	change := func(set *v1alpha1.MachineSet) {
		delete(set.Spec.Template.Metadata.Labels, "tier")
		set.Spec.Template.Metadata.Annotations = map[string]string{"note": "n"}
		set.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		set.Spec.Template.Spec.NodeMetadata.Labels = map[string]string{"zone": "1"}
		set.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	}
	f.update(change)
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "x"} })
	f.Writes.Counts()
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch Machine"), "frozen")
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = nil })
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Counts()).To(HaveKeyWithValue("patch Machine", 3), "one write per machine and change")
	for _, machine := range f.Machines(f.set.Namespace) {
		f.Expect(machine.Labels).NotTo(HaveKey("tier"))
		f.Expect(machine.Annotations).To(HaveKeyWithValue("note", "n"))
		f.Expect(machine.Spec.Taints).To(HaveLen(1))
		f.Expect(machine.Spec.NodeMetadata.Labels).To(Equal(map[string]string{"zone": "1"}))
		f.Expect(machine.Spec.Versions.Kubelet).To(Equal("v1.36.2"), "a change of version is not for machines that are there")
	}
	f.Expect(f.machine(names[0]).Annotations).To(HaveKeyWithValue("user", "u"))
	f.Expect(f.Events()).To(ConsistOf(ContainSubstring("Brought 3 machines up to date with the template")))
	f.Writes.Counts()
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch Machine"))
}

func scaleDownTakesTheMachineThatTheAutoscalerMarkedLast(t *testing.T) {
	f := newEnv(t, 4, nil)
	f.ExpectReconciled(f.set)
	f.ready()
	names := active(f.Machines(f.set.Namespace))
	now := f.Clock.Now()
	f.annotate(names[3], v1alpha1.DeleteMachineAnnotation, now.Add(-time.Minute).String()) // Its scale-down failed.
	f.annotate(names[2], v1alpha1.DeleteMachineAnnotation, now.String())
	f.annotate(names[1], v1alpha1.DeletionPriorityAnnotation, "1")
	f.ExpectReconciled(f.set)
	f.scale(3)
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(Equal([]string{names[0], names[1], names[3]}))
}

func TestAStaleMarkIsTakenOffAndKillsNoMachineLater(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.set)
	f.ready()
	f.ExpectReconciled(f.set)
	names := active(f.Machines(f.set.Namespace))
	f.annotate(names[1], v1alpha1.DeleteMachineAnnotation, f.Clock.Now().String())
	f.annotate(names[0], v1alpha1.DeletionPriorityAnnotation, "2")
	f.pass(time.Hour)
	f.Events()
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(plan.MarkLifetime), "it counts from when the hub could act on it")
	f.pass(plan.MarkLifetime - time.Second)
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "x"} })
	f.ExpectReconciled(f.set)
	f.pass(time.Hour)
	f.update(func(set *v1alpha1.MachineSet) { set.Annotations = nil })
	f.ExpectReconciled(f.set)
	f.Expect(f.machine(names[1]).Annotations).To(HaveKey(v1alpha1.DeleteMachineAnnotation), "no controller could act on it while frozen")
	f.pass(plan.MarkLifetime)
	f.ExpectReconciled(f.set)
	f.Expect(f.machine(names[1]).Annotations).NotTo(HaveKey(v1alpha1.DeleteMachineAnnotation))
	f.Expect(f.Events()).To(ConsistOf(And(HavePrefix("Warning StaleMark"), ContainSubstring(names[1]))))
	f.scale(1)
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(Equal(names[1:]), "the lower priority goes, and not the old mark")
}

// 3,325 machines came of it elsewhere.
func machinesThatLoseTheSelectorsLabelsOnTheWayAreNotMadeOverAndOver(t *testing.T) {
	created := 0
	webhook := &interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		created++
		object.SetLabels(map[string]string{"app": "changed-by-a-webhook"})
		return c.Create(ctx, object, options...)
	}}
	f := newEnv(t, 100, webhook)
	for range 60 {
		_, _ = f.Reconcile(f.set)
		f.FinishDeletions(f.set.Namespace)
		f.pass(time.Second)
	}
	f.Expect(created).To(Equal(6), "one at a time, after 1s, 2s, 4s, 8s and 16s")
	f.Expect(f.Machines(f.set.Namespace)).To(BeEmpty(), "each is deleted again")
	f.Expect(f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition).Message).To(ContainSubstring("look for an admission webhook that changes labels"))
}

func aSetWhoseMachinesAreTakenFromItStopsAtItsCeiling(t *testing.T) {
	f := newEnv(t, 2, nil)
	for range 40 {
		f.ExpectReconciled(f.set)
		machines := f.Machines(f.set.Namespace)
		for i := range machines { // Something changes their labels as soon as they are there.
			if machines[i].Labels["app"] == "x" {
				machines[i].Labels["app"] = "y"
				f.ExpectApplied(&machines[i])
			}
		}
		f.pass(time.Second)
	}
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(creationsPerReplica*2 + creationsExtra))
	failure := f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition)
	f.Expect(failure.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(failure.Reason).To(Equal(v1alpha1.ReasonTooManyCreations))
	f.Expect(f.Events()).To(ContainElement(HavePrefix("Warning TooManyCreations")))
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(BeNumerically(">", 0))
	f.pass(creationWindow)
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(creationsPerReplica*2 + creationsExtra + 2))
}

func aRefusedCreationIsNotTriedAgainForEveryEvent(t *testing.T) {
	attempts := 0
	quota := &interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		attempts++
		return errors.New("exceeded quota")
	}}
	f := newEnv(t, 3, quota)
	_, err := f.Reconcile(f.set)
	f.Expect(err).To(HaveOccurred())
	for range 10 {
		result, err := f.Reconcile(f.set)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(result.RequeueAfter).To(Equal(firstPause))
	}
	f.Expect(attempts).To(Equal(1))
	f.Expect(f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition).Message).To(ContainSubstring("exceeded quota"), "the reason stays while it waits")
	f.pass(firstPause)
	_, err = f.Reconcile(f.set)
	f.Expect(err).To(HaveOccurred())
	f.Expect(attempts).To(Equal(2))
}

// reads counts what goes past the cache.
type reads struct {
	client.Reader
	count *atomic.Int64
}

func (r reads) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.count.Add(1)
	return r.Reader.Get(ctx, key, object, options...)
}

func (r reads) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.count.Add(1)
	return r.Reader.List(ctx, list, options...)
}

func TestAThousandMachinesAtRestCostNoWriteAndNoLiveRead(t *testing.T) {
	machines := 1000
	if testing.Short() {
		machines = 200
	}
	f := newEnv(t, int32(machines), nil)
	var live atomic.Int64
	logic, err := New(Deps{
		Client: f.Writes.Count(f.Client), Live: reads{f.Client, &live}, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(f.Client, f.Writes.Count(f.Client), logic)
	started := time.Now()
	for i := 0; i < 20 && len(f.Machines(f.set.Namespace)) < machines; i++ {
		f.ExpectReconciled(f.set)
	}
	t.Logf("%d machines were made in %s, %d at most per reconcile", machines, time.Since(started).Round(time.Millisecond), creationsAtOnce)
	f.Expect(f.Machines(f.set.Namespace)).To(HaveLen(machines))
	f.pass(time.Minute)
	f.ExpectReconciled(f.set)
	f.Writes.Counts()
	live.Store(0)
	for range 5 {
		f.pass(time.Minute)
		f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(BeZero())
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty())
	f.Expect(live.Load()).To(BeZero(), "live reads at rest")
}

func TestATimeoutThatAPersonSetsOnAnOwnedMachineStays(t *testing.T) {
	f := newEnv(t, 3, nil)
	drain := func(of *v1alpha1.Machine) string {
		if of.Spec.Timeouts == nil || of.Spec.Timeouts.Drain == nil {
			return "none"
		}
		return of.Spec.Timeouts.Drain.Duration.String()
	}
	patch := func(name, merge string) {
		f.Expect(f.Client.Patch(t.Context(), f.machine(name), client.RawPatch(types.MergePatchType, []byte(merge)))).To(Succeed())
	}
	template := func(drain *metav1.Duration, conditions ...string) {
		f.update(func(set *v1alpha1.MachineSet) {
			set.Spec.Template.Spec.Timeouts = &v1alpha1.MachineTimeouts{Health: &metav1.Duration{Duration: time.Hour}, Drain: drain}
			set.Spec.Template.Spec.UnhealthyNodeConditions = conditions
		})
	}
	template(&metav1.Duration{Duration: 2 * time.Hour}, "KernelDeadlock")
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch Machine"), "a new machine has all it needs from its create")
	names := active(f.Machines(f.set.Namespace))
	patch(names[0], `{"spec":{"timeouts":{"drain":"5m"}}}`)
	patch(names[1], `{"spec":{"unhealthyNodeConditions":["DiskPressure"]}}`)
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch Machine"), "what a person has set is nothing to mend")

	template(&metav1.Duration{Duration: 3 * time.Hour}, "ReadonlyFilesystem")
	f.ExpectReconciled(f.set)
	f.Expect(f.Writes.Counts()).To(HaveKeyWithValue("patch Machine", 3), "one write per machine and change")
	f.Expect(drain(f.machine(names[0]))).To(Equal("5m0s"), "a person's")
	f.Expect(f.machine(names[0]).Spec.Timeouts.Health.Duration).To(Equal(time.Hour), "the other fields are the template's")
	f.Expect(f.machine(names[0]).Spec.UnhealthyNodeConditions).To(ConsistOf("ReadonlyFilesystem"))
	f.Expect(drain(f.machine(names[1]))).To(Equal("3h0m0s"))
	f.Expect(f.machine(names[1]).Spec.UnhealthyNodeConditions).To(ConsistOf("DiskPressure"), "a person's")
	f.Expect(drain(f.machine(names[2]))).To(Equal("3h0m0s"), "no user has changed it")

	patch(names[0], `{"spec":{"timeouts":{"drain":null}}}`)
	patch(names[1], `{"spec":{"unhealthyNodeConditions":null}}`)
	f.ExpectReconciled(f.set)
	f.Expect(drain(f.machine(names[0]))).To(Equal("3h0m0s"), "what is taken away, the set gives again")
	f.Expect(f.machine(names[1]).Spec.UnhealthyNodeConditions).To(ConsistOf("ReadonlyFilesystem"))
	template(nil)
	f.ExpectReconciled(f.set)
	for _, name := range names {
		f.Expect(drain(f.machine(name))).To(Equal("none"), "it follows the template again")
	}
}
