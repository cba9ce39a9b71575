package loadtest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// pacer says at which times since its beginning the requests of a phase are due. It is pure: the same seed gives the same times.
type pacer struct {
	tuning v1alpha1.LoadTuning
	random *rand.Rand
	// made is how many times it has given, and at the last of them.
	made int
	at   time.Duration
	// length is how long a Ramp takes.
	length float64
}

// newPacer returns the pacer of a phase with that many requests or, if total is 0, of one that goes on for duration.
func newPacer(tuning v1alpha1.LoadTuning, seed, phase uint64, total int, duration time.Duration) *pacer {
	tuning.QPS, tuning.Burst = max(tuning.QPS, 1), max(tuning.Burst, 1)
	p := &pacer{tuning: tuning, random: rand.New(rand.NewPCG(seed, phase)), length: duration.Seconds()}
	if total > 0 {
		p.length = 2 * float64(total) / float64(max(tuning.StartQPS, 1)+tuning.QPS)
	}
	return p
}

// next is when the next request is due.
func (p *pacer) next() time.Duration {
	n := p.made
	p.made++
	if n%int(p.tuning.Burst) != 0 {
		return p.at
	}
	mean := float64(p.tuning.Burst) / float64(p.tuning.QPS)
	switch p.tuning.Type {
	case v1alpha1.LoadRandom:
		p.at += seconds(p.random.Float64() * 2 * mean)
	case v1alpha1.LoadPoisson:
		p.at += seconds(p.random.ExpFloat64() * mean)
	case v1alpha1.LoadRamp:
		p.at = p.ramp(float64(n))
	case v1alpha1.LoadSteady:
		p.at = seconds(float64(n) / float64(p.tuning.QPS))
	default:
		p.at = seconds(float64(n) / float64(p.tuning.QPS))
	}
	return p.at
}

// ramp is when n requests have been made, at a rate that grows evenly from startQPS to qps and then stays.
func (p *pacer) ramp(n float64) time.Duration {
	start, end := float64(max(p.tuning.StartQPS, 1)), float64(p.tuning.QPS)
	during := (start + end) / 2 * p.length
	if n >= during {
		return seconds(p.length + (n-during)/end)
	}
	growth := (end - start) / p.length
	if math.Abs(growth) < 1e-9 {
		return seconds(n / end)
	}
	// n is the integral of the rate: start*t + growth*t*t/2.
	return seconds((math.Sqrt(start*start+2*growth*n) - start) / growth)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
