package main

import "testing"

func FuzzFlagValues(f *testing.F) {
	for _, seed := range []string{"", "1s", "10m", "2d", "5 minutes", "-1s", "1.5s", "9999999h", "0", "1", "-1", "99999999999999999999", "١", "1_000", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var whole seconds
		if err := whole.Set(text); err == nil {
			if again := seconds(0); whole < 1 || again.Set(whole.String()) != nil || again != whole {
				t.Errorf("%q is taken as %d seconds, written as %q", text, whole, whole.String())
			}
		}
		var number positive
		if err := number.Set(text); err == nil {
			if again := positive(0); number < 1 || again.Set(number.String()) != nil || again != number {
				t.Errorf("%q is taken as %d", text, number)
			}
		}
		var duration period
		if err := duration.Set(text); err == nil {
			if again := period(0); duration <= 0 || again.Set(duration.String()) != nil || again != duration {
				t.Errorf("%q is taken as %s", text, duration.String())
			}
		}
	})
}
