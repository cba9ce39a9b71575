package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
)

func TestChurnedObjects(t *testing.T) {
	g := NewWithT(t)
	for _, test := range []struct{ have, percent, want int }{{0, 50, 0}, {1, 1, 1}, {10, 10, 1}, {10, 11, 2}, {7, 50, 4}, {7, 100, 7}} {
		g.Expect(churnedPerRound(test.have, int32(test.percent))).To(Equal(test.want), "%v", test)
	}
	b := newBook()
	template := &template.Template{Name: "t"}
	for range 3 {
		for _, namespace := range []string{"a", "b"} {
			b.markCreated(b.registerObject(template, namespace, true), time.Unix(1, 0))
		}
	}
	b.removeObject(place{"t", "a", "t-0"})
	chosen := inTurn(b.objectsOf("t", []string{"a", "b"}), []string{"a", "b"}, func(have int) int { return churnedPerRound(have, 60) })
	var names []string
	for _, o := range chosen {
		names = append(names, o.namespace+"/"+o.name)
	}
	g.Expect(names).To(Equal([]string{"a/t-1", "b/t-0", "a/t-2", "b/t-1"}), "the oldest of each namespace in turn")
	g.Expect(b.registerObject(template, "a", true).name).To(Equal("t-3"), "no name comes twice")
}

func TestTheBookKnowsWhatIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	b, template := newBook(), &template.Template{Name: "t"}
	o := b.registerObject(template, "a", false)
	left, changed := b.countPending("t", false)
	g.Expect(left).To(Equal(1), "it is being made")
	g.Expect(b.nthObject("t", 0)).To(BeNil(), "it is not there yet")
	_, told := b.observeObject(o.placeOf(), true, time.Unix(12, 0))
	g.Expect(told).To(BeFalse(), "the answer has not come")
	took, told := b.markCreated(o, time.Unix(10, 0))
	g.Expect(told).To(BeTrue())
	g.Expect(took).To(Equal(2 * time.Second))
	g.Expect(changed).To(BeClosed())
	left, _ = b.countPending("t", false)
	g.Expect(left).To(BeZero())
	g.Expect(b.nthObject("t", 5)).To(Equal(o))
	_, _ = b.observeObject(o.placeOf(), false, time.Unix(13, 0))
	left, _ = b.countPending("t", false)
	g.Expect(left).To(Equal(1), "it is not ready any more")
	_, told = b.observeObject(o.placeOf(), true, time.Unix(14, 0))
	g.Expect(told).To(BeFalse(), "only the first time counts")
	_, was := b.markDeleting(o, time.Unix(15, 0))
	g.Expect(was).To(BeTrue())
	_, was = b.markDeleting(o, time.Unix(15, 0))
	g.Expect(was).To(BeFalse(), "it is deleted once")
	left, _ = b.countPending("t", true)
	g.Expect(left).To(Equal(1))
	b.removeObject(o.placeOf())
	left, _ = b.countPending("t", true)
	g.Expect(left).To(BeZero())
	g.Expect(b.nthObject("t", 0)).To(BeNil())
}
