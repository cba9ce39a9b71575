// Package usage models how much CPU and memory something uses that does not run. A Curve says how much over time; a Meter counts it
// exactly, so that a rate that is computed from two readings is that of the curve between them.
package usage

import (
	"math"
	"sort"
	"time"
)

const (
	// AssumedCPU, in cores, and AssumedMemory, in bytes, are what a container counts as requesting that requests nothing.
	AssumedCPU    = 0.02
	AssumedMemory = 64 << 20
	// MinMemory is the least memory of a container, in bytes: metrics-server takes a container without any for one that is not measured.
	MinMemory = 1 << 20
	// StartCPU is what the start of a container uses, in core seconds, for the same reason.
	StartCPU = 0.01

	defaultShare = 0.5
)

// Default is what a container uses whose pod says nothing: half of what it requests.
func Default() *Curve { return &defaultCurve }

var defaultCurve = Curve{points: []point{{amount: amount{share: defaultShare}}}}

// amount is a part of what is requested and a fixed one: cores or bytes.
type amount struct{ share, fixed float64 }

func (a amount) plus(b amount) amount            { return amount{a.share + b.share, a.fixed + b.fixed} }
func (a amount) times(factor float64) amount     { return amount{a.share * factor, a.fixed * factor} }
func (a amount) resolve(request float64) float64 { return a.share*request + a.fixed }

// point is an amount that is used at a time.
type point struct {
	after  time.Duration
	amount amount
}

// Curve is how much is used, by the time since the start. The zero value is nothing. A Curve is not changed.
type Curve struct {
	// points are joined by lines. Before the first and after the last one the amount is theirs.
	points []point
	// repeats lets the last point be the first one again.
	repeats bool
	// wave is a sine instead of points, if its period is not 0.
	wave wave
}

// wave goes from low to high and back in a period.
type wave struct {
	low, high amount
	period    time.Duration
}

// at is the amount at a time.
func (c *Curve) at(t time.Duration) amount {
	switch {
	case c.wave.period > 0:
		return c.wave.at(t)
	case len(c.points) == 0:
		return amount{}
	}
	if c.repeats {
		t %= c.points[len(c.points)-1].after
	}
	i := sort.Search(len(c.points), func(i int) bool { return c.points[i].after > t })
	switch i {
	case 0:
		return c.points[0].amount
	case len(c.points):
		return c.points[i-1].amount
	}
	return between(c.points[i-1], c.points[i], t)
}

// between is the amount on the line from a to b, which are apart.
func between(a, b point, t time.Duration) amount {
	part := float64(t-a.after) / float64(b.after-a.after)
	return a.amount.times(1 - part).plus(b.amount.times(part))
}

// until is what is used from the start to a time, in amounts times seconds.
func (c *Curve) until(t time.Duration) amount {
	switch {
	case c.wave.period > 0:
		return c.wave.until(t)
	case len(c.points) == 0:
		return amount{}
	}
	last := c.points[len(c.points)-1]
	if !c.repeats || t < last.after {
		return c.untilOnce(t)
	}
	rounds := float64(t / last.after)
	return c.untilOnce(last.after).times(rounds).plus(c.untilOnce(t % last.after))
}

// untilOnce is what is used from the start to a time by points that do not repeat.
func (c *Curve) untilOnce(t time.Duration) amount {
	before := point{amount: c.points[0].amount}
	var used amount
	for _, next := range c.points {
		if next.after >= t {
			if next.after > before.after {
				next = point{after: t, amount: between(before, next, t)}
			}
			return used.plus(areaOf(before, next))
		}
		used = used.plus(areaOf(before, next))
		before = next
	}
	return used.plus(areaOf(before, point{after: t, amount: before.amount}))
}

// areaOf is what is used on the line from a to b.
func areaOf(a, b point) amount {
	return a.amount.plus(b.amount).times((b.after - a.after).Seconds() / 2)
}

func (w wave) at(t time.Duration) amount {
	return w.mean().plus(w.swing().times(-math.Cos(w.angle(t))))
}

func (w wave) until(t time.Duration) amount {
	return w.mean().times(t.Seconds()).plus(w.swing().times(-math.Sin(w.angle(t)) * w.period.Seconds() / (2 * math.Pi)))
}

func (w wave) mean() amount  { return w.low.plus(w.high).times(0.5) }
func (w wave) swing() amount { return w.high.plus(w.low.times(-1)).times(0.5) }

// angle is in the period of t: a float cannot tell the seconds of a long time.
func (w wave) angle(t time.Duration) float64 {
	return 2 * math.Pi * float64(t%w.period) / float64(w.period)
}

// Meter counts what is used along a curve, of a request that may change. Times are since the start, and never go back.
type Meter struct {
	curve   *Curve
	request float64
	// counted is what was used until the request changed, at since.
	counted float64
	since   time.Duration
}

// NewMeter returns a meter at the start. A nil curve is Default.
func NewMeter(curve *Curve, request float64) Meter {
	if curve == nil {
		curve = Default()
	}
	return Meter{curve: curve, request: request}
}

// At is how much is used at a time.
func (m *Meter) At(t time.Duration) float64 {
	if m.curve == nil {
		return 0
	}
	return m.curve.at(max(t, 0)).resolve(m.request)
}

// Until is how much was used until a time, times seconds.
func (m *Meter) Until(t time.Duration) float64 {
	if m.curve == nil {
		return 0
	}
	t = max(t, m.since)
	return m.counted + m.curve.until(t).resolve(m.request) - m.curve.until(m.since).resolve(m.request)
}

// SetRequest changes the request from a time on.
func (m *Meter) SetRequest(t time.Duration, request float64) {
	m.counted, m.since = m.Until(t), max(t, m.since)
	m.request = request
}
