package machineset

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAReadIsUsedOnlyIfItBeganAfterTheLastWrite(t *testing.T) {
	g := NewWithT(t)
	machines, now := NewSnapshots(), time.Now()
	before := machines.Now()
	begun := machines.Now()
	after := machines.Now()
	machines.Put("pool", begun, now, []*v1alpha1.Machine{{}, {}})
	seen, ok := machines.Since("pool", before, now)
	g.Expect(ok).To(BeTrue())
	g.Expect(seen).To(HaveLen(2))
	for what, stamp := range map[string]Stamp{"the same moment": begun, "a write after it started": after} {
		_, ok = machines.Since("pool", stamp, now)
		g.Expect(ok).To(BeFalse(), what)
	}
	_, ok = machines.Since("other", before, now)
	g.Expect(ok).To(BeFalse(), "another deployment's")
	_, ok = machines.Since("pool", before, now.Add(MaxAge+1))
	g.Expect(ok).To(BeFalse(), "too old")
	machines.Drop("pool")
	_, ok = machines.Since("pool", before, now)
	g.Expect(ok).To(BeFalse(), "dropped")
}

func TestAReadIsForgottenWhenItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		machines := NewSnapshots()
		machines.Put("pool", machines.Now(), time.Now(), nil)
		<-time.After(MaxAge / 2)
		second := machines.Now()
		machines.Put("pool", second, time.Now(), nil)
		<-time.After(MaxAge * 3 / 4)
		synctest.Wait()
		_, ok := machines.Since("pool", second-1, time.Now())
		g.Expect(ok).To(BeTrue(), "the first one's end does not take the second one along")
		<-time.After(MaxAge)
		synctest.Wait()
		g.Expect(machines.taken).To(BeEmpty())
	})
}

func TestNoSnapshotsHaveNothing(t *testing.T) {
	g := NewWithT(t)
	var none *Snapshots
	none.Put("pool", none.Now(), time.Now(), nil)
	none.Drop("pool")
	_, ok := none.Since("pool", 0, time.Now())
	g.Expect(ok).To(BeFalse())
}
