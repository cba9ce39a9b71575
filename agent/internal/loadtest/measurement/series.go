package measurement

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// mostPoints and shortestPoint are what the API says of series.
	mostPoints    = 120
	shortestPoint = 5 * time.Second
	// longestMeasured is in microseconds, as in histograms. Points need fewer digits than those.
	longestMeasured, pointDigits = 3_600_000_000, 2
)

// series is a measurement over time. When it has too many points, each two become one.
type series struct {
	width  time.Duration
	points []*hdrhistogram.Histogram
}

func newSeries() *series { return &series{width: shortestPoint} }

// recordTime adds what was measured at a time since the beginning.
func (s *series) recordTime(at, measured time.Duration) {
	i := int(max(at, 0) / s.width)
	for i >= mostPoints {
		s.widenSlices()
		i = int(at / s.width)
	}
	for len(s.points) <= i {
		s.points = append(s.points, nil)
	}
	if s.points[i] == nil {
		s.points[i] = hdrhistogram.New(1, longestMeasured, pointDigits)
	}
	// The value is in the range, so that there is no error.
	_ = s.points[i].RecordValue(min(max(measured.Microseconds(), 1), longestMeasured))
}

func (s *series) widenSlices() {
	s.width *= 2
	for i, point := range s.points {
		switch {
		case i%2 == 0:
			s.points[i/2] = point
		case s.points[i/2] == nil:
			s.points[i/2] = point
		case point != nil:
			s.points[i/2].Merge(point)
		}
	}
	s.points = s.points[:(len(s.points)+1)/2]
}

// encodePoints is the series in a status. Times in which nothing was measured are left out.
func (s *series) encodePoints() []v1alpha1.LoadPoint {
	var points []v1alpha1.LoadPoint
	for i, point := range s.points {
		if point == nil {
			continue
		}
		at := func(percent float64) metav1.Duration {
			return metav1.Duration{Duration: time.Duration(point.ValueAtPercentile(percent)) * time.Microsecond}
		}
		points = append(points, v1alpha1.LoadPoint{
			Seconds: int32(time.Duration(i) * s.width / time.Second), Count: point.TotalCount(), P50: at(50), P99: at(99),
		})
	}
	return points
}
