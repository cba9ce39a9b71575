package report

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// register is the Lease as the hub keeps it.
type register struct {
	lease   coordinationv1.Lease
	version int
}

var errConflict = errors.New("conflict")

func (r *register) write(lease *coordinationv1.Lease) error {
	if lease.ResourceVersion != r.lease.ResourceVersion {
		return errConflict
	}
	r.version++
	r.lease = *lease.DeepCopy()
	r.lease.ResourceVersion = fmt.Sprint(r.version)
	return nil
}

// contender does what a Reporter does with its tenure; each has a clock of its own.
type contender struct {
	*tenure
	clock    *clocktesting.FakeClock
	begun    time.Time
	intended *coordinationv1.Lease
}

func newContender(name string, at time.Time) *contender {
	c := &contender{clock: clocktesting.NewFakeClock(at)}
	c.tenure = newTenure(name, c.clock)
	return c
}

// read looks at the Lease, and begins to write it if that is allowed.
func (c *contender) read(r *register, duration time.Duration) {
	c.intended = nil
	seen := r.lease.DeepCopy()
	if !c.consider(seen) {
		return
	}
	c.begun = c.clock.Now()
	seen.Spec.HolderIdentity = ptr.To(c.holder)
	seen.Spec.LeaseDurationSeconds = ptr.To(int32(duration / time.Second))
	seen.Spec.RenewTime = ptr.To(metav1.NewMicroTime(c.begun))
	c.renewing(seen)
	c.intended = seen
}

// finish is when the write that was begun arrives; answered is whether the answer does too.
func (c *contender) finish(r *register, answered bool) {
	if c.intended == nil {
		return
	}
	if err := r.write(c.intended); err == nil && answered {
		c.renewedBy(c.intended, c.begun)
	}
	c.intended = nil
}

func (c *contender) acts() bool {
	_, barred := c.barred()
	return !barred
}

// However slow, cut off, suspended or wrong of clock they are: of several agents at most one acts.
func TestAtMostOneAgentActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var all []*contender
		for i := range rapid.IntRange(2, 3).Draw(t, "agents") {
			skew := time.Duration(rapid.IntRange(-10000, 10000).Draw(t, "skew")) * time.Second
			all = append(all, newContender(fmt.Sprintf("agent-%d", i), start.Add(skew)))
		}
		register, acted := &register{}, 0
		for range rapid.IntRange(10, 150).Draw(t, "steps") {
			one := all[rapid.IntRange(0, len(all)-1).Draw(t, "agent")]
			switch rapid.IntRange(0, 5).Draw(t, "action") {
			case 0, 1:
				one.read(register, time.Duration(rapid.IntRange(1, 40).Draw(t, "duration"))*time.Second)
			case 2, 3:
				one.finish(register, rapid.Bool().Draw(t, "answered"))
			case 4:
				passed := time.Duration(rapid.IntRange(0, 15000).Draw(t, "milliseconds")) * time.Millisecond
				for _, c := range all {
					c.clock.Step(passed)
				}
			case 5:
				one.read(register, 10*time.Second)
				one.finish(register, true)
			}
			var acting []string
			for _, c := range all {
				if c.acts() {
					acting = append(acting, c.holder)
				}
			}
			if len(acting) > 1 {
				t.Fatalf("%v act", acting)
			}
			acted += len(acting)
		}
	})
}

func TestTenure(t *testing.T) {
	const duration = 40 * time.Second
	g := NewWithT(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	register, first, second := &register{}, newContender("first", start), newContender("second", start.Add(-time.Hour))
	pass := func(d time.Duration) { first.clock.Step(d); second.clock.Step(d) }
	reason := func(c *contender) string { why, _ := c.barred(); return why.Reason }

	g.Expect(reason(first)).To(Equal(v1alpha1.ReasonLeaseNotHeld), "at the start")
	first.read(register, duration)
	g.Expect(reason(first)).To(Equal(v1alpha1.ReasonLeaseNotHeld), "before the answer")
	first.finish(register, true)
	g.Expect(reason(first)).To(BeEmpty())
	second.read(register, duration)
	g.Expect(reason(second)).To(Equal(v1alpha1.ReasonAnotherAgent))
	why, _ := second.barred()
	g.Expect(why.Message).To(ContainSubstring(`"first"`))

	// Cut off, it stops before another may begin.
	pass(30*time.Second - 1)
	g.Expect(reason(first)).To(BeEmpty())
	pass(1)
	g.Expect(reason(first)).To(Equal(v1alpha1.ReasonLeaseNotHeld))
	why, _ = first.barred()
	g.Expect(why.Since).To(Equal(start.Add(30 * time.Second)))
	pass(10*time.Second - 1)
	second.read(register, duration)
	g.Expect(second.intended).To(BeNil())
	pass(1)
	second.read(register, duration)
	g.Expect(second.intended).NotTo(BeNil())
	second.finish(register, true)
	g.Expect(reason(second)).To(BeEmpty())

	// Back again, it finds that it has lost the Lease.
	_, lost := first.lost()
	g.Expect(lost).To(BeFalse())
	first.read(register, duration)
	to, lost := first.lost()
	g.Expect(to).To(Equal("second"))
	g.Expect(lost).To(BeTrue())
	g.Expect(reason(first)).To(Equal(v1alpha1.ReasonAnotherAgent))

	// A Lease that was given up is free at once.
	register.lease.Spec.HolderIdentity = ptr.To("")
	third := newContender("third", start)
	third.read(register, duration)
	third.finish(register, true)
	g.Expect(reason(third)).To(BeEmpty())
}
