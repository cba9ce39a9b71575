package main

import (
	"maps"
	"slices"
	"testing"
)

// The test itself would not end if the amount were parsed without bounds.
// Edge case: A costly quantity in `--podhost-capacity`. Also: FuzzCapacity.
func TestACostlyCapacityIsRefused(t *testing.T) {
	if capacity, err := parseCapacity("cpu=1e-2000000000"); err == nil {
		t.Errorf("got %v", capacity)
	}
}

func FuzzCapacity(f *testing.F) {
	for _, seed := range []string{"", "cpu=4,memory=8Gi,pods=110", "cpu", "=4", "cpu=", "cpu=-1", "cpu=1e-2000000000", "cpu=4,cpu=5", ",", "cpu=\"4\"", "a=b=c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		capacity, err := parseCapacity(text)
		if err != nil {
			return
		}
		for name, quantity := range capacity {
			if name == "" || quantity.Sign() < 0 {
				t.Errorf("%q: %s of %q is taken", text, quantity.String(), name)
			}
		}
	})
}

func FuzzImages(f *testing.F) {
	for _, seed := range []string{"", "host=/", "=/", "host=", "a=b=c", "host=/no/such/directory", "x=\x00", "x=."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pair string) {
		images, err := parseImages([]string{pair})
		if err == nil && (len(images) != 1 || slices.Contains(slices.Collect(maps.Keys(images)), "")) {
			t.Errorf("%q becomes %q", pair, images)
		}
		if _, err := parseImages([]string{pair, pair}); err == nil {
			t.Errorf("%q is taken twice", pair)
		}
	})
}
