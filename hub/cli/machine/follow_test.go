package machine

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

// Claim: Who follows a log sees each line once: an answer may begin before what was printed, within it or behind it. Broken: lines printed twice; an answer without the end of what was printed called complete.
func TestNewLinesOfALog(t *testing.T) {
	lines := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprintf("line %d", i))
		}
		return all
	}
	for name, test := range map[string]struct {
		printed, answer, fresh []string
		continues              bool
	}{
		"nothing printed":        {nil, lines(0, 3), lines(0, 3), false},
		"nothing new":            {lines(0, 3), lines(0, 3), lines(3, 3), true},
		"within what is printed": {lines(0, 5), lines(3, 8), lines(5, 8), true},
		"before it":              {lines(3, 5), lines(0, 8), lines(5, 8), true},
		"behind it":              {lines(0, 3), lines(4, 6), lines(4, 6), false},
		"nothing lately":         {lines(0, 3), nil, nil, false},
		"equal lines":            {[]string{"a", "a"}, []string{"a", "a", "a"}, []string{"a"}, true},
	} {
		g := NewWithT(t)
		fresh, continues := newLines(test.printed, test.answer)
		g.Expect(fresh).To(HaveLen(len(test.fresh)), name)
		g.Expect(append([]string{}, fresh...)).To(Equal(append([]string{}, test.fresh...)), name)
		g.Expect(continues).To(Equal(test.continues), name)
	}
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		all := lines(0, rapid.IntRange(1, 60).Draw(t, "lines"))
		written := rapid.IntRange(1, len(all)).Draw(t, "first")
		start := rapid.IntRange(0, written-1).Draw(t, "tail")
		printed, want := append([]string{}, all[start:written]...), all[start:]
		shown := written
		for shown < len(all) {
			written = rapid.IntRange(shown, len(all)).Draw(t, "written")
			from := rapid.IntRange(0, shown).Draw(t, "from")
			fresh, _ := newLines(printed, all[from:written])
			printed, shown = append(printed, fresh...), written
		}
		g.Expect(printed).To(Equal(want))
	})
}
