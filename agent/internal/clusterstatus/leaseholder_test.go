package clusterstatus

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

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

// contender does what a Reporter does with its hold of the Lease; each has a clock of its own.
type contender struct {
	*LeaseHolder
	clock    *clocktesting.FakeClock
	begun    time.Time
	intended *coordinationv1.Lease
}

func newContender(name string, at time.Time) *contender {
	c := &contender{clock: clocktesting.NewFakeClock(at)}
	c.LeaseHolder = NewLeaseHolder(c.clock)
	c.Identify(name, nil)
	return c
}

// read looks at the Lease, and starts to write it if that is allowed.
func (c *contender) read(r *register, duration time.Duration) {
	c.intended = nil
	seen := r.lease.DeepCopy()
	if !c.mayRenew(seen) {
		return
	}
	c.begun = c.clock.Now()
	seen.Spec.HolderIdentity = ptr.To(c.holder)
	seen.Spec.LeaseDurationSeconds = ptr.To(int32(duration / time.Second))
	seen.Spec.RenewTime = ptr.To(metav1.NewMicroTime(c.begun))
	c.beginRenewal(seen)
	c.intended = seen
}

// clone is a contender with the same memory, on a machine of its own.
func (c *contender) clone() *contender {
	other := &contender{clock: clocktesting.NewFakeClock(c.clock.Now())}
	other.LeaseHolder = &LeaseHolder{
		holder: c.holder, predecessors: slices.Clone(c.predecessors), clock: other.clock, since: c.since, renewed: c.renewed, duration: c.duration,
		confirmed: c.confirmed, attempted: slices.Clone(c.attempted), rival: c.rival, rivalSince: c.rivalSince, seenAt: c.seenAt, seen: c.seen,
	}
	return other
}

// finish is when the write that was started arrives; answered is whether the answer does too.
func (c *contender) finish(r *register, answered bool) {
	if c.intended == nil {
		return
	}
	if err := r.write(c.intended); err == nil && answered {
		c.endRenewal(c.intended, c.begun)
	}
	c.intended = nil
}

func (c *contender) acts() bool {
	_, blocked := c.Blocked()
	return !blocked
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

// A copy of a running machine has the agent's memory, its identity among it.
// Edge case: Copied machines made two agents act. Also: TestAnAgentKnowsItsOwnRenewals.
func TestACopyOfARunningAgentStops(t *testing.T) {
	const duration = 40 * time.Second
	for name, test := range map[string]struct {
		// before is what happens to the one before it is copied, behind is how far the copy's clock is.
		before func(c *contender, r *register)
		behind time.Duration
	}{
		"at rest":                          {func(*contender, *register) {}, 0},
		"with a clock that is behind":      {func(*contender, *register) {}, 3 * time.Second},
		"with a renewal under way":         {func(c *contender, r *register) { c.read(r, duration) }, 0},
		"with a renewal of unknown fate":   {func(c *contender, r *register) { c.read(r, duration); c.finish(r, false) }, 0},
		"with a renewal that did not come": {func(c *contender, r *register) { c.read(r, duration); c.intended = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			one, r := newContender("me", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), &register{}
			one.read(r, duration)
			one.finish(r, true)
			one.clock.Step(10 * time.Second)
			test.before(one, r)
			copied := one.clone()
			copied.clock.Step(-test.behind)
			one.clock.Step(time.Second)
			one.read(r, duration)
			one.finish(r, true)
			g.Expect(one.acts()).To(BeTrue())
			copied.clock.Step(2 * time.Second)

			// It sees the Lease before it does something, or when its own renewal meets the other one.
			looking := copied.clone()
			looking.Observe(r.lease.DeepCopy())
			g.Expect(looking.acts()).To(BeFalse(), "it does nothing more once it has seen the Lease")
			copied.read(r, duration)
			g.Expect(copied.intended).To(BeNil(), "it must not renew what another process holds")
			g.Expect(copied.acts()).To(BeFalse())
			to, lost := copied.lostTo()
			g.Expect(lost).To(BeTrue())
			g.Expect(to).To(ContainSubstring("another process"))
			copied.clock.Step(time.Hour)
			copied.read(r, duration)
			g.Expect(copied.intended).To(BeNil(), "not after the Lease has expired either: it has to start over")
			one.read(r, duration)
			one.finish(r, true)
			g.Expect(one.acts()).To(BeTrue(), "the other one continues")
		})
	}
}

// An agent that continues after its own renewals of unknown fate, or on a hub that was restored, is not a copy.
func TestAnAgentKnowsItsOwnRenewals(t *testing.T) {
	const duration = 40 * time.Second
	g, r := NewWithT(t), &register{}
	one := newContender("me", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	renew := func(answered bool) {
		one.clock.Step(time.Second)
		one.read(r, duration)
		g.Expect(one.intended).NotTo(BeNil())
		one.finish(r, answered)
	}
	renew(true)
	backup := *r
	for range 3 * maxAttempted {
		renew(false)
	}
	renew(true)
	g.Expect(one.acts()).To(BeTrue())
	version := r.version
	*r = backup
	r.version = version
	renew(true)
	g.Expect(one.acts()).To(BeTrue(), "what a restored hub means is judged elsewhere")
}

// A process continues with the Lease of the one before it, which is known to have ended, and with no other one.
func TestAProcessGoesOnWithTheLeaseOfItsPredecessor(t *testing.T) {
	const duration = time.Hour
	g, r, start := NewWithT(t), &register{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := newContender("host_1", start)
	first.read(r, duration)
	first.finish(r, true)
	next, copied := newContender("host_2", start), newContender("host_3", start)
	next.predecessors = []string{"host_1"}
	copied.read(r, duration)
	g.Expect(copied.intended).To(BeNil(), "an agent from a copied directory")
	g.Expect(copied.acts()).To(BeFalse())
	next.read(r, duration)
	next.finish(r, true)
	g.Expect(next.acts()).To(BeTrue())
	g.Expect(next.predecessors).To(BeEmpty(), "should the one before be alive after all, it is a rival")
	first.read(r, duration)
	g.Expect(first.acts()).To(BeFalse())
}

// While a machine is suspended its monotonic clock stands still, and the Lease runs out.
// Edge case: A suspended agent kept the Lease.
func TestASuspendedAgentHoldsNoLease(t *testing.T) {
	g, r := NewWithT(t), &register{}
	one := newContender("me", time.Now())
	one.read(r, 40*time.Second)
	one.finish(r, true)
	g.Expect(one.acts()).To(BeTrue())
	one.clock.SetTime(suspended(one.clock.Now(), time.Hour))
	g.Expect(one.clock.Now().Sub(one.renewed)).To(BeNumerically("<", time.Second), "the monotonic clock stood still")
	g.Expect(one.acts()).To(BeFalse())
}

// suspended is t after a time in which the wall clock continued and the monotonic clock did not. No function of package time
// makes such a time, so it is written into its representation: the seconds of the wall clock stand above the 30 bits of the
// nanoseconds when there is a monotonic reading.
func suspended(t time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(by/time.Second) << 30
	return t
}

func TestTenure(t *testing.T) {
	const duration = 40 * time.Second
	g := NewWithT(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	register, first, second := &register{}, newContender("first", start), newContender("second", start.Add(-time.Hour))
	pass := func(d time.Duration) { first.clock.Step(d); second.clock.Step(d) }
	reason := func(c *contender) string { why, _ := c.Blocked(); return why.Reason }

	g.Expect(reason(first)).To(Equal(v1alpha1.ReasonLeaseNotHeld), "at the start")
	first.read(register, duration)
	g.Expect(reason(first)).To(Equal(v1alpha1.ReasonLeaseNotHeld), "before the answer")
	first.finish(register, true)
	g.Expect(reason(first)).To(BeEmpty())
	second.read(register, duration)
	g.Expect(reason(second)).To(Equal(v1alpha1.ReasonAnotherAgent))
	why, _ := second.Blocked()
	g.Expect(why.Message).To(ContainSubstring(`"first"`))

	// Cut off, it stops before another may start.
	pass(30*time.Second - 1)
	g.Expect(reason(first)).To(BeEmpty())
	pass(1)
	g.Expect(reason(first)).To(Equal(v1alpha1.ReasonLeaseNotHeld))
	why, _ = first.Blocked()
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
	_, lost := first.lostTo()
	g.Expect(lost).To(BeFalse())
	first.read(register, duration)
	to, lost := first.lostTo()
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
