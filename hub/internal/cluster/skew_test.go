package cluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestSkew(t *testing.T) {
	second := time.Second
	tests := map[string]struct {
		samples []time.Duration
		before  time.Duration
		want    time.Duration
	}{
		"none":                                {nil, 0, 0},
		"too few samples":                     {[]time.Duration{9 * second, 9 * second}, 0, 0},
		"ahead":                               {[]time.Duration{9 * second, 9 * second, 9 * second}, 0, 9 * second},
		"behind":                              {[]time.Duration{-9 * second, -9 * second, -9 * second}, 0, -9 * second},
		"below two seconds":                   {[]time.Duration{1900 * time.Millisecond, 0, 0}, 0, 0},
		"two seconds":                         {[]time.Duration{2 * second, 2 * second, 2 * second}, 0, 2 * second},
		"whole seconds":                       {[]time.Duration{2600 * time.Millisecond, 0, 0}, 0, 3 * second},
		"one that arrives late":               {[]time.Duration{0, -30 * second, 0}, 0, 0},
		"moved by less than two seconds":      {[]time.Duration{10900 * time.Millisecond, 0, 0}, 9 * second, 9 * second},
		"moved by two seconds":                {[]time.Duration{11 * second, 0, 0}, 9 * second, 11 * second},
		"gone":                                {[]time.Duration{0, 0, 0}, 9 * second, 0},
		"only the last few count":             {[]time.Duration{9 * second, 0, 0, 0}, 9 * second, 0},
		"too few samples keep what was known": {[]time.Duration{0}, 9 * second, 9 * second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var s skew
			for _, sample := range test.samples {
				s.measureSkew(sample)
			}
			g.Expect(valueOf(s.publishSkew(published(test.before)))).To(Equal(test.want))
		})
	}
}

func published(skew time.Duration) *metav1.Duration {
	if skew == 0 {
		return nil
	}
	return &metav1.Duration{Duration: skew}
}

func valueOf(skew *metav1.Duration) time.Duration {
	if skew == nil {
		return 0
	}
	return skew.Duration
}

// Whatever is measured, what was published is not news again: a Lease renewal never causes two writes.
func TestPublishedSkewIsSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s skew
		for _, sample := range rapid.SliceOfN(rapid.Int64Range(-20000, 20000), 0, 6).Draw(t, "samples") {
			s.measureSkew(time.Duration(sample) * time.Millisecond)
		}
		before := published(time.Duration(rapid.IntRange(-20, 20).Draw(t, "before")) * time.Second)
		after := s.publishSkew(before)
		if s.hasMoved() {
			t.Fatalf("%v is news after it was published as %v", s.measuredSkew(), after)
		}
		if again := s.publishSkew(after); valueOf(again) != valueOf(after) {
			t.Fatalf("published %v, then %v", after, again)
		}
		if after != nil && before != after && after.Duration.Abs() < leastSkew {
			t.Fatalf("published %v", after)
		}
	})
}
