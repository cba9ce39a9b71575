package clientcert

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
		left := now.Add(lifetime).Sub(renewalTime(now, now.Add(lifetime), now, random))
		if share := left.Seconds() / lifetime.Seconds(); share < 0.1999 || share > 0.2501 {
			t.Errorf("renewed with %.3f of the lifetime left", share)
		}
	})
}

func TestRenewAtMakesAWrongClockAskSeldom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		skew := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "skew"))
		taken := now.Add(skew)
		if wait := renewalTime(now, now.Add(time.Hour), taken, 0.5).Sub(taken); wait < 6*time.Minute {
			t.Errorf("asks again after %s", wait)
		}
	})
}

func TestDue(t *testing.T) {
	held := func(change func(*heldCredential)) *heldCredential {
		h := &heldCredential{NotAfter: now.Add(time.Hour), RenewAt: now.Add(time.Minute)}
		change(h)
		return h
	}
	tests := map[string]struct {
		held *heldCredential
		want bool
	}{
		"none":            {nil, true},
		"fresh":           {held(func(*heldCredential) {}), false},
		"refused":         {held(func(h *heldCredential) { h.Refused = true }), true},
		"just due":        {held(func(h *heldCredential) { h.RenewAt = now }), true},
		"one second left": {held(func(h *heldCredential) { h.RenewAt = now.Add(time.Second) }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := renewalDue(test.held, now); got != test.want {
				t.Errorf("Due = %t, want %t", got, test.want)
			}
		})
	}
}

func TestAs(t *testing.T) {
	valid, lapsed := &heldCredential{NotAfter: now.Add(time.Minute)}, &heldCredential{NotAfter: now}
	refused := &heldCredential{NotAfter: now.Add(time.Minute), Refused: true}
	given, none, spent := bootstrapState{Given: true}, bootstrapState{}, bootstrapState{Given: true, Refused: true}
	tests := map[string]struct {
		held      *heldCredential
		bootstrap bootstrapState
		want      hubIdentity
	}{
		"first time":                               {nil, given, joiningIdentity},
		"nothing at all":                           {nil, none, noIdentity},
		"renewal":                                  {valid, given, ownIdentity},
		"renewal without a bootstrap credential":   {valid, none, ownIdentity},
		"lapsed, with a bootstrap credential":      {lapsed, given, joiningIdentity},
		"lapsed by a clock that may be wrong":      {lapsed, none, ownIdentity},
		"lapsed, and the token is spent":           {lapsed, spent, ownIdentity},
		"refused, with a bootstrap credential":     {refused, given, joiningIdentity},
		"refused, without one":                     {refused, none, noIdentity},
		"refused, and the token too: keeps asking": {refused, spent, joiningIdentity},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := identityToUse(test.held, test.bootstrap, now); got != test.want {
				t.Errorf("As = %q, want %q", got, test.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	const m = time.Minute
	tests := map[string]struct {
		request           *observedRequest
		removed, refusals int
		want              requestStep
	}{
		"none":                                  {nil, 0, 0, createRequest},
		"mine, pending for long":                {&observedRequest{requestPending, true, 100 * m}, 0, 0, awaitRequest},
		"mine, approved":                        {&observedRequest{requestApproved, true, 0}, 0, 0, awaitRequest},
		"mine, issued":                          {&observedRequest{requestIssued, true, 0}, 0, 0, collectCertificate},
		"mine, just denied":                     {&observedRequest{requestDenied, true, 0}, 0, 0, awaitRequest},
		"mine, denied a while ago":              {&observedRequest{requestDenied, true, m / 4}, 0, 0, removeRequest},
		"mine, denied again":                    {&observedRequest{requestDenied, true, m/2 - 1}, 0, 1, awaitRequest},
		"mine, denied often":                    {&observedRequest{requestDenied, true, 10 * m}, 0, 40, removeRequest},
		"mine, failed":                          {&observedRequest{requestFailed, true, m / 4}, 0, 0, removeRequest},
		"another's, pending":                    {&observedRequest{requestPending, false, m - 1}, 0, 0, awaitRequest},
		"another's, pending for a minute":       {&observedRequest{requestPending, false, m}, 0, 0, removeRequest},
		"another's, after others were removed":  {&observedRequest{requestPending, false, 4*m - 1}, 2, 0, awaitRequest},
		"another's, after many were removed":    {&observedRequest{requestPending, false, 16 * m}, 50, 0, removeRequest},
		"another's, approved and not issued":    {&observedRequest{requestApproved, false, m - 1}, 0, 0, awaitRequest},
		"another's, approved, never issued":     {&observedRequest{requestApproved, false, m}, 0, 0, removeRequest},
		"another's or an earlier one, issued":   {&observedRequest{requestIssued, false, 0}, 0, 0, removeRequest},
		"another's or an earlier one, denied":   {&observedRequest{requestDenied, false, 0}, 0, 0, removeRequest},
		"another's or an earlier one, failed":   {&observedRequest{requestFailed, false, 0}, 0, 0, removeRequest},
		"another's, however impatient we are":   {&observedRequest{requestPending, false, 0}, 0, 99, awaitRequest},
		"mine, however often others were there": {&observedRequest{requestPending, true, 99 * m}, 99, 99, awaitRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := nextStep(test.request, test.removed, test.refusals); got != test.want {
				t.Errorf("Next = %s, want %s", got, test.want)
			}
		})
	}
}

func TestAForeignPendingRequestIsLeftAloneForAMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := &observedRequest{
			State: rapid.SampledFrom([]requestState{requestPending, requestApproved}).Draw(t, "state"),
			Known: time.Duration(rapid.Int64Range(0, int64(time.Minute)-1).Draw(t, "known")),
		}
		removed, refusals := rapid.IntRange(0, 100).Draw(t, "removed"), rapid.IntRange(0, 100).Draw(t, "refusals")
		if got := nextStep(request, removed, refusals); got != awaitRequest {
			t.Errorf("Next = %s", got)
		}
	})
}

func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failures, random := rapid.IntRange(1, 1000).Draw(t, "failures"), rapid.Float64Range(0, 0.999999).Draw(t, "random")
		got := retryDelay(failures, random)
		if got < 750*time.Millisecond || got > 150*time.Second {
			t.Errorf("Backoff = %s", got)
		}
		if again := retryDelay(failures+2, random); again < got {
			t.Errorf("it shrinks from %s to %s", got, again)
		}
	})
	if got := retryDelay(1, 0.5); got != time.Second {
		t.Errorf("the first one is %s", got)
	}
}
