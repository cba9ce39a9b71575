package live

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// Tone is how a line is shown where there are colours.
type Tone int

// The tones.
const (
	Plain Tone = iota
	// Strong is for headings.
	Strong
	// Bad is for problems, and Busy for what is in progress or waiting.
	Bad
	Busy
	// Faint is for hints.
	Faint
)

// sequences are the tones as a terminal takes them.
var sequences = map[Tone]string{Strong: "\x1b[1m", Bad: "\x1b[31m", Busy: "\x1b[33m", Faint: "\x1b[2m"}

const resetTone = "\x1b[0m"

// Line is a line of a screen. Its text may be any: what is a command to a terminal is replaced when it is drawn.
type Line struct {
	Text string
	Tone Tone
}

// Linef returns a line without a tone.
func Linef(format string, args ...any) Line { return Line{Text: fmt.Sprintf(format, args...)} }

// cut returns the line as it is drawn in width columns.
func (l Line) cut(width int) string {
	text := cmdutil.EscapeLine(l.Text)
	if runewidth.StringWidth(text) > width {
		text = runewidth.Truncate(text, width, "…")
	}
	return text
}

// Wrap breaks text between words into lines of at most width columns, each behind indent columns, and cuts what is left after most lines.
func Wrap(text string, indent, width, most int, tone Tone) []Line {
	room := max(width-indent, 10)
	var lines []string
	current := ""
	for _, word := range strings.Fields(cmdutil.EscapeLine(text)) {
		switch {
		case current == "":
			current = word
		case runewidth.StringWidth(current)+1+runewidth.StringWidth(word) <= room:
			current += " " + word
		default:
			lines = append(lines, current)
			current = word
		}
		for runewidth.StringWidth(current) > room {
			head := runewidth.Truncate(current, room, "")
			if head == "" {
				break
			}
			lines = append(lines, head)
			current = current[len(head):]
		}
	}
	if current != "" {
		lines = append(lines, current)
	}
	if len(lines) > most {
		lines = lines[:most]
		last := &lines[most-1]
		*last = runewidth.Truncate(*last, room-1, "") + "…"
	}
	wrapped := make([]Line, 0, len(lines))
	for _, line := range lines {
		wrapped = append(wrapped, Line{strings.Repeat(" ", indent) + line, tone})
	}
	return wrapped
}

// Pad fills text with blanks up to width columns, and cuts what is longer.
func Pad(text string, width int) string {
	text = cmdutil.EscapeLine(text)
	if runewidth.StringWidth(text) > width {
		text = runewidth.Truncate(text, width, "…")
	}
	return runewidth.FillRight(text, width)
}

// Width is how many columns text takes on a screen.
func Width(text string) int { return runewidth.StringWidth(cmdutil.EscapeLine(text)) }
