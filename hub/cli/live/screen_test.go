package live

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

// terminal is as much of a terminal as a screen needs: rows of width columns, of which height are seen.
type terminal struct {
	width, height int
	rows          [][]rune
	row, column   int
	// strange are the sequences that it was given and does not know.
	strange []string
}

var sequence = regexp.MustCompile(`^\x1b\[([0-9;?]*)([A-Za-z])`)

func (t *terminal) Write(text []byte) (int, error) {
	rest := string(text)
	for rest != "" {
		if found := sequence.FindStringSubmatch(rest); found != nil {
			t.obey(found[1], found[2])
			rest = rest[len(found[0]):]
			continue
		}
		char := []rune(rest)[0]
		rest = rest[len(string(char)):]
		t.put(char)
	}
	return len(text), nil
}

func (t *terminal) obey(parameter, command string) {
	switch command {
	case "A":
		up, _ := strconv.Atoi(parameter)
		t.row = max(t.row-up, len(t.rows)-t.height, 0)
	case "K":
		t.rows[t.row] = t.rows[t.row][:min(t.column, len(t.rows[t.row]))]
	case "J":
		t.rows = t.rows[:t.row+1]
		t.rows[t.row] = t.rows[t.row][:min(t.column, len(t.rows[t.row]))]
	case "m":
	default:
		t.strange = append(t.strange, parameter+command)
	}
}

func (t *terminal) put(char rune) {
	for len(t.rows) <= t.row {
		t.rows = append(t.rows, nil)
	}
	switch char {
	case '\r':
		t.column = 0
		return
	case '\n':
		if t.row++; len(t.rows) <= t.row {
			t.rows = append(t.rows, nil)
		}
		return
	}
	if char < ' ' || char == 0x7f || char >= 0x80 && char < 0xa0 {
		t.strange = append(t.strange, fmt.Sprintf("%q", char))
		return
	}
	size := runewidth.RuneWidth(char)
	if size == 0 {
		return
	}
	if t.column+size > t.width {
		t.column = 0
		t.put('\n')
	}
	line := &t.rows[t.row]
	for len(*line) < t.column+size {
		*line = append(*line, ' ')
	}
	(*line)[t.column] = char
	t.column += size
}

// shows is what is on the terminal.
func (t *terminal) shows() string {
	var lines []string
	for _, row := range t.rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// narrowTo makes the terminal narrower as terminals do that break lines again.
func (t *terminal) narrowTo(width int) {
	var rows [][]rune
	row := 0
	for i, line := range t.rows {
		if i == t.row {
			row = len(rows)
		}
		for len(line) > width {
			rows = append(rows, line[:width:width])
			line = line[width:]
		}
		rows = append(rows, line)
	}
	t.width, t.rows, t.row = width, rows, row
}

func newTestScreen(width, height int) (*screen, *terminal) {
	shown := &terminal{width: width, height: height}
	return &screen{out: shown, size: func() (int, int) { return shown.width, shown.height }, colour: true}, shown
}

func texts(lines ...string) (made []Line) {
	for _, line := range lines {
		made = append(made, Line{Text: line, Tone: Bad})
	}
	return made
}

func TestAScreenIsRedrawnInPlace(t *testing.T) {
	g := NewWithT(t)
	s, shown := newTestScreen(40, 10)
	_, _ = shown.Write([]byte("$ kubectl hollow status -w\r\n"))
	g.Expect(s.draw(texts("one", "two", "three"))).To(Succeed())
	g.Expect(shown.shows()).To(Equal("$ kubectl hollow status -w\none\ntwo\nthree"))
	g.Expect(s.draw(texts("1", "2"))).To(Succeed())
	g.Expect(shown.shows()).To(Equal("$ kubectl hollow status -w\n1\n2"), "and what was before stays")
	g.Expect(s.draw(texts("1", "2", "3", "4"))).To(Succeed())
	g.Expect(shown.shows()).To(HaveSuffix("\n1\n2\n3\n4"))
}

// Lines that are wider than the terminal, of wide characters too, are cut, and lines that it has no room for are counted.
func TestAScreenFitsItsTerminal(t *testing.T) {
	g := NewWithT(t)
	s, shown := newTestScreen(40, 5)
	for range 3 {
		g.Expect(s.draw(texts(strings.Repeat("界", 30), strings.Repeat("x", 41), "3", "4", "5", "6"))).To(Succeed())
		g.Expect(strings.Split(shown.shows(), "\n")).To(HaveLen(4))
		g.Expect(shown.shows()).To(And(ContainSubstring(strings.Repeat("x", 39)+"…"), HaveSuffix("\n… 3 more lines: enlarge the terminal to…")))
	}
	s.size = func() (int, int) { return 0, 0 }
	g.Expect(s.draw(texts("of a terminal without a size"))).To(Succeed())
}

func TestATerminalThatHasBecomeNarrowerIsRedrawn(t *testing.T) {
	g := NewWithT(t)
	s, shown := newTestScreen(80, 20)
	line := strings.Repeat("word ", 15)
	for range 3 {
		g.Expect(s.draw(texts(line, line))).To(Succeed())
		shown.narrowTo(40)
	}
	g.Expect(s.draw(texts("a", "b"))).To(Succeed())
	g.Expect(shown.shows()).To(Equal("a\nb"))
}

// What comes from objects cannot command a terminal.
// Claim: No text of an object commands a terminal. Broken: lines are drawn as they are.
func TestNoLineCommandsTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		width := rapid.IntRange(20, 100).Draw(t, "width")
		s, shown := newTestScreen(width, 50)
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"\x1b]0;title\x07", "\x1b[2J\x1b[31mred", "a\r\nb\tc", "\u202eevil", "\u009b31m", "\xff\xfe", "e\u0301", "\x1b[999A",
		})).Draw(t, "text")
		lines := append([]Line{{Text: text}, {Text: Pad(text, 10) + "|"}}, Wrap(text, 2, width, 3, Busy)...)
		g.Expect(s.draw(lines)).To(Succeed())
		g.Expect(s.draw(lines)).To(Succeed())
		g.Expect(shown.strange).To(BeEmpty())
		g.Expect(len(strings.Split(shown.shows(), "\n"))).To(BeNumerically("<=", len(lines)), "no line takes two rows")
		for _, line := range Wrap(text, 2, width, 3, Busy) {
			g.Expect(Width(line.Text)).To(BeNumerically("<=", max(width, 12)))
		}
	})
}

func TestNoColours(t *testing.T) {
	g := NewWithT(t)
	s, _ := newTestScreen(40, 10)
	var out bytes.Buffer
	s.out = &out
	g.Expect(s.draw(texts("x"))).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring("\x1b[31mx\x1b[0m"))
	out.Reset()
	s.colour = false
	g.Expect(s.draw(texts("x"))).To(Succeed())
	g.Expect(out.String()).NotTo(ContainSubstring("m"))
}

func TestWrap(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Wrap("one two three four five", 2, 14, 3, Plain)).To(HaveExactElements(
		HaveField("Text", "  one two"), HaveField("Text", "  three four"), HaveField("Text", "  five")))
	g.Expect(Wrap("one two three four five", 2, 14, 2, Plain)[1].Text).To(Equal("  three four…"))
	g.Expect(Wrap("abcdefghijklmnop", 0, 10, 3, Plain)).To(HaveExactElements(HaveField("Text", "abcdefghij"), HaveField("Text", "klmnop")))
	g.Expect(Wrap("", 0, 10, 3, Plain)).To(BeEmpty())
}

func TestAgesAreNoChange(t *testing.T) {
	g := NewWithT(t)
	g.Expect(WithoutAges("for 12m30s: waiting for pod web-1")).To(Equal(WithoutAges("for 1h: waiting for pod web-1")))
	g.Expect(WithoutAges("for 12m30s: waiting for pod web-1")).NotTo(Equal(WithoutAges("for 12m30s: waiting for pod web-2")))
}
