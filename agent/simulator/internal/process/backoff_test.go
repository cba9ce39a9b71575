package process

import (
	"slices"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		healthyFor []time.Duration
		want       []time.Duration
	}{
		"grows to its limit":      {[]time.Duration{0, 0, 0, 0, 0, 0}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s}},
		"short health counts not": {[]time.Duration{0, 29 * s, 29 * s}, []time.Duration{s, 2 * s, 4 * s}},
		"health starts over":      {[]time.Duration{0, 0, 30 * s, 0}, []time.Duration{s, 2 * s, s, 2 * s}},
	} {
		var delays backoff
		var got []time.Duration
		for _, healthy := range test.healthyFor {
			got = append(got, delays.nextDelay(healthy))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: delays %v, want %v", name, got, test.want)
		}
	}
}
