package cmdutil

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Escaped is a writer to out that replaces control characters: what agents and users write into objects must not reach
// the terminal as commands to it. Lines and tabs stay. Close writes what is left of a character that was cut off.
type Escaped struct {
	out io.Writer

	mu   sync.Mutex // Commands that wait write from several goroutines.
	rest []byte
}

// NewEscaped returns a writer to out.
func NewEscaped(out io.Writer) *Escaped { return &Escaped{out: out} }

// Write implements io.Writer.
func (e *Escaped) Write(text []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := append(e.rest, text...)
	e.rest = nil
	var escaped []byte
	for len(all) > 0 {
		if !utf8.FullRune(all) {
			e.rest = append(e.rest, all...)
			break
		}
		char, size := utf8.DecodeRune(all)
		escaped = appendEscaped(escaped, char, all[:size])
		all = all[size:]
	}
	if _, err := e.out.Write(escaped); err != nil {
		return 0, err
	}
	return len(text), nil
}

// EscapeLine returns text with its control characters replaced, also those that end a line: for what is written to a terminal as it is.
func EscapeLine(text string) string {
	var escaped []byte
	for len(text) > 0 {
		char, size := utf8.DecodeRuneInString(text)
		if char == '\n' || char == '\t' {
			escaped = append(escaped, ' ')
		} else {
			escaped = appendEscaped(escaped, char, []byte(text[:size]))
		}
		text = text[size:]
	}
	return string(escaped)
}

// Close implements io.Closer.
func (e *Escaped) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var escaped []byte
	for _, b := range e.rest {
		escaped = fmt.Appendf(escaped, `\x%02x`, b)
	}
	e.rest = nil
	_, err := e.out.Write(escaped)
	return err
}

// appendEscaped appends char, which is written as raw. Cf are characters such as those that turn the direction of writing.
func appendEscaped(text []byte, char rune, raw []byte) []byte {
	switch {
	case char == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(text, `\x%02x`, raw[0])
	case char == '\n' || char == '\t':
		return append(text, raw...)
	case unicode.IsControl(char):
		return fmt.Appendf(text, `\x%02x`, char)
	case unicode.Is(unicode.Cf, char):
		return fmt.Appendf(text, `\u%04x`, char)
	}
	return append(text, raw...)
}
