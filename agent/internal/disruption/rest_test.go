package disruption

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: At rest a new run is found at once and nothing is listed. Broken: it does not watch; it watches an older version. Also: TestNoRunIsOverlooked, TestRunsAreReadForAMachineAfterALongRest.
func TestAtRestAChangeIsAwaited(t *testing.T) {
	b := newEnv(t, "a")
	b.work()
	waited := make(chan time.Duration, 1)
	go func() { waited <- b.awaitRound(t.Context()) }()
	b.Consistently(waited).Should(BeEmpty(), "nothing has changed")
	run := b.run("outage", nil)
	b.Eventually(waited).WithTimeout(agenttest.Wait).Should(Receive(BeZero()))
	b.work()
	b.Expect(b.read(run).StartTime).NotTo(BeNil())
	b.Expect(b.awaitRound(t.Context())).To(Equal(interval), "a run in progress goes by times")
}

// Runs are listed every 5 s while anything is to be done.
func TestNoRunIsOverlooked(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*env)
		rests   bool
	}{
		"nothing there": {func(*env) {}, true},
		"a run":         {func(b *env) { b.run("outage", nil) }, false},
		"a run that is paused": {func(b *env) {
			b.run("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Paused = true })
		}, false},
		"a run that starts much later": {func(b *env) {
			b.run("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
				spec.Timing.StartAfter = metav1.Duration{Duration: time.Hour}
			})
		}, false},
		"a run that was just deleted": {func(b *env) {
			run := b.run("outage", nil)
			b.work()
			b.ExpectDeleted(run)
			b.work()
		}, false},
		"a run that was deleted a while ago": {func(b *env) {
			run := b.run("outage", nil)
			b.work()
			b.ExpectDeleted(run)
			b.Clock.Step(restAfter)
		}, true},
		"a run that has failed": {func(b *env) {
			b.run("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
				spec.Target.MachineSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "machine"}}
			})
			b.work()
			b.Clock.Step(restAfter)
		}, true},
		"a pod with a plan of a run that is gone": {func(b *env) {
			plan, err := disrupt.Encode(disrupt.Plan{Entries: []disrupt.Entry{{Run: "gone", UID: "gone", Fault: disrupt.Fault{Type: disrupt.NotReady}, Timing: disrupt.Timing{Start: metav1.NewTime(b.Clock.Now().Truncate(time.Second)), End: metav1.NewTime(b.Clock.Now().Add(time.Hour).Truncate(time.Second))}}}})
			b.Expect(err).NotTo(HaveOccurred())
			b.createPod(b.arrivingMachine("late"), plan)
		}, false},
		"a run that cannot be decoded": {func(b *env) {
			bad := b.run("bad", nil)
			b.Expect(b.Server.Loosely(b.T.Context(), func(ctx context.Context) error {
				return b.Client.Patch(ctx, bad.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timing":{"duration":"1 week"}}}`)))
			}, "nodedisruptionruns.hollowfleet.io")).To(Succeed())
		}, false},
		"a hub that does not answer": {func(b *env) {
			b.Hub.Live = failingReader{b.Hub.Live, errors.New("cut off")}
		}, false},
		"a hub without the kind": {func(b *env) {
			b.Hub.Live = failingReader{b.Hub.Live, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("nodedisruptionruns").GroupResource(), "")}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			watches := 0
			b.Watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				watches++
				return nil, errors.New("an agent of an older hub may not watch")
			}
			test.prepare(b)
			_ = b.Work(t.Context())
			b.Expect(b.awaitRound(t.Context())).To(Equal(interval), "it is listed again in time, also if changes cannot be watched")
			b.Expect(watches).To(Equal(map[bool]int{true: 1}[test.rests]))
		})
	}
}

// A Machine is created by runs that are seconds old, not by those of the last round however old that is.
func TestRunsAreReadForAMachineAfterALongRest(t *testing.T) {
	b := newEnv(t)
	b.work()
	run := b.run("stuck", neverJoin(nil))
	_, err := b.PlanFor(t.Context(), b.arrivingMachine("a"))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.read(run).StartTime).To(BeNil(), "the last round was a moment ago")
	b.Clock.Step(interval + time.Second)
	_, err = b.PlanFor(t.Context(), b.arrivingMachine("b"))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.read(run).StartTime).NotTo(BeNil())
}
