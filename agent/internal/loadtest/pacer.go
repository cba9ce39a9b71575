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
	// offset is how much later a phase that is Steady or a Ramp starts, so that the phases of a step do not make their requests at the
	// same instants.
	offset time.Duration
}

// offsetPart is the part of the time between two requests at which a phase starts. Phases of equal rates are evenly apart, and
// where the first one is follows from the seed. A phase alone starts at once.
func offsetPart(seed, step uint64, phase, phases int) float64 {
	if phases < 2 {
		return 0
	}
	first := rand.New(rand.NewPCG(seed, ^step)).Float64()
	return (float64(phase) + first) / float64(phases)
}

// withOffset lets the phase start at a part of the time between two of its requests.
func (p *pacer) withOffset(part float64) *pacer {
	switch p.tuning.Type {
	case v1alpha1.LoadRandom, v1alpha1.LoadPoisson:
	case v1alpha1.LoadSteady, v1alpha1.LoadRamp, "":
		p.offset = secondsToDuration(part * float64(p.tuning.Burst) / float64(p.tuning.QPS))
	}
	return p
}

// newPacer returns the pacer of a phase with that many requests or, if total is 0, of one that continues for duration.
func newPacer(tuning v1alpha1.LoadTuning, seed, phase uint64, total int, duration time.Duration) *pacer {
	tuning.QPS, tuning.Burst = max(tuning.QPS, 1), max(tuning.Burst, 1)
	p := &pacer{tuning: tuning, random: rand.New(rand.NewPCG(seed, phase)), length: duration.Seconds()}
	if total > 0 {
		p.length = 2 * float64(total) / float64(max(tuning.StartQPS, 1)+tuning.QPS)
	}
	return p
}

// nextDue is when the next request is due.
func (p *pacer) nextDue() time.Duration {
	n := p.made
	p.made++
	if n%int(p.tuning.Burst) != 0 {
		return p.at + p.offset
	}
	mean := float64(p.tuning.Burst) / float64(p.tuning.QPS)
	switch p.tuning.Type {
	case v1alpha1.LoadRandom:
		p.at += secondsToDuration(p.random.Float64() * 2 * mean)
	case v1alpha1.LoadPoisson:
		p.at += secondsToDuration(p.random.ExpFloat64() * mean)
	case v1alpha1.LoadRamp:
		p.at = p.rampTime(float64(n))
	case v1alpha1.LoadSteady:
		p.at = secondsToDuration(float64(n) / float64(p.tuning.QPS))
	default:
		p.at = secondsToDuration(float64(n) / float64(p.tuning.QPS))
	}
	return p.at + p.offset
}

// rampTime is when n requests have been made, at a rate that grows evenly from startQPS to qps and then stays.
func (p *pacer) rampTime(n float64) time.Duration {
	start, end := float64(max(p.tuning.StartQPS, 1)), float64(p.tuning.QPS)
	during := (start + end) / 2 * p.length
	if n >= during {
		return secondsToDuration(p.length + (n-during)/end)
	}
	growth := (end - start) / p.length
	if math.Abs(growth) < 1e-9 {
		return secondsToDuration(n / end)
	}
	// n is the integral of the rate: start*t + growth*t*t/2.
	return secondsToDuration((math.Sqrt(start*start+2*growth*n) - start) / growth)
}

func secondsToDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
