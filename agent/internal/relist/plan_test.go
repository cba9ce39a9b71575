package relist

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func of(objects map[string]string) (keys []string, cached Cache) {
	return slices.Sorted(maps.Keys(objects)), func(key string) (string, bool) {
		version, there := objects[key]
		return version, there
	}
}

func TestBehind(t *testing.T) {
	tests := map[string]struct {
		listed, cached map[string]string
		want           int
	}{
		"should be content when all is the same":              {map[string]string{"a": "5"}, map[string]string{"a": "5"}, 0},
		"should let a cache be ahead":                         {map[string]string{"a": "9"}, map[string]string{"a": "10"}, 0},
		"should want what is missing":                         {map[string]string{"a": "5", "b": "6"}, map[string]string{"a": "5"}, 1},
		"should want what is newer, also by one more digit":   {map[string]string{"a": "10"}, map[string]string{"a": "9"}, 1},
		"should want to be rid of what is gone":               {nil, map[string]string{"a": "5"}, 1},
		"should let a cache have what came after the list":    {nil, map[string]string{"a": "21"}, 0},
		"should not take versions that are no numbers for it": {map[string]string{"a": "b2"}, map[string]string{"a": "b3"}, 1},
		"should know the same version that is not a number":   {map[string]string{"a": "b2"}, map[string]string{"a": "b2"}, 0},
		"should not believe in what came after without order": {nil, map[string]string{"a": "b3"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			keys, cached := of(test.cached)
			if got := DemandOf(Listing{Version: "20", Objects: test.listed}).Behind(keys, cached); got != test.want {
				t.Errorf("behind in %d, want %d", got, test.want)
			}
		})
	}
}

func TestRelax(t *testing.T) {
	demand := DemandOf(Listing{Version: "20", Objects: map[string]string{"changed": "5", "deleted": "6", "made again": "7"}})
	demand.Relax(Listing{Version: "30", Objects: map[string]string{"changed": "25", "new": "27"}})
	for _, test := range []struct {
		cached map[string]string
		want   int
	}{
		{map[string]string{"changed": "5"}, 0},
		{map[string]string{"changed": "4"}, 1},
		{map[string]string{"changed": "25", "deleted": "6"}, 1},
		{map[string]string{"changed": "25", "deleted": "31", "new": "27"}, 0},
		{map[string]string{"changed": "25", "never seen": "20"}, 1},
	} {
		keys, cached := of(test.cached)
		if got := demand.Behind(keys, cached); got != test.want {
			t.Errorf("%v is behind in %d, want %d", test.cached, got, test.want)
		}
	}
	demand.Relax(Listing{Version: "40", Objects: map[string]string{"made again": "35"}})
	keys, cached := of(map[string]string{"made again": "7", "changed": "25"})
	if got := demand.Behind(keys, cached); got != 2 {
		t.Errorf("an object from before it was made again, and one that is gone by now: behind in %d, want 2", got)
	}
	keys, cached = of(map[string]string{"made again": "35"})
	if got := demand.Behind(keys, cached); got != 0 {
		t.Errorf("behind in %d, want 0", got)
	}
}

func TestWentBack(t *testing.T) {
	for _, test := range []struct {
		listed, seen string
		want         bool
	}{{"9", "10", true}, {"10", "10", false}, {"11", "10", false}, {"11", "", false}, {"x", "y", false}} {
		if got := WentBack(Listing{Version: test.listed}, test.seen); got != test.want {
			t.Errorf("listed at %q after %q was seen: %t", test.listed, test.seen, got)
		}
	}
}

// history is that of one kind: what there was at each version.
type history struct {
	at      []map[string]string
	objects map[string]string
}

func (w *history) change(t *rapid.T) {
	next := maps.Clone(w.objects)
	key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
	if _, there := next[key]; there && rapid.Bool().Draw(t, "delete") {
		delete(next, key)
	} else {
		next[key] = strconv.Itoa(len(w.at))
	}
	w.objects, w.at = next, append(w.at, next)
}

func (w *history) list() Listing {
	return Listing{Version: strconv.Itoa(len(w.at) - 1), Objects: w.objects}
}

// A cache goes through the history of the world as a watch tells it, some way behind, and now and then leaps to a
// later state as after a broken watch. Once it is said to be behind in nothing, it shows nothing that is older than the
// first list, and all of it that has not gone since. And it gets there, however the world keeps changing: at the latest when it is where the world was at
// the last list.
func TestACacheThatIsBehindInNothingHasCaughtUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &history{objects: map[string]string{}, at: []map[string]string{{}, {}}}
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			w.change(t)
		}
		position := rapid.IntRange(1, len(w.at)-1).Draw(t, "cache at")
		first, last := len(w.at)-1, len(w.at)-1
		demand := DemandOf(Listing{Version: fmt.Sprint(first), Objects: maps.Clone(w.objects)})
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				w.change(t)
			case 1:
				position = rapid.IntRange(position, len(w.at)-1).Draw(t, "cache goes to")
			case 2:
				last = len(w.at) - 1
				demand.Relax(w.list())
			}
			if keys, cached := of(w.at[position]); demand.Behind(keys, cached) == 0 {
				w.expectCaughtUp(t, first, last, position)
				return
			}
		}
		position = len(w.at) - 1
		demand.Relax(w.list())
		if keys, cached := of(w.at[position]); demand.Behind(keys, cached) > 0 {
			t.Fatalf("the cache is where the world was at the last list, and still behind")
		}
	})
}

// expectCaughtUp fails if the state at position shows something that is older than the state at first, or not yet what
// is still there at last.
func (w *history) expectCaughtUp(t *rapid.T, first, last, position int) {
	for key, version := range w.at[first] {
		if shown, there := w.at[position][key]; there && isOlder(shown, version) {
			t.Fatalf("%s is at %s and was listed at %s", key, shown, version)
		}
		_, shown := w.at[position][key]
		if _, lasts := w.at[last][key]; !shown && lasts && position < first {
			t.Fatalf("%s is not cached yet", key)
		}
	}
	for key, shown := range w.at[position] {
		if _, there := w.at[first][key]; !there && !isNewer(shown, fmt.Sprint(first)) {
			t.Fatalf("%s is cached at %s and was gone at %d", key, shown, first)
		}
	}
}
