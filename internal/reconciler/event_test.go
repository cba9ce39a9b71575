package reconciler

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestEventsAreSentWithinTheirLimit(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(2)
	NormalEvent("Made", "Make", "made it").Send(recorder, &v1alpha1.Cluster{})
	g.Expect(recorder.Events).To(Receive(Equal("Normal Made made it")))
	WarningEvent("Failed", "Make", strings.Repeat("ä", 5000)+": create it").Send(recorder, &v1alpha1.Cluster{})
	var sent string
	g.Expect(recorder.Events).To(Receive(&sent))
	note := strings.TrimPrefix(sent, "Warning Failed ")
	g.Expect(len(note)).To(BeNumerically("<=", 1024))
	g.Expect(note).To(And(HavePrefix("ää"), HaveSuffix("ä: create it"), Satisfy(utf8.ValidString)))
}

func TestWithKeepsTheRest(t *testing.T) {
	pod := &corev1.Pod{}
	NewWithT(t).Expect(NormalEvent("Made", "Make", "made it").With(pod)).To(Equal(
		Event{Type: corev1.EventTypeNormal, Reason: "Made", Action: "Make", Note: "made it", Related: pod}))
}

func TestFew(t *testing.T) {
	g := NewWithT(t)
	names := strings.Split("abcdefghijkl", "")
	g.Expect(ListFew(nil)).To(BeEmpty())
	g.Expect(ListFew(names[:10])).To(Equal("a, b, c, d, e, f, g, h, i, j"))
	g.Expect(ListFew(names)).To(Equal("a, b, c, d, e, f, g, h, i, j, 2 more"))
	g.Expect(names[10]).To(Equal("k"), "the names stay as they are")
}

func TestAnEventDeduplicatorSendsAStateOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	deduplicator := &EventDeduplicator{}
	one, two := &Event{Type: "Normal", Reason: "One"}, &Event{Type: "Normal", Reason: "Two"}
	for _, state := range []*Event{one, one, two, two, one, nil, nil, one} {
		deduplicator.Send(recorder, "a", &v1alpha1.Cluster{}, state)
	}
	deduplicator.Send(recorder, "b", &v1alpha1.Cluster{}, one)
	close(recorder.Events)
	told := slices.Collect(func(yield func(string) bool) {
		for event := range recorder.Events {
			if !yield(event) {
				return
			}
		}
	})
	NewWithT(t).Expect(told).To(HaveExactElements(ContainSubstring("One"), ContainSubstring("Two"), ContainSubstring("One"), ContainSubstring("One"), ContainSubstring("One")))
}
