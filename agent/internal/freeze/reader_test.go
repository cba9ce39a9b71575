package freeze

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// remembered is all that a look at a monitor could change.
func (w *env) remembered() []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	endpoints := map[Scope]endpoint{}
	for scope, e := range w.endpoints {
		endpoints[scope] = *e
	}
	past := w.downtime
	past.intervals = append([]Interval{}, w.downtime.intervals...)
	return []any{endpoints, past, w.orderedSince, w.caused, w.listed, w.listing, w.freezes, w.notifiedFreezes, w.announced}
}

// Whoever looks at the state, such as a scrape of /frozenz, changes nothing; whoever is about to act does.
// Claim: Reading the freeze state changes nothing. Broken: State records what it sees.
func TestTheStateIsReadWithoutAWrite(t *testing.T) {
	order := "maintenance"
	for name, change := range map[string]struct {
		do     func(w *env)
		reason string
	}{
		"the hub falls silent":  {func(w *env) { w.clock.Step(testPolicy.After) }, v1alpha1.ReasonHubUnreachable},
		"a person orders it":    {func(w *env) { w.order.Store(&order) }, v1alpha1.ReasonManualFreeze},
		"the agent is stopped":  {func(w *env) { w.clock.Step(time.Hour); w.healthy() }, v1alpha1.ReasonRelisting},
		"nothing happens at it": {func(*env) {}, v1alpha1.ReasonNotFrozen},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), relistingWorld(t)
			w.healthy()
			freeze, _ := w.RelistDue()
			w.CompleteRelist(freeze)
			g.Expect(w.Check()).To(Succeed())
			change.do(w)
			before := w.remembered()
			for range 2 {
				g.Expect(w.State().Reason).To(Equal(change.reason))
			}
			g.Expect(w.remembered()).To(Equal(before))
			seen := w.State()
			g.Expect(w.Refresh()).To(Equal(seen), "what is recorded is what was seen")
			if change.reason == v1alpha1.ReasonHubUnreachable || change.reason == v1alpha1.ReasonManualFreeze {
				g.Expect(w.remembered()).NotTo(Equal(before))
			}
			g.Expect(w.Check() == nil).To(Equal(change.reason == v1alpha1.ReasonNotFrozen))
		})
	}
}
