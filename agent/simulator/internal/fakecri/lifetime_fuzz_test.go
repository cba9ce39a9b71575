package fakecri

import "testing"

// Users write these annotations on pods.
func FuzzLifetime(f *testing.F) {
	for _, seed := range [][2]string{{"30s", "0"}, {"2d", "256"}, {"-1s", "-1"}, {"", ""}, {"9999999h", "07"}, {"1e9s", "\x00"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, after, code string) {
		life, err := lifetimeOf(map[string]string{ExitAfterAnnotation: after, ExitCodeAnnotation: code})
		if err == nil && (!life.ends || life.after < 0 || life.exitCode < 0 || life.exitCode > 255) {
			t.Errorf("%q and %q become %+v", after, code, life)
		}
	})
}
