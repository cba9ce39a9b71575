package cluster

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// leastSkew is the smallest clock skew, and the smallest change of one, that is worth a write.
	leastSkew = 2 * time.Second
	// warnSkew is the clock skew above which the user is told.
	warnSkew = 5 * time.Second
	// skewSamples is how many renewals are looked at together. What comes late makes a clock seem slow, never
	// fast: the greatest of a few is nearest to the truth, and one late arrival changes nothing.
	skewSamples = 3
)

// skew measures how far an agent's clock is ahead of the hub's.
type skew struct {
	samples [skewSamples]time.Duration
	count   int
	// published is what the status says.
	published time.Duration
}

// measure takes in the time that an agent wrote less the hub's time when it saw that.
func (s *skew) measure(ahead time.Duration) {
	s.samples[s.count%skewSamples] = ahead
	s.count++
}

// moved tells whether the measure differs from what was published so far that it is worth a write. Nothing is known
// before there are enough samples.
func (s *skew) moved() bool {
	return s.count >= skewSamples && (s.measured()-s.published).Abs() >= leastSkew
}

func (s *skew) measured() time.Duration {
	return max(s.samples[0], s.samples[1], s.samples[2])
}

// publish returns what status.clockSkew is to say after before.
func (s *skew) publish(before *metav1.Duration) *metav1.Duration {
	s.published = 0
	if before != nil {
		s.published = before.Duration
	}
	if !s.moved() {
		return before
	}
	s.published = s.measured().Round(time.Second)
	if s.published.Abs() < leastSkew {
		s.published = 0
		return nil
	}
	return &metav1.Duration{Duration: s.published}
}
