package usage

import (
	"math"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, text string) *Curve {
	t.Helper()
	curve, err := Parse(text, CPU)
	if err != nil {
		t.Fatal(err)
	}
	return curve
}

func expectNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Claim: What was used is the area of the curve. Broken: the last point is forgotten; a repeated curve counts one round; a step is a ramp.
func TestCurves(t *testing.T) {
	const request = 2
	for text, steps := range map[string]map[time.Duration][2]float64{
		"50%":  {0: {1, 0}, time.Minute: {1, 60}},
		"200m": {0: {0.2, 0}, time.Hour: {0.2, 720}},
		"0":    {time.Hour: {0, 0}},
		"sine 1..3 period 40s": {0: {1, 0}, 10 * time.Second: {2, 20 - 20/math.Pi}, 20 * time.Second: {3, 40}, 40 * time.Second: {1, 80},
			400*time.Second + 20*time.Second: {3, 840}},
		"sine 50%..1500m period 10s": {0: {1, 0}, 5 * time.Second: {1.5, 6.25}},
		"curve 0s=1 10s=3":           {0: {1, 0}, 5 * time.Second: {2, 7.5}, 10 * time.Second: {3, 20}, 20 * time.Second: {3, 50}},
		"curve 10s=1 10s=3 20s=0%":   {0: {1, 0}, 9 * time.Second: {1, 9}, 10 * time.Second: {3, 10}, 15 * time.Second: {1.5, 21.25}, time.Minute: {0, 25}},
		"curve 0s=0 10s=2 repeat":    {5 * time.Second: {1, 2.5}, 10 * time.Second: {0, 10}, 25 * time.Second: {1, 22.5}},
		"curve 0s=1":                 {time.Second: {1, 1}},
	} {
		meter := NewMeter(mustParse(t, text), request)
		for at, want := range steps {
			expectNear(t, text+" at "+at.String(), meter.At(at), want[0])
			expectNear(t, text+" until "+at.String(), meter.Until(at), want[1])
		}
	}
	nothing := NewMeter(nil, request)
	expectNear(t, "the default", nothing.At(time.Second), 1)
	expectNear(t, "no meter", (&Meter{}).Until(time.Second), 0)
}

func TestARequestThatChanges(t *testing.T) {
	meter := NewMeter(mustParse(t, "50%"), 1)
	meter.SetRequest(10*time.Second, 4)
	expectNear(t, "at the change", meter.Until(10*time.Second), 5)
	expectNear(t, "after it", meter.Until(20*time.Second), 25)
	expectNear(t, "before it", meter.Until(time.Second), 5)
	meter.SetRequest(20*time.Second, 0)
	expectNear(t, "without a request", meter.Until(time.Hour), 25)
}

func TestWhatIsNoCurve(t *testing.T) {
	for text, cause := range map[string]string{
		"": "empty", "  ": "empty", "much": "not a quantity", "-1": "not a quantity", "1 2": "text after", "50 %": "text after",
		"-5%": "not a share", "inf%": "not a share", "1e3%": "not a share", "10001%": "not a share", "%": "not a share", "0x10%": "not a share",
		"1e3": "not a quantity", "1e-2000000": "not a quantity", "2000000": "not an amount", "1e9999999999999999999999999999999999": "too long",
		"sine": "two amounts", "sine 1..2": "two amounts", "sine 1..2 5m": "two amounts", "sine 1 period 5m": "not a quantity",
		"sine 1..2..3 period 5m": "not a quantity", "sine 1..2 period 0s": "less than", "sine 1..2 period -5s": "not a time",
		"sine 1..2 period 5m more": "two amounts",
		"curve":                    "points", "curve repeat": "points", "curve 1": "not a time and an amount", "curve 5=1": "not a time",
		"curve 0s=1 repeat": "repeats", "curve 5s=1 4s=1": "before", "curve 0s=": "not a quantity", "curve 0s=1=2": "not a quantity",
		"curve 9000h=1":                          "not a time",
		"curve " + strings.Repeat("0s=1 ", 1001): "points",
	} {
		if _, err := Parse(text, CPU); err == nil || !strings.Contains(err.Error(), cause) || !strings.Contains(err.Error(), "sine 100m..500m") {
			t.Errorf("%.60q: %v, want an error that says %q", text, err, cause)
		}
	}
	if _, err := Parse("much", Memory); err == nil || !strings.Contains(err.Error(), "200Mi") {
		t.Errorf("memory: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"50%", "200m", "sine 100m..500m period 5m", "sine 5..50% period 1s", "curve 0s=100m 60s=400m", "curve 1s=1 1s=5 2s=0 repeat", "1e3", "curve 0s=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		curve, err := Parse(text, CPU)
		if err != nil {
			return
		}
		meter := NewMeter(curve, 4)
		before := 0.0
		for _, at := range []time.Duration{0, 1, time.Second, 7 * time.Second, time.Minute, time.Hour, maxTime, 3 * maxTime} {
			now, used := meter.At(at), meter.Until(at)
			slack := 1e-9 * max(1, math.Abs(before))
			if math.IsNaN(now) || now < -slack || math.IsNaN(used) || math.IsInf(used, 0) || used < before-slack {
				t.Fatalf("%q at %s: uses %v, until then %v, before %v", text, at, now, used, before)
			}
			before = used
		}
	})
}
