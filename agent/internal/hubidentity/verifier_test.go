package hubidentity

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAFirstHubIsMetAndRemembered(t *testing.T) {
	b := newEnv(t)
	b.Expect(b.reason()).To(BeEmpty(), "that the Lease is not held is another's word")
	b.look()
	b.Expect(b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.verifier.Store.object), &corev1.ConfigMap{})).
		To(Satisfy(apierrors.IsNotFound), "nothing is stored about a hub that was not met")
	b.renew(true)
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubUnchecked))
	_, judged := b.verifier.Finding()
	b.Expect(judged).To(BeFalse())
	b.Expect(b.kept()).To(BeTrue())
	b.look()
	b.Expect(b.reason()).To(BeEmpty())
	b.renew(false)
	b.Expect(b.kept()).To(BeFalse())
	b.Expect(testutil.ToFloat64(b.verifier.Metrics.outcomes.WithLabelValues("Met"))).To(Equal(1.0))

	// At rest the memory is written as the mark moves on, and no more often.
	version := func() string {
		stored := &corev1.ConfigMap{}
		b.Expect(b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.verifier.Store.object), stored)).To(Succeed())
		return stored.ResourceVersion
	}
	b.look()
	before := version()
	writes := 0
	for range 30 { // Five minutes.
		b.renew(false)
		b.look()
		if now := version(); now != before {
			before = now
			writes++
		}
	}
	b.Expect(writes).To(Equal(2))
}

func TestARestartGoesOnWithTheSameHub(t *testing.T) {
	b := known(t)
	b.renew(false)
	b.Expect(b.verifier.Release(t.Context())).To(Succeed())
	b.restart()
	b.renew(true)
	b.look()
	b.Expect(b.reason()).To(BeEmpty())

	// One that was killed has stored an older mark, which is as good.
	for range 5 {
		b.renew(false)
	}
	b.restart()
	b.renew(true)
	b.look()
	b.Expect(b.reason()).To(BeEmpty())
}

func TestARestoredHubIsNoticedAtOnce(t *testing.T) {
	b := known(t)
	broken := b.verifier.Continuity()
	b.turnBack(time.Second)
	b.Expect(b.reason()).To(BeEmpty())
	b.Expect(b.verifier.Verify(t.Context())).To(Succeed())
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubUnchecked), "before anything is done for it")
	b.Expect(broken.Start(t.Context())).To(MatchError(ErrBroken))
	b.look()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubRestored))
	finding, _ := b.verifier.Finding()

	// It stays so, whatever is renewed, and for the next process too.
	b.renew(true)
	b.look()
	b.restart()
	b.renew(true)
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubUnchecked))
	b.look()
	again, judged := b.verifier.Finding()
	b.Expect(judged).To(BeTrue())
	b.Expect(again).To(Equal(finding))
	b.lookLater()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubRestored))

	b.acknowledge()
	b.Expect(b.verifier.Verify(t.Context())).To(Succeed())
	b.Expect(b.reason()).To(BeEmpty())
}

func TestWithoutItsStoreTheAgentWaits(t *testing.T) {
	b := known(t)
	b.turnBack(time.Hour)
	b.restart()
	b.away = true
	b.renew(true)
	b.look()
	why, _ := b.verifier.Blocked()
	b.Expect(why.Reason).To(Equal(v1alpha1.ReasonHubUnchecked))
	b.Expect(why.Message).To(ContainSubstring(errAway.Error()))
	b.renew(false)
	b.Expect(b.kept()).To(BeTrue())

	// The Lease tells the next process what it showed.
	b.restart()
	b.away = false
	b.renew(true)
	b.look()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubRestored))
}

func TestAnAnswerThatIsLostIsNoBreak(t *testing.T) {
	b := known(t)
	lease := b.lease()
	b.Clock.Step(10 * time.Second)
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(b.Clock.Now()))
	b.verifier.Renewing(t.Context(), lease)
	b.ExpectApplied(lease) // Renewed is not called.
	b.renew(true)
	b.Expect(b.reason()).To(BeEmpty())
	b.away = true // The store is away and comes back, which is none either.
	b.Clock.Step(storeEvery)
	b.renew(false)
	b.look()
	b.renew(true)
	b.Expect(b.reason()).To(BeEmpty())
	b.away = false
	b.look()
	b.renew(true)
	b.Expect(b.reason()).To(BeEmpty())
	b.Expect(b.kept()).To(BeFalse())
}

func TestAClockThatIsSetBackIsNoRestore(t *testing.T) {
	for name, away := range map[string]bool{"with the store": false, "without the store": true} {
		t.Run(name, func(t *testing.T) {
			b := known(t)
			b.Clock.Step(storeEvery)
			b.renew(false)
			b.look() // The store knows it.
			b.Clock.SetTime(b.Clock.Now().Add(-time.Hour))
			b.away = away
			b.renew(false)
			b.Expect(b.kept()).To(Equal(away), "what cannot be stored stays in the Lease")
			b.Expect(b.verifier.Verify(t.Context())).To(Succeed())
			b.Expect(b.reason()).To(BeEmpty())
			b.renew(true)
			b.Expect(b.reason()).To(BeEmpty())

			b.away = false
			b.restart()
			b.renew(true)
			b.look()
			b.Expect(b.reason()).To(BeEmpty(), "nor for the next process")
		})
	}
}

func TestAClusterThatIsMadeAnew(t *testing.T) {
	b := known(t)
	remake := func() {
		b.ExpectDeleted(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: b.name}})
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: b.name}}
		b.ExpectApplied(cluster)
		b.last = cluster // A probe has seen it.
	}
	remake()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubUnchecked))
	b.look()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubChanged))
	b.instances = 0
	b.lookLater()
	b.Expect(b.reason()).To(BeEmpty(), "nothing is left to lose")
	remake()
	b.look()
	b.Expect(b.reason()).To(BeEmpty())
}

// A hub without Machines is found within 10 s of the end of the last one.
func TestMachinesThatVanish(t *testing.T) {
	b := known(t)
	b.lose()
	b.Clock.Step(lookEvery)
	b.look()
	b.Expect(b.reason()).To(BeEmpty(), "it is not looked all the time")
	b.verifier.MachineLost()
	b.look()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubEmpty))

	b = known(t)
	b.lose()
	b.lookLater()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubEmpty), "also if nothing is told")
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubEmpty))
	b.machine()
	b.lookLater()
	b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubEmpty), "until a person has acknowledged it")
}

// Who says that a hub may have no Machine says nothing of those that it has later.
// Claim: An acknowledged empty hub ends with its first Machine. Broken: it is looked every 10 seconds only. Also: test/integration/restored "should be acknowledged before anything else is made there".
func TestMachinesThatVanishSoonAfterAnEmptyHubWasAcknowledged(t *testing.T) {
	for name, restarted := range map[string]bool{"under the same process": false, "before the next process": true} {
		t.Run(name, func(t *testing.T) {
			b := known(t)
			b.lose()
			b.lookLater()
			b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubEmpty))
			b.acknowledge()
			b.lookLater()
			b.Expect(b.reason()).To(BeEmpty(), "it was acknowledged")

			b.machine()
			b.Expect(b.verifier.Verify(t.Context())).To(Succeed(), "its instance is about to be made")
			b.Expect(b.reason()).To(BeEmpty())
			b.lose()
			if restarted {
				b.restart()
				b.renew(true)
			}
			b.lookLater()
			b.Expect(b.reason()).To(Equal(v1alpha1.ReasonHubEmpty))
		})
	}
}

func TestAMemoryThatCannotBeRead(t *testing.T) {
	b := known(t)
	stored := &corev1.ConfigMap{}
	b.Expect(b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.verifier.Store.object), stored)).To(Succeed())
	stored.Data[memoryKey] = "rubbish"
	b.ExpectApplied(stored)
	b.restart()
	b.renew(true)
	b.look()
	why, _ := b.verifier.Blocked()
	b.Expect(why.Message).To(ContainSubstring("memory.json of ConfigMap " + b.name + "/hollowfleet-hub-" + b.name))

	b.ExpectDeleted(stored)
	b.look()
	b.Expect(b.reason()).To(BeEmpty())
}

// Another process that stores meanwhile is not overwritten.
func TestAnotherMemoryIsNotOverwritten(t *testing.T) {
	b := known(t)
	b.Expect(b.verifier.Store.saveMemory(t.Context(), b.verifier.stored)).To(Succeed())
	stored := &corev1.ConfigMap{}
	b.Expect(b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.verifier.Store.object), stored)).To(Succeed())
	metav1.SetMetaDataLabel(&stored.ObjectMeta, "touched", "true")
	b.ExpectApplied(stored)
	b.Clock.Step(storeEvery)
	b.renew(false)
	b.look()
	b.Expect(b.verifier.problem).To(ContainSubstring("the object has been modified"))
	b.lookLater()
	b.Expect(b.verifier.problem).To(BeEmpty())
	b.Expect(b.reason()).To(BeEmpty())
}
