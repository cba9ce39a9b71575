package measurement

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestSeriesWiden(t *testing.T) {
	g := NewWithT(t)
	s := newSeries()
	for i := range 1000 {
		s.recordTime(time.Duration(i)*10*time.Second, time.Duration(i+1)*time.Millisecond)
	}
	points := s.encodePoints()
	g.Expect(len(points)).To(And(BeNumerically("<=", mostPoints), BeNumerically(">", mostPoints/2)))
	var count int64
	for i, point := range points {
		count += point.Count
		if i > 0 {
			g.Expect(point.Seconds - points[i-1].Seconds).To(BeNumerically("==", s.width.Seconds()))
		}
	}
	g.Expect(count).To(BeEquivalentTo(1000), "nothing is lost")
	g.Expect(points[0].P99.Duration).To(BeNumerically("<", points[len(points)-1].P50.Duration))
}
