package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRenewAtIsWhen20To25PercentAreLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lifetime := time.Duration(rapid.Int64Range(int64(10*time.Minute), int64(365*24*time.Hour)).Draw(t, "lifetime"))
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		left := now.Add(lifetime).Sub(RenewAt(now, now.Add(lifetime), now, random))
		if share := left.Seconds() / lifetime.Seconds(); share < 0.1999 || share > 0.2501 {
			t.Errorf("renewed with %.3f of the lifetime left", share)
		}
	})
}

func TestRenewAtMakesAWrongClockAskSeldom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		skew := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "skew"))
		taken := now.Add(skew)
		if wait := RenewAt(now, now.Add(time.Hour), taken, 0.5).Sub(taken); wait < 6*time.Minute {
			t.Errorf("asks again after %s", wait)
		}
	})
}

func TestDue(t *testing.T) {
	held := func(change func(*Held)) *Held {
		h := &Held{NotAfter: now.Add(time.Hour), RenewAt: now.Add(time.Minute)}
		change(h)
		return h
	}
	tests := map[string]struct {
		held *Held
		want bool
	}{
		"none":            {nil, true},
		"fresh":           {held(func(*Held) {}), false},
		"refused":         {held(func(h *Held) { h.Refused = true }), true},
		"just due":        {held(func(h *Held) { h.RenewAt = now }), true},
		"one second left": {held(func(h *Held) { h.RenewAt = now.Add(time.Second) }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Due(test.held, now); got != test.want {
				t.Errorf("Due = %t, want %t", got, test.want)
			}
		})
	}
}

func TestAs(t *testing.T) {
	valid, lapsed := &Held{NotAfter: now.Add(time.Minute)}, &Held{NotAfter: now}
	refused := &Held{NotAfter: now.Add(time.Minute), Refused: true}
	given, none, spent := Bootstrap{Given: true}, Bootstrap{}, Bootstrap{Given: true, Refused: true}
	tests := map[string]struct {
		held      *Held
		bootstrap Bootstrap
		want      Identity
	}{
		"first time":                               {nil, given, Joining},
		"nothing at all":                           {nil, none, Nobody},
		"renewal":                                  {valid, given, Own},
		"renewal without a bootstrap credential":   {valid, none, Own},
		"lapsed, with a bootstrap credential":      {lapsed, given, Joining},
		"lapsed by a clock that may be wrong":      {lapsed, none, Own},
		"lapsed, and the token is spent":           {lapsed, spent, Own},
		"refused, with a bootstrap credential":     {refused, given, Joining},
		"refused, without one":                     {refused, none, Nobody},
		"refused, and the token too: keeps asking": {refused, spent, Joining},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := As(test.held, test.bootstrap, now); got != test.want {
				t.Errorf("As = %q, want %q", got, test.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	const m = time.Minute
	tests := map[string]struct {
		request           *Request
		removed, refusals int
		want              Step
	}{
		"none":                                  {nil, 0, 0, Create},
		"mine, pending for long":                {&Request{Pending, true, 100 * m}, 0, 0, Await},
		"mine, approved":                        {&Request{Approved, true, 0}, 0, 0, Await},
		"mine, issued":                          {&Request{Issued, true, 0}, 0, 0, Collect},
		"mine, just denied":                     {&Request{Denied, true, 0}, 0, 0, Await},
		"mine, denied a while ago":              {&Request{Denied, true, m / 4}, 0, 0, Remove},
		"mine, denied again":                    {&Request{Denied, true, m/2 - 1}, 0, 1, Await},
		"mine, denied often":                    {&Request{Denied, true, 10 * m}, 0, 40, Remove},
		"mine, failed":                          {&Request{Failed, true, m / 4}, 0, 0, Remove},
		"another's, pending":                    {&Request{Pending, false, m - 1}, 0, 0, Await},
		"another's, pending for a minute":       {&Request{Pending, false, m}, 0, 0, Remove},
		"another's, after others were removed":  {&Request{Pending, false, 4*m - 1}, 2, 0, Await},
		"another's, after many were removed":    {&Request{Pending, false, 16 * m}, 50, 0, Remove},
		"another's, approved and not issued":    {&Request{Approved, false, m - 1}, 0, 0, Await},
		"another's, approved, never issued":     {&Request{Approved, false, m}, 0, 0, Remove},
		"another's or an earlier one, issued":   {&Request{Issued, false, 0}, 0, 0, Remove},
		"another's or an earlier one, denied":   {&Request{Denied, false, 0}, 0, 0, Remove},
		"another's or an earlier one, failed":   {&Request{Failed, false, 0}, 0, 0, Remove},
		"another's, however impatient we are":   {&Request{Pending, false, 0}, 0, 99, Await},
		"mine, however often others were there": {&Request{Pending, true, 99 * m}, 99, 99, Await},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Next(test.request, test.removed, test.refusals); got != test.want {
				t.Errorf("Next = %s, want %s", got, test.want)
			}
		})
	}
}

func TestAForeignPendingRequestIsLeftAloneForAMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := &Request{
			State: rapid.SampledFrom([]State{Pending, Approved}).Draw(t, "state"),
			Known: time.Duration(rapid.Int64Range(0, int64(time.Minute)-1).Draw(t, "known")),
		}
		removed, refusals := rapid.IntRange(0, 100).Draw(t, "removed"), rapid.IntRange(0, 100).Draw(t, "refusals")
		if got := Next(request, removed, refusals); got != Await {
			t.Errorf("Next = %s", got)
		}
	})
}

func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failures, random := rapid.IntRange(1, 1000).Draw(t, "failures"), rapid.Float64Range(0, 0.999999).Draw(t, "random")
		got := Backoff(failures, random)
		if got < 750*time.Millisecond || got > 150*time.Second {
			t.Errorf("Backoff = %s", got)
		}
		if again := Backoff(failures+2, random); again < got {
			t.Errorf("it shrinks from %s to %s", got, again)
		}
	})
	if got := Backoff(1, 0.5); got != time.Second {
		t.Errorf("the first one is %s", got)
	}
}
