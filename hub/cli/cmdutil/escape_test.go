package cmdutil_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// escaped is what a terminal gets of text that is written in two parts.
func escaped(t *testing.T, text string, at int) string {
	t.Helper()
	var out bytes.Buffer
	writer := cmdutil.NewEscaped(&out)
	for _, part := range []string{text[:at], text[at:]} {
		if n, err := writer.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(part), err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestControlCharactersAreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"plain, with\ttab\nand line: ä €": "plain, with\ttab\nand line: ä €",
		"\x1b[2Jcleared":                  `\x1b[2Jcleared`,
		"a\rb\x07\x7f":                    `a\x0db\x07\x7f`,
		"\u009b31m":                       `\x9b31m`,
		"\x9b31m\xff":                     `\x9b31m\xff`,
		"\u202egnp.exe":                   `\u202egnp.exe`,
		"cut \xe2\x82":                    `cut \xe2\x82`,
	} {
		for at := range len(text) + 1 {
			if got := escaped(t, text, at); got != want {
				t.Errorf("%q, cut at %d: got %q, want %q", text, at, got, want)
			}
		}
	}
}

func FuzzEscaped(f *testing.F) {
	f.Add("\x1b]0;title\x07\u202e\xc2", uint(3))
	f.Add("plain\n\tä€😀", uint(9))
	f.Fuzz(func(t *testing.T, text string, at uint) {
		whole := escaped(t, text, 0)
		if got := escaped(t, text, int(at%uint(len(text)+1))); got != whole {
			t.Errorf("%q is %q when it is written in two parts, and %q in one", text, got, whole)
		}
		if !utf8.ValidString(whole) {
			t.Errorf("%q becomes %q, which is not UTF-8", text, whole)
		}
		if at := strings.IndexFunc(whole, func(char rune) bool {
			return char != '\n' && char != '\t' && (unicode.IsControl(char) || unicode.Is(unicode.Cf, char))
		}); at >= 0 {
			t.Errorf("%q becomes %q, with a control character at %d", text, whole, at)
		}
	})
}
