package freeze

import (
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var testPolicy = Policy{After: 30 * time.Second, Successes: 3}

// step is one probe result, or with an empty outcome just the passing of time.
type step struct {
	at         time.Duration
	outcome    Outcome
	wantThawed bool
}

// Claim: An API server that refuses or fails freezes like a silent one. Broken: 429 counts as a good answer.
// Edge case: A failing API server freezes; Unknown Machines get their health timer back. Also: TestMonitor; agent/internal/machine "should fail what stays unhealthy, not counting frozen time".
func TestEndpoint(t *testing.T) {
	const s = time.Second
	tests := map[string][]step{
		"should thaw at the third good answer and not before": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true},
		},
		"should start to count again after a bad answer": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, Timeout, false}, {3 * s, OK, false}, {4 * s, OK, false}, {5 * s, OK, true},
		},
		"should not count a refusal as an answer": {
			{0, Forbidden, false}, {1 * s, Unauthorized, false}, {2 * s, RateLimited, false}, {3 * s, ServerError, false}, {4 * s, NotFound, false},
		},
		"should freeze when it is refused, put off or failed for as long as the policy says": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true},
			{8 * s, RateLimited, true}, {16 * s, ServerError, true}, {24 * s, Unauthorized, true}, {31 * s, Forbidden, true}, {32 * s, RateLimited, false},
		},
		"should stay thawed through a blip": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true}, {7 * s, Refused, true}, {31 * s, Refused, true}, {31 * s, OK, true}, {60 * s, "", true},
		},
		// Edge case: MCM #81–#88, #718, #346: two blips hours apart freeze.
		"MCM #81–#88, #718, #346: should not add up blips that are far apart": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true},
			{10 * s, Refused, true}, {30 * s, Refused, true}, {31 * s, OK, true},
			{3600 * s, "", false}, // an hour without any probe is no answer either
			{3601 * s, OK, false}, {3602 * s, OK, false}, {3603 * s, OK, true},
			{3620 * s, Refused, true}, {3632 * s, Refused, true}, {3632 * s, OK, true},
		},
		"should freeze when the last good answer is as old as the policy says": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true}, {20 * s, Timeout, true}, {31 * s, "", true}, {32 * s, "", false},
		},
		"should freeze by time alone, without a probe coming back": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true}, {31999 * time.Millisecond, "", true}, {32 * s, "", false},
		},
		"should be frozen when a process continues after it was stopped, although the first answer is good": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true}, {120 * s, OK, false}, {121 * s, OK, false}, {122 * s, OK, true},
		},
		"should not thaw while flapping": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, Refused, false}, {3 * s, OK, false}, {4 * s, OK, false}, {5 * s, Refused, false},
			{6 * s, OK, false}, {7 * s, OK, false}, {8 * s, Timeout, false},
		},
		"should stay thawed while flapping, as every other answer is good": {
			{0, OK, false}, {1 * s, OK, false}, {2 * s, OK, true}, {12 * s, Refused, true}, {22 * s, OK, true}, {32 * s, Refused, true}, {42 * s, OK, true}, {71 * s, "", true}, {72 * s, "", false},
		},
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(testPolicy, start)
			for i, step := range steps {
				now := start.Add(step.at)
				if step.outcome == "" {
					e.advanceTo(now)
				} else {
					e.observeProbe(step.outcome, "", now)
				}
				if e.thawed != step.wantThawed {
					t.Fatalf("step %d at %s (%s): thawed = %t, want %t", i, step.at, step.outcome, e.thawed, step.wantThawed)
				}
			}
		})
	}
}

func TestSilentFromTheStart(t *testing.T) {
	const s = time.Second
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	steps := []struct {
		at      time.Duration
		outcome Outcome
		want    string
	}{
		{0, "", v1alpha1.ReasonStarting},
		{20 * s, Timeout, v1alpha1.ReasonStarting},
		{25 * s, OK, v1alpha1.ReasonStarting},
		{26 * s, Refused, v1alpha1.ReasonStarting},
		{54 * s, "", v1alpha1.ReasonStarting}, // a good answer is news, also alone
		{55 * s, "", v1alpha1.ReasonUnreachable},
		{56 * s, OK, v1alpha1.ReasonUnreachable}, // one good answer proves nothing
		{57 * s, OK, v1alpha1.ReasonUnreachable},
		{58 * s, OK, v1alpha1.ReasonReachable},
		{87 * s, "", v1alpha1.ReasonReachable},
		{88 * s, "", v1alpha1.ReasonUnreachable},
	}
	e := newEndpoint(testPolicy, start)
	for _, step := range steps {
		now := start.Add(step.at)
		if step.outcome == "" {
			e.advanceTo(now)
		} else {
			e.observeProbe(step.outcome, "", now)
		}
		if got := describeEndpoint(Target, &e).Reason; got != step.want {
			t.Errorf("at %s: %s, want %s", step.at, got, step.want)
		}
	}
}

func TestFrozenSince(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := newEndpoint(Policy{After: 10 * time.Second, Successes: 1}, start)
	if !e.frozenSince.Equal(start) {
		t.Errorf("frozen since %s, want the start", e.frozenSince)
	}
	e.observeProbe(OK, "", start.Add(time.Second))
	e.advanceTo(start.Add(time.Minute))
	// The freeze started when the answer became too old, not when it was looked at.
	if want := start.Add(11 * time.Second); !e.frozenSince.Equal(want) {
		t.Errorf("frozen since %s, want %s", e.frozenSince, want)
	}
}
