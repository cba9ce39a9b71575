package live

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// usualWidth and usualHeight are the size of a terminal that does not say its own. leastWidth is what lines are cut to at least.
const usualWidth, usualHeight, leastWidth = 80, 24, 20

// screen is the part of a terminal that is drawn again and again, from where the cursor was on. What was on the terminal before stays.
type screen struct {
	out    io.Writer
	size   func() (width, height int)
	colour bool
	// drawn are the widths of the lines on the terminal.
	drawn []int
}

// newScreen returns the screen of the hub's standard output; nil if that is no terminal that can be redrawn.
func newScreen(hub *cmdutil.Hub) *screen {
	terminal, is := hub.Terminal()
	file, isFile := terminal.(*os.File)
	if !is || !isFile || os.Getenv("TERM") == "dumb" || !canRedraw {
		return nil
	}
	return &screen{out: terminal, size: func() (int, int) { return sizeOf(file) }, colour: os.Getenv("NO_COLOR") == ""}
}

// HasScreen reports whether Follow redraws one screen for the hub's standard output.
func HasScreen(hub *cmdutil.Hub) bool { return newScreen(hub) != nil }

// sizeNow is the size of the terminal.
func (s *screen) sizeNow() (width, height int) {
	width, height = s.size()
	if width <= 0 {
		width = usualWidth
	}
	if height <= 0 {
		height = usualHeight
	}
	return max(width, leastWidth), max(height, 3)
}

// draw replaces what was drawn before. What does not fit is counted in the last line.
func (s *screen) draw(lines []Line) error {
	width, height := s.sizeNow()
	if room := height - 1; len(lines) > room { // The cursor stands below the last line.
		left := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], Line{fmt.Sprintf("… %d more lines: enlarge the terminal to see them", left), Faint})
	}
	var text strings.Builder
	text.WriteString("\r")
	if up := s.countRows(width, height); up > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", up)
	}
	s.drawn = s.drawn[:0]
	for _, line := range lines {
		shown := line.cut(width)
		s.drawn = append(s.drawn, runewidth.StringWidth(shown))
		if sequence := sequences[line.Tone]; s.colour && sequence != "" {
			shown = sequence + shown + resetTone
		}
		text.WriteString(shown + "\x1b[K\r\n")
	}
	text.WriteString("\x1b[J")
	if _, err := io.WriteString(s.out, text.String()); err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	return nil
}

// countRows is how many rows of the terminal the drawn lines take: a terminal that has become narrower has broken them.
func (s *screen) countRows(width, height int) int {
	rows := 0
	for _, columns := range s.drawn {
		rows += max(1, (columns+width-1)/width)
	}
	return min(rows, height-1)
}
