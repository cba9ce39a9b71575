package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func set(uid types.UID, generation int64) *v1alpha1.MachineSet {
	return &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "c1", Name: "workers", UID: uid, Generation: generation,
		OwnerReferences: []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "pool"}},
	}}
}

func TestSetsRememberTheNewestGeneration(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	sets := NewSets(clock)
	news := sets.News()
	g.Expect(sets.Worked("a")).To(BeZero())
	g.Expect(sets.Done(set("a", 2))).To(BeTrue())
	var heard event.GenericEvent
	g.Expect(news).To(Receive(&heard))
	g.Expect(heard.Object.GetNamespace() + "/" + heard.Object.GetName()).To(Equal("c1/workers"))
	g.Expect(heard.Object.GetOwnerReferences()).To(HaveLen(1), "it says whose set it is")
	g.Expect(sets.Worked("a")).To(BeEquivalentTo(2))
	g.Expect(sets.Worked("b")).To(BeZero())

	g.Expect(sets.Done(set("a", 2))).To(BeTrue())
	g.Expect(sets.Done(set("a", 1))).To(BeTrue(), "an old cache")
	g.Expect(news).NotTo(Receive(), "that is no news")
	g.Expect(sets.Worked("a")).To(BeEquivalentTo(2))

	clock.SetTime(clock.Now().Add(2 * time.Hour))
	g.Expect(sets.Done(set("b", 1))).To(BeTrue())
	g.Expect(sets.Worked("a")).To(BeZero(), "it is in the status by now")
}

func TestManyNewsBlockNobody(t *testing.T) {
	g := NewWithT(t)
	sets := NewSets(testclock.NewFakePassiveClock(time.Now()))
	for generation := range int64(1000) {
		sets.Done(set("a", generation+1))
	}
	for range 1000 {
		g.Eventually(sets.News()).Should(Receive())
	}
}

func TestNoSetsRememberNothing(t *testing.T) {
	g := NewWithT(t)
	var none *Sets
	g.Expect(none.Done(set("a", 1))).To(BeFalse())
	g.Expect(none.Worked("a")).To(BeZero())
	g.Expect(none.News()).NotTo(Receive())
}
