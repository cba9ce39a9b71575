package measurement

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Creation times and those of answers are whole seconds: what passed is at most that, and never more than a second less.
func TestHowLongAgoAnObjectWasMade(t *testing.T) {
	for _, ahead := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		g := NewWithT(t)
		c := &clockOffset{}
		begin := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
		g.Expect(c.timeSince(begin, begin.Add(ahead))).To(BeZero(), "its clock is not known")
		c.addAnswer(http.Header{"Date": []string{"yesterday"}}, begin)
		for i := range 100 {
			at := begin.Add(time.Duration(i) * 137 * time.Millisecond)
			c.addAnswer(http.Header{"Date": []string{at.Format(http.TimeFormat)}}, at.Add(ahead+3*time.Millisecond))
		}
		for _, late := range []time.Duration{0, time.Second, 12 * time.Second} {
			made := begin.Add(30*time.Second + 900*time.Millisecond)
			got := c.timeSince(made.Truncate(time.Second), made.Add(ahead+late))
			g.Expect(got).To(And(BeNumerically(">=", late), BeNumerically("<=", late+time.Second)), "%s ahead, %s late", ahead, late)
		}
	}
}

func TestAWatchIsBehindOnlyWhereRequestsAreNot(t *testing.T) {
	g := NewWithT(t)
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	var lags, slow longestByTime
	g.Expect(lags.longestUnexplained(&slow)).To(BeZero())
	lags.addTime(at(11), 6*time.Second)
	slow.addTime(at(12), 6*time.Second)
	slow.addTime(at(50), 100*time.Millisecond)
	g.Expect(lags.longestUnexplained(&slow)).To(BeZero(), "the API server was slow as a whole")
	lags.addTime(at(50), 4*time.Second)
	g.Expect(lags.longestUnexplained(&slow)).To(Equal(4 * time.Second))
}
