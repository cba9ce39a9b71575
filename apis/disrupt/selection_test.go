package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
)

func drawCandidates(t *rapid.T) []disrupt.Candidate {
	candidates := make([]disrupt.Candidate, rapid.IntRange(0, 30).Draw(t, "candidates"))
	for i := range candidates {
		candidates[i] = disrupt.Candidate{
			Name:        fmt.Sprintf("node-%d", i),
			Excluded:    rapid.IntRange(0, 4).Draw(t, "excluded") == 0,
			Unavailable: rapid.IntRange(0, 4).Draw(t, "unavailable") == 0,
		}
	}
	return candidates
}

func drawSelection(t *rapid.T) disrupt.Selection {
	s := disrupt.Selection{
		Seed: rapid.Int64().Draw(t, "seed"),
		Mode: rapid.SampledFrom([]disrupt.Mode{disrupt.ModeOne, disrupt.ModeAll, disrupt.ModeFixed, disrupt.ModePercent}).Draw(t, "mode"),
	}
	if s.Mode == disrupt.ModeFixed || s.Mode == disrupt.ModePercent {
		s.Value = rapid.Int32Range(0, 100).Draw(t, "value")
	}
	if rapid.Bool().Draw(t, "bounded") {
		s.MaxUnavailable = new(rapid.Int32Range(0, 30).Draw(t, "maxUnavailable"))
	}
	return s
}

func TestASelectionStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidates, s := drawCandidates(t), drawSelection(t)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		selected := s.Select(candidates)
		down, eligible, before := 0, 0, 0
		for _, c := range candidates {
			hit := slices.Contains(selected, c.Name)
			if hit && c.Excluded {
				t.Fatalf("%s is excluded and selected", c.Name)
			}
			if hit || c.Unavailable {
				down++
			}
			if c.Unavailable {
				before++
			}
			if !c.Excluded {
				eligible++
			}
		}
		if s.MaxUnavailable != nil && down > max(before, int(*s.MaxUnavailable)) {
			t.Fatalf("%d nodes are down, want at most %d, or the %d that are so anyway", down, *s.MaxUnavailable, before)
		}
		want := map[disrupt.Mode]int{
			disrupt.ModeOne: min(1, eligible), disrupt.ModeAll: eligible,
			disrupt.ModeFixed: min(int(s.Value), eligible), disrupt.ModePercent: eligible * int(s.Value) / 100,
		}[s.Mode]
		if len(selected) > want || s.MaxUnavailable == nil && len(selected) != want {
			t.Fatalf("%d selected, want %d", len(selected), want)
		}
		if sorted := slices.Sorted(slices.Values(selected)); len(slices.Compact(sorted)) != len(selected) {
			t.Fatalf("one is selected twice: %v", selected)
		}
	})
}

func TestASelectionIsTheSameAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidates, s := drawCandidates(t), drawSelection(t)
		selected := s.Select(candidates)
		again := rapid.Permutation(candidates).Draw(t, "order")
		if got := s.Select(again); !slices.Equal(got, selected) {
			t.Fatalf("in another order: %v, want %v", got, selected)
		}
		for i := range again {
			again[i].Unavailable = again[i].Unavailable || slices.Contains(selected, again[i].Name)
		}
		if got := s.Select(again); !slices.Equal(got, selected) {
			t.Fatalf("when those that are hit are down: %v, want %v", got, selected)
		}
	})
}

func TestASelectionChangesLittleWhenNodesComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidates := drawCandidates(t)
		for i := range candidates {
			candidates[i].Unavailable = false
		}
		s := disrupt.Selection{Seed: rapid.Int64().Draw(t, "seed"), Mode: disrupt.ModeFixed, Value: rapid.Int32Range(0, 20).Draw(t, "value")}
		before := s.Select(candidates)
		after := s.Select(append(slices.Clone(candidates), disrupt.Candidate{Name: "comes"}))
		lost := 0
		for _, name := range before {
			if !slices.Contains(after, name) {
				lost++
			}
		}
		if lost > 1 || lost == 1 && !slices.Contains(after, "comes") {
			t.Fatalf("before %v, with one more %v", before, after)
		}
	})
}

func TestSeedsPartSelections(t *testing.T) {
	var candidates []disrupt.Candidate
	for i := range 100 {
		candidates = append(candidates, disrupt.Candidate{Name: fmt.Sprintf("node-%d", i)})
	}
	hits := map[string]int{}
	for seed := range int64(200) {
		for _, name := range (disrupt.Selection{Seed: seed, Mode: disrupt.ModePercent, Value: 10}).Select(candidates) {
			hits[name]++
		}
	}
	for _, c := range candidates { // 20 on average
		if n := hits[c.Name]; n < 5 || n > 45 {
			t.Errorf("%s is hit by %d of 200 seeds", c.Name, n)
		}
	}
}

func TestSelectionsAreRefusedByFieldAndRemedy(t *testing.T) {
	for want, s := range map[string]disrupt.Selection{
		"mode: want one of One, All, Fixed, Percent":   {Mode: "Some"},
		"value: want a percentage from 0 to 100":       {Mode: disrupt.ModePercent, Value: 101},
		"value: want a number from 0":                  {Mode: disrupt.ModeFixed, Value: -1},
		"value: has no meaning for the mode One":       {Mode: disrupt.ModeOne, Value: 1},
		"maxUnavailable: want a number from 0, got -1": {Mode: disrupt.ModeAll, MaxUnavailable: new(int32(-1))},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", s, err, want)
		}
	}
}
