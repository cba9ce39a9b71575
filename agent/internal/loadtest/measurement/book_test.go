package measurement

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
)

func TestObjectsAreListedInTurn(t *testing.T) {
	g := NewWithT(t)
	b := newBook()
	template := &template.Template{Name: "t"}
	for range 3 {
		for _, namespace := range []string{"a", "b"} {
			b.markCreated(b.RegisterObject(template, namespace), time.Unix(1, 0))
		}
	}
	b.removeObject(place{"t", "a", "t-0"})
	chosen := b.ObjectsInTurn("t", []string{"a", "b"}, func(int) int { return 2 })
	var names []string
	for _, o := range chosen {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	g.Expect(names).To(Equal([]string{"a/t-1", "b/t-0", "a/t-2", "b/t-1"}), "the oldest of each namespace in turn")
	g.Expect(b.RegisterObject(template, "a").Name).To(Equal("t-3"), "no name comes twice")
}

func TestTheBookKnowsWhatIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	b, template := newBook(), &template.Template{Name: "t", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}}
	o := b.RegisterObject(template, "a")
	left, changed := b.CountPending("t", false)
	g.Expect(left).To(Equal(1), "it is being made")
	g.Expect(b.NthObject("t", 0)).To(BeNil(), "it is not there yet")
	_, told := b.observeObject(o.placeOf(), true, time.Unix(12, 0))
	g.Expect(told).To(BeFalse(), "the answer has not come")
	took, told := b.markCreated(o, time.Unix(10, 0))
	g.Expect(told).To(BeTrue())
	g.Expect(took).To(Equal(2 * time.Second))
	g.Expect(changed).To(BeClosed())
	left, _ = b.CountPending("t", false)
	g.Expect(left).To(BeZero())
	g.Expect(b.NthObject("t", 5)).To(Equal(o))
	_, _ = b.observeObject(o.placeOf(), false, time.Unix(13, 0))
	left, _ = b.CountPending("t", false)
	g.Expect(left).To(Equal(1), "it is not ready any more")
	_, told = b.observeObject(o.placeOf(), true, time.Unix(14, 0))
	g.Expect(told).To(BeFalse(), "only the first time counts")
	_, was := b.MarkDeleting(o, time.Unix(15, 0))
	g.Expect(was).To(BeTrue())
	_, was = b.MarkDeleting(o, time.Unix(15, 0))
	g.Expect(was).To(BeFalse(), "it is deleted once")
	left, _ = b.CountPending("t", true)
	g.Expect(left).To(Equal(1))
	b.removeObject(o.placeOf())
	left, _ = b.CountPending("t", true)
	g.Expect(left).To(BeZero())
	g.Expect(b.NthObject("t", 0)).To(BeNil())
}
