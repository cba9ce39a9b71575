package hollownode

import (
	"testing"
	"time"
)

func TestAProcessThatStandsStillMostOfTheTime(t *testing.T) {
	for name, test := range map[string]struct {
		late []time.Duration
		want bool
	}{
		"always in time": {repeated(10, time.Millisecond), false},
		"a busy machine": {repeated(10, 60*time.Millisecond), false},
		"one long stop":  {append(repeated(9, time.Millisecond), time.Minute), false},
		"stopped for 90 %": {[]time.Duration{
			100 * time.Millisecond, 300 * time.Millisecond, 450 * time.Millisecond, 800 * time.Millisecond, 0,
			600 * time.Millisecond, 700 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, 350 * time.Millisecond,
		}, true},
		"too few looks":          {repeated(standstillLooks-1, time.Second), false},
		"it has become well":     {append(repeated(20, time.Second), repeated(10, time.Millisecond)...), false},
		"it has just started so": {append(repeated(20, time.Millisecond), repeated(6, time.Second)...), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &standstill{}
			for _, late := range test.late {
				s.addDelay(late)
			}
			if got := s.stoodStill(); got != test.want {
				t.Errorf("it is %t, not %t", got, test.want)
			}
		})
	}
}

func repeated(n int, late time.Duration) []time.Duration {
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = late
	}
	return list
}
