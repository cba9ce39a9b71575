package follow

import (
	"bytes"
	"io"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// A line is printed when its key changes, and none for a state without a line.
func TestALineForEachChange(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	hub := &cmdutil.Hub{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: io.Discard}}
	l := &lines{hub: hub, last: map[string]string{}}
	for _, one := range []struct {
		cluster string
		state   State
	}{
		{"", State{Line: "whole %s"}},
		{"c1", State{Line: "c1: 1 of 3"}},
		{"c1", State{Line: "c1: 1 of 3"}},
		{"c2", State{Line: "c2: step: 10 requests", Key: "step"}},
		{"c2", State{Line: "c2: step: 20 requests", Key: "step"}},
		{"c2", State{Line: "", Key: "other"}},
		{"c2", State{Line: "c2: step: 30 requests", Key: "step"}},
		{"c2", State{Line: "c2: done", Key: "done"}},
		{"", State{Line: "whole %s"}},
		{"c1", State{Line: "c1: 2 of 3"}},
		{"c1", State{Line: "c1: 1 of 3"}}, // It fell back.
	} {
		l.showState(one.cluster, one.state)
	}
	g.Expect(out.String()).To(Equal("whole %s\nc1: 1 of 3\nc2: step: 10 requests\nc2: done\nc1: 2 of 3\nc1: 1 of 3\n"))
}

// What ended before the command started has no bar; all others have one each, and one that has ended leaves the screen if there are many.
func TestABarForEachCluster(t *testing.T) {
	g := NewWithT(t)
	count := int32(2)
	b := newBars(os.Stderr, func() int32 { return count })
	b.showState("c1", State{Text: "updated", Ended: true, WasEnded: true})
	g.Expect(b.clusters).To(BeEmpty())
	b.showState("c2", State{Text: "0 of 3", Total: 3})
	b.showState("c2", State{Text: "updated", Current: 3, Total: 3, Ended: true, WasEnded: true})
	b.showState("", State{Text: "1 of 1 updated", Current: 7}) // Nothing is known of a total yet.
	g.Expect(b.clusters).To(HaveLen(1))
	g.Expect(b.clusters["c2"].bar.Completed()).To(BeTrue())
	g.Expect(b.all.bar.Current()).To(Equal(int64(1)))
	b.showState("c3", State{Text: "failed", Current: 1, Total: 3})
	b.showState("c3", State{Text: "0 of 3", Total: 3})
	g.Expect(b.clusters["c3"].bar.Completed()).To(BeFalse(), "a cluster may go back")
	g.Expect(b.clusters["c3"].bar.Current()).To(BeZero())
	b.closeDisplay()
	g.Expect(b.clusters["c3"].bar.Aborted()).To(BeTrue())
}
