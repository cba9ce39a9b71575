package loadtest

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func times(tuning v1alpha1.LoadTuning, seed uint64, total int) []time.Duration {
	p := newPacer(tuning, seed, 7, total, 0)
	var list []time.Duration
	for range total {
		list = append(list, p.nextDue())
	}
	return list
}

// Claim: Requests keep their schedule. Broken: bursts are ignored. Also: TestARampGrows.
func TestPacer(t *testing.T) {
	const total = 5000
	for name, test := range map[string]struct {
		tuning v1alpha1.LoadTuning
		// lasts is about how many seconds all requests take.
		lasts  float64
		random bool
	}{
		"steady":               {v1alpha1.LoadTuning{QPS: 50}, 100, false},
		"steady, bursts":       {v1alpha1.LoadTuning{QPS: 50, Burst: 10}, 100, false},
		"random":               {v1alpha1.LoadTuning{Type: v1alpha1.LoadRandom, QPS: 50}, 100, true},
		"random, bursts":       {v1alpha1.LoadTuning{Type: v1alpha1.LoadRandom, QPS: 50, Burst: 5}, 100, true},
		"poisson":              {v1alpha1.LoadTuning{Type: v1alpha1.LoadPoisson, QPS: 50}, 100, true},
		"a ramp":               {v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 10, QPS: 90}, 100, false},
		"a ramp down":          {v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 90, QPS: 10}, 100, false},
		"a ramp of no growth":  {v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 50, QPS: 50}, 100, false},
		"one without defaults": {v1alpha1.LoadTuning{}, 5000, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			list := times(test.tuning, 1, total)
			g.Expect(list).To(Equal(times(test.tuning, 1, total)), "the same seed gives the same times")
			g.Expect(list[total-1].Seconds()).To(BeNumerically("~", test.lasts, 0.07*test.lasts), "the mean rate")
			burst := int(max(test.tuning.Burst, 1))
			for i := 1; i < total; i++ {
				g.Expect(list[i]).To(BeNumerically(">=", list[i-1]))
				if i%burst != 0 {
					g.Expect(list[i]).To(Equal(list[i-1]), "a burst comes at once")
				}
			}
			if test.random {
				g.Expect(list).NotTo(Equal(times(test.tuning, 2, total)), "another seed gives other times")
			}
		})
	}
}

func TestARampGrows(t *testing.T) {
	g := NewWithT(t)
	list := times(v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 10, QPS: 90}, 1, 5000)
	in := func(from, to float64) (count int) {
		for _, at := range list {
			if at.Seconds() >= from && at.Seconds() < to {
				count++
			}
		}
		return count
	}
	g.Expect(in(0, 10)).To(BeNumerically("~", 140, 3), "from 10 to 18 a second")
	g.Expect(in(45, 55)).To(BeNumerically("~", 500, 3), "from 46 to 54 a second")
	g.Expect(in(90, 100)).To(BeNumerically("~", 860, 3), "from 82 to 90 a second")
}

// Eight phases of one rate must not make their requests all at once, whatever the seed.
// Claim: Parallel phases do not coincide. Broken: all start at once; all at the same part of the time between two.
func TestPhasesOfAStepAreApart(t *testing.T) {
	g := NewWithT(t)
	tuning := v1alpha1.LoadTuning{Type: v1alpha1.LoadSteady, QPS: 10}
	for seed := range uint64(50) {
		for phases := range 9 {
			var dues []time.Duration
			for phase := range phases {
				p := newPacer(tuning, seed, uint64(phase), 0, time.Minute).withOffset(offsetPart(seed, 3, phase, phases))
				again := newPacer(tuning, seed, uint64(phase), 0, time.Minute).withOffset(offsetPart(seed, 3, phase, phases))
				for range 3 {
					due := p.nextDue()
					g.Expect(again.nextDue()).To(Equal(due), "the same seed gives the same times")
					dues = append(dues, due)
				}
				g.Expect(p.offset).To(And(BeNumerically(">=", 0), BeNumerically("<", 100*time.Millisecond)), "no request is lost")
			}
			slices.Sort(dues)
			for i := 1; i < len(dues); i++ {
				g.Expect(dues[i]-dues[i-1]).To(BeNumerically(">=", 100*time.Millisecond/time.Duration(phases)-time.Microsecond), "seed %d, %d phases", seed, phases)
			}
		}
	}
	g.Expect(offsetPart(1, 3, 0, 2)).NotTo(Equal(offsetPart(2, 3, 0, 2)), "the seed decides")
	g.Expect(offsetPart(1, 3, 0, 1)).To(BeZero(), "a phase alone starts at once")
	g.Expect(newPacer(v1alpha1.LoadTuning{Type: v1alpha1.LoadPoisson, QPS: 10}, 1, 1, 0, 0).withOffset(0.5).offset).To(BeZero(), "random times are apart already")
}
