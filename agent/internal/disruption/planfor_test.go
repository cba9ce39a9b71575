package disruption

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// arrivingMachine makes a Machine that has no pod yet.
func (b *env) arrivingMachine(name string) *v1alpha1.Machine {
	b.T.Helper()
	machine := agenttest.Machine(b.namespace, b.node(name))
	machine.Finalizers = nil
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
	b.ExpectApplied(machine)
	return machine
}

// createPod makes the pod of a Machine as a driver does.
func (b *env) createPod(machine *v1alpha1.Machine, plan string) {
	b.T.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: b.namespace, Name: machine.Name, Labels: map[string]string{v1alpha1.MachineNameLabel: machine.Name},
		Annotations: map[string]string{disrupt.Annotation: plan},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "hollow-node", Image: "none"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: disrupt.VolumeName, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}}}
	b.ExpectApplied(pod)
}

// runningNeverJoin is a run with NeverJoin whose window has started.
func (b *env) runningNeverJoin(change func(*v1alpha1.NodeDisruptionRunSpec)) *v1alpha1.NodeDisruptionRun {
	run := b.run("stuck", neverJoin(change))
	b.work()
	b.Clock.Step(lead + 2*time.Second)
	b.work()
	return run
}

// restarted is the Controller of an agent that was restarted.
func (b *env) restarted() *Controller {
	b.T.Helper()
	c, err := New(b.Deps)
	b.Expect(err).NotTo(HaveOccurred())
	return c
}

func TestAPodIsCreatedWithItsPlanAndTheHubKnowsFirst(t *testing.T) {
	b := newEnv(t)
	run := b.runningNeverJoin(nil)
	machine := b.arrivingMachine("a")
	plan, err := b.PlanFor(t.Context(), machine)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(plan).To(ContainSubstring(string(run.UID)))
	b.Expect(b.read(run).Nodes).To(ConsistOf(And(HaveField("Name", machine.Name), HaveField("ArrivedAt", Not(BeNil())))), "before the pod is created")

	// An agent that ends here, or after it created the pod, continues with the same plan.
	again, err := b.restarted().PlanFor(t.Context(), machine)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(again).To(Equal(plan))
	b.createPod(machine, plan)
	b.Expect(b.restarted().Work(t.Context())).To(Succeed())
	b.Expect(b.plan(machine.Name)).To(Equal([]string{"stuck"}))
	b.Expect(b.read(run)).To(And(HaveField("Selected", BeEquivalentTo(1)), HaveField("Injected", BeEquivalentTo(1))))
}

// A pod that was created with a plan loses it like any other one.
func TestAMachineThatCameIsRestored(t *testing.T) {
	for name, restore := range map[string]func(*env, *v1alpha1.NodeDisruptionRun){
		"deleted": func(b *env, run *v1alpha1.NodeDisruptionRun) {
			b.ExpectDeleted(run)
		},
		"paused": func(b *env, run *v1alpha1.NodeDisruptionRun) { b.merge(run, `{"spec":{"paused":true}}`) },
		"over":   func(b *env, _ *v1alpha1.NodeDisruptionRun) { b.Clock.Step(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			run := b.runningNeverJoin(nil)
			machine := b.arrivingMachine("a")
			plan, err := b.PlanFor(t.Context(), machine)
			b.Expect(err).NotTo(HaveOccurred())
			restore(b, run)
			b.createPod(machine, plan) // It was on its way.
			b.work()
			b.Expect(b.plan(machine.Name)).To(BeEmpty())
			later, err := b.PlanFor(t.Context(), b.arrivingMachine("b"))
			b.Expect(err).NotTo(HaveOccurred())
			b.Expect(later).To(BeEmpty())
		})
	}
}

func TestAFrozenAgentDecidesAboutNoMachine(t *testing.T) {
	b := newEnv(t)
	run := b.runningNeverJoin(nil)
	machine := b.arrivingMachine("a")
	b.frozen = &freeze.Error{Reason: v1alpha1.ReasonManualFreeze, Message: "a user has ordered it"}
	_, err := b.PlanFor(t.Context(), machine)
	b.Expect(err).To(MatchError(b.frozen), "so that the thaw wakes the Machine")
	b.Expect(b.read(run).Nodes).To(BeEmpty())
	joined := b.arrivingMachine("b")
	joined.Spec.ProviderID = new("hollowfleet://c1/b")
	_, err = b.PlanFor(t.Context(), joined)
	b.Expect(err).To(MatchError(b.frozen), "also of a Machine that no run concerns")
	b.thawedChecks = 1
	_, err = b.PlanFor(t.Context(), machine)
	b.Expect(err).To(MatchError(b.frozen), "it was frozen after it had started to decide")
	b.Expect(b.read(run).Nodes).To(BeEmpty())
	b.frozen = nil
	plan, err := b.PlanFor(t.Context(), machine)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(plan).NotTo(BeEmpty())
}

// A run whose status cannot be written is retried for a while, and then keeps no Machine from being made.
// Claim: An unwritable run delays Machines 30 s at most. Broken: new.
func TestARunThatCannotBeWrittenKeepsNoMachineWaitingForGood(t *testing.T) {
	b := newEnv(t)
	b.runningNeverJoin(func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Timing.Duration.Duration = time.Hour })
	machine := b.arrivingMachine("a")
	b.refuse[http.MethodPatch+" /apis/hollowfleet.io/v1alpha1/namespaces/"+b.namespace+"/nodedisruptionruns"] = errors.New("refused")
	_, err := b.PlanFor(t.Context(), machine)
	b.Expect(err).To(MatchError(ContainSubstring("refused")))
	b.Clock.Step(patience)
	plan, err := b.PlanFor(t.Context(), machine)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(plan).To(BeEmpty(), "what the hub does not know does not start")
}

// Any other run makes no request of its own for a Machine, nor does NeverJoin for one that has joined.
func TestMachinesThatNoRunConcernsCostNothing(t *testing.T) {
	b := newEnv(t, "a")
	b.runningNeverJoin(func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Target.MachineDeployment = "others" })
	b.run("outage", nil)
	b.work()
	b.work()
	joined := b.arrivingMachine("b")
	joined.Spec.ProviderID = new("hollowfleet://c1/b")
	b.refuse[http.MethodGet] = errors.New("a request")
	for _, machine := range []*v1alpha1.Machine{b.arrivingMachine("c"), joined} {
		plan, err := b.PlanFor(t.Context(), machine)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(plan).To(BeEmpty())
	}
	// A pod that is recreated has its plan from the start.
	there := &v1alpha1.Machine{}
	b.Expect(b.Client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: b.node("a")}, there)).To(Succeed())
	plan, err := b.PlanFor(t.Context(), there)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(plan).To(ContainSubstring("outage"))
}

// Many that come at once are decided about together, as mode and value say.
func TestManyMachinesAskAtOnce(t *testing.T) {
	b := newEnv(t)
	run := b.runningNeverJoin(func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Target.Mode, spec.Target.Value = disrupt.ModePercent, 40
	})
	// The Machines have the API server's time, so the run has to have started before that.
	begun := run.CreationTimestamp.Add(-time.Minute)
	b.read(run)
	run.Status.StartTime = &metav1.Time{Time: begun}
	b.ExpectStatusApplied(run)
	b.work()
	var machines []*v1alpha1.Machine
	for i := range 10 {
		machines = append(machines, b.arrivingMachine(fmt.Sprint(i)))
	}
	plans := make([]string, len(machines))
	var group sync.WaitGroup
	for i, machine := range machines {
		group.Go(func() { plans[i], _ = b.PlanFor(t.Context(), machine) })
	}
	group.Wait()
	hit := 0
	for i, machine := range machines {
		if plans[i] != "" {
			hit++
			b.Expect(b.read(run).Nodes).To(ContainElement(HaveField("Name", machine.Name)))
		}
	}
	b.Expect(hit).To(Equal(4))
	b.Expect(b.read(run).Nodes).To(HaveLen(4))
}

// An agent of a hub that has no such kind makes Machines as ever, and so does one that has just started.
func TestMachinesAreMadeWithoutTheKind(t *testing.T) {
	b := newEnv(t)
	machine := b.arrivingMachine("a")
	runs := http.MethodGet + " /apis/hollowfleet.io/v1alpha1/namespaces/" + b.namespace + "/nodedisruptionruns"
	b.refuse[runs] = errors.New("cut off")
	_, err := b.PlanFor(t.Context(), machine)
	b.Expect(err).To(MatchError(ContainSubstring("cut off")), "it does not know yet")
	resource := v1alpha1.GroupVersion.WithResource("nodedisruptionruns").GroupResource()
	for _, answer := range []error{apierrors.NewNotFound(resource, ""), apierrors.NewForbidden(resource, "", errors.New("an old role")), nil} {
		delete(b.refuse, runs)
		if answer != nil {
			b.refuse[runs] = answer
		}
		plan, err := b.restarted().PlanFor(t.Context(), machine)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(plan).To(BeEmpty())
	}
}
